//! Making the runs of the schedule again from the log, as of a checkpoint: to compare them with those that are there,
//! or to put them in their place.
//!
//! It is done in pieces, by whoever has time, without the lock: [`plan_rebuild`] says which, [`rebuild_piece`] compares
//! one and writes its run beside the store, [`adopt_rebuilt`] has the lock and puts all of them in their places by one
//! checkpoint of the same position. Nothing of the store changes before that is durable. See
//! `docs/decisions/0011-rebuilding-runs.md`.

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

/// Sequences that a refusal names at most.
const NAMED_MAX: usize = 10;

pub use adoption::{Adopted, adopt_rebuilt};
pub use comparison::{RebuildCounts, RebuildExample};
pub use finding::RebuildFinding;
pub use piece::{RebuiltPiece, rebuild_piece};
pub use plan::{KeptWindow, RebuildPiece, RebuildPlan, plan_rebuild};
