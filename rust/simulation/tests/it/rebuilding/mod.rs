//! Runs that are rebuilt from the log.

mod adoption;
mod runs;
