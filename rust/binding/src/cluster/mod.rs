//! A node of a group of copies, for the command line. Read `options` (from Python), then `node`, then `failures`.

mod failures;
pub(crate) mod node;
mod options;
