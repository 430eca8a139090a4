//! Rebuilds one piece: reads it from the log, compares it with the present run, and stages a new run on request.

use std::sync::Arc;

use super::basis::Basis;
use super::comparison::{Compared, RebuildCounts, RebuildExample, compare};
use super::log_entries::rows_from_log;
use super::plan::{RebuildPlan, bits_of};
use super::run_writer::write_beside;
use crate::error::Result;
use crate::message_log::Identity;
use crate::run::{LoadName, StagedRun};
use crate::storage::Storage;
use crate::store::salvage::payloads::Payloads;
use crate::store::salvage::storage::PatientStorage;

/// The result of rebuilding a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuiltPiece {
    /// The comparison of the present run with the log.
    pub counts: RebuildCounts,
    /// Examples of messages with a finding, the worst first.
    pub examples: Vec<RebuildExample>,
    /// The staged run; `None` if not requested, or if it would have no rows.
    pub staged: Option<StagedRun>,
}

/// Rebuilds a piece in memory, which takes about 200 bytes for each of its sequences, and compares it with the present
/// run. With `stage`, also writes the run that may replace the present one, under this name in the folder of staged
/// runs. The store does not change, and a staged run that is not adopted is removed after a day. The run does not
/// contain messages that would vanish.
///
/// # Errors
/// `InvalidArgument` naming `plan` if the plan is of another store or its checkpoint is gone, or naming `index`.
/// `NewerFormat`. `Storage`, also if the run cannot be written.
pub fn rebuild_piece(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    plan: &RebuildPlan,
    index: u32,
    stage: Option<(&dyn Storage, LoadName)>,
) -> Result<RebuiltPiece> {
    let piece = plan.piece(index)?;
    let patient: Arc<dyn Storage> = Arc::new(PatientStorage::new(storage));
    let read = plan.read_again(patient.as_ref(), identity)?;
    let bits = bits_of(&read.snapshot.windows, piece)?;
    let basis = Basis::of(&patient, identity.stream, read)?;
    let mut payloads = Payloads::new(&patient, &basis.loaded);
    let log = rows_from_log(&basis, &bits)?;
    let Compared { counts, examples, rows } = compare(&basis, (&bits, piece.old_run), &log, &mut payloads)?;
    drop(log);
    let staged = match stage {
        Some((storage, name)) if !rows.is_empty() => {
            Some(write_beside(storage, name, (piece.run, &identity.stream), &rows, &mut payloads)?)
        }
        _ => None,
    };
    Ok(RebuiltPiece { counts, examples, staged })
}
