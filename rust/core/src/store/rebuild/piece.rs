//! One piece: read from the log, compared with what is there, and written beside the store where that is asked for.

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

/// What a piece came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RebuiltPiece {
    /// How its messages in the run that is there compare with the log.
    pub counts: RebuildCounts,
    /// Some with which something is wrong, the worst first.
    pub examples: Vec<RebuildExample>,
    /// The run that was written; none where nobody asked for one, or it would have no rows.
    pub staged: Option<StagedRun>,
}

/// Rebuilds a piece in memory, some 200 bytes for each of its sequences, and compares it with the run that is there. With `stage`, the run
/// that may take its place is written under this name among what was staged; nothing of the store changes by it, and
/// what nobody adopts goes when it is a day old. A message that would vanish is not in it.
///
/// # Errors
/// `InvalidArgument` naming `plan` where it is of another store or its checkpoint is gone, or `index`. `NewerFormat`;
/// `Storage`, also for what cannot be written.
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
