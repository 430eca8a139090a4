//! Rebuilds schedule runs from the log as of a checkpoint, to compare them with the present runs or to replace these.
//!
//! The work is done in pieces, by any process and without the lock. [`plan_rebuild`] lists the pieces;
//! [`rebuild_piece`] compares one and writes its run outside the store's runs; [`adopt_rebuilt`] needs the lock and
//! replaces all runs with one checkpoint of the same position. The store does not change before that checkpoint is
//! durable. See `docs/decisions/0011-rebuilding-runs.md`.

mod adopted_files;
mod adopted_ready;
mod adoption;
mod basis;
mod comparison;
mod expected_rows;
mod finding;
mod log_entries;
mod other_copies;
mod piece;
mod plan;
mod run_writer;
mod staged;
mod unfinished_ready;

/// The maximum number of sequences that an error names.
const NAMED_MAX: usize = 10;

pub use adoption::{Adopted, adopt_rebuilt};
pub use comparison::{RebuildCounts, RebuildExample};
pub use finding::RebuildFinding;
pub use piece::{RebuiltPiece, rebuild_piece};
pub use plan::{KeptWindow, RebuildPiece, RebuildPlan, plan_rebuild};
