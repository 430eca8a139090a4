//! The files of loads, which batches name and do not contain.
//!
//! Before a load is in its log, the primary asks all copies to hold its files, and counts those that do (`outgoing`). A copy asks for
//! one part after the other of those that it lacks (`incoming`), as it does of a snapshot. It asks by itself for the files that a batch
//! names: it was away when the load was made, or the load is one of an earlier primary. The reader's thread reads the parts (`parts`). The
//! files and their checks are in `delaymq_core::store`.

pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod parts;

/// See the module.
#[derive(Default)]
pub(crate) struct Loads {
    pub(crate) outgoing: outgoing::Outgoing,
    pub(crate) incoming: incoming::LoadFiles,
}
