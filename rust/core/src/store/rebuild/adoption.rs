//! Replaces runs by rebuilt ones, with one checkpoint of the same position that is the first to name the rebuilt runs.
//! Until the name of that checkpoint is durable, the store is unchanged, and the next open removes files in the run
//! folder that no checkpoint names.

use std::sync::Arc;

use super::adopted_files::AdoptedFiles;
use super::basis::{Basis, newest_checkpoint};
use super::plan::{RebuildPlan, bits_of, plan_again};
use super::staged::{CheckedRun, check_run, refuse_vanishing};
use crate::error::{Error, Result};
use crate::message_log::{Identity, LOG_FOLDER, Stream};
use crate::planted::{Planted, is_on};
use crate::run::{LOAD_FOLDER, RUN_FOLDER, StagedRun, run_path};
use crate::storage::Storage;
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path, list_checkpoints};
use crate::store::salvage::payloads::Payloads;
use crate::store::salvage::storage::PatientStorage;

/// The result of an adoption.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Adopted {
    /// The number of runs that replaced others.
    pub runs: u64,
    /// The number of pending messages in these runs.
    pub messages: u64,
}

/// Replaces the runs of all pieces, or changes nothing. The store must be closed, and the caller holds its lock.
/// `pieces` are indexes, each with the run that [`super::rebuild_piece`] staged. All staged runs are first read
/// completely. An interrupted adoption is repeated with the same arguments; a repetition after a complete one returns
/// the same result.
///
/// # Errors
/// `InvalidArgument` naming `plan` if the newest checkpoint is no longer the plan's; naming `index` if a piece does not
/// exist, is missing or occurs twice; naming `staged` if a message would vanish. `Corrupt` if there is a newer
/// checkpoint and it cannot be read. `MissingFile`, `Corrupt`, `DamagedPayload` if a staged run is not as described, or
/// a file that stays cannot be read. `NewerFormat`. `Storage`: the next open finds the adoption done or not done.
pub fn adopt_rebuilt(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    plan: &RebuildPlan,
    pieces: &[(u32, Option<StagedRun>)],
) -> Result<Adopted> {
    let (stream, disk) = (identity.stream, storage.as_ref());
    let has_runs = sync_folders(disk)?;
    let told = told_of(plan, pieces)?;
    let newest = newest_checkpoint(disk, &stream)?;
    if newest.is_none() && plan.checkpoint.is_none() {
        return Ok(Adopted::default());
    }
    let (number, check) = plan.of_store(identity)?;
    let read = newest.ok_or_else(|| plan_again(number, "it is gone"))?;
    if (read.number, read.check) != (number, check) {
        let found = || format!("the newest is {}", checkpoint_path(read.number));
        let is_done = if told.is_empty() {
            has_same_position(disk, &stream, (number, check), &read)
        } else {
            names_all(&read, plan, &told)
        };
        return if is_done { Ok(adopted(told.iter().flatten())) } else { Err(plan_again(number, &found())) };
    }
    refuse_behind_newer(disk, &stream, number)?;
    let patient: Arc<dyn Storage> = Arc::new(PatientStorage::new(storage));
    let basis = Basis::of(&patient, stream, read)?;
    let checked = check_all(disk, &basis, plan, &told)?;
    let files = AdoptedFiles::of(&basis, plan, &checked)?;
    if !has_runs {
        // Until the run folder exists again, no open accepts the store.
        disk.create_folder(RUN_FOLDER)?;
        disk.sync_folder("")?;
    }
    move_into_place(disk, &checked)?;
    let next = list_checkpoints(disk)?.last().copied().unwrap_or(number).max(number).saturating_add(1);
    files.save(disk, stream, next)?;
    Ok(adopted(told.iter().flatten()))
}

/// Returns an error if there is a newer checkpoint that cannot be read, since it may become readable again. After an
/// adoption it would not be kept as the older of two checkpoints, and files that only it needs would be removed.
fn refuse_behind_newer(storage: &dyn Storage, stream: &Stream, number: u32) -> Result<()> {
    let Some(newer) = list_checkpoints(storage)?.into_iter().find(|found| *found > number) else { return Ok(()) };
    let unread = read_checkpoint(storage, stream, newer).err();
    Err(unread.unwrap_or_else(|| plan_again(number, &format!("the newest is {}", checkpoint_path(newer)))))
}

/// Syncs the folders: the adoption is about to trust renames and removals of a killed process. Returns false if the run
/// folder is gone, which may be the reason for the rebuild.
fn sync_folders(storage: &dyn Storage) -> Result<bool> {
    let mut has_runs = true;
    for folder in ["", LOG_FOLDER, RUN_FOLDER, CHECKPOINT_FOLDER, LOAD_FOLDER] {
        match storage.sync_folder(folder) {
            Err(error) if error.is_not_found() && folder == LOAD_FOLDER => {}
            Err(error) if error.is_not_found() && folder == RUN_FOLDER => has_runs = false,
            other => other?,
        }
    }
    Ok(has_runs)
}

/// Returns the staged run of each piece of the plan, in plan order.
fn told_of(plan: &RebuildPlan, pieces: &[(u32, Option<StagedRun>)]) -> Result<Vec<Option<StagedRun>>> {
    let refused = |expected: &str, index: usize| Error::InvalidArgument {
        argument: "index",
        expected: expected.to_owned(),
        found: index.to_string(),
    };
    let mut told: Vec<Option<Option<StagedRun>>> = vec![None; plan.pieces().len()];
    for (index, staged) in pieces {
        plan.piece(*index)?;
        if let Some(place) = told.get_mut(*index as usize)
            && place.replace(*staged).is_some()
        {
            return Err(refused("each piece of the plan once", *index as usize));
        }
    }
    let all = told.into_iter().enumerate();
    all.map(|(index, told)| told.ok_or_else(|| refused("all pieces of the plan, and one is missing", index))).collect()
}

fn adopted<'a>(runs: impl Iterator<Item = &'a StagedRun>) -> Adopted {
    runs.fold(Adopted::default(), |sum, run| Adopted {
        runs: sum.runs.saturating_add(1),
        messages: sum.messages.saturating_add(run.rows),
    })
}

/// True if the newest checkpoint already names all these runs.
fn names_all(read: &ReadCheckpoint, plan: &RebuildPlan, told: &[Option<StagedRun>]) -> bool {
    plan.pieces().iter().zip(told).all(|(piece, told)| {
        let mut named = read.files.schedule_runs.iter();
        told.is_some_and(|told| {
            named.any(|run| (run.number, run.length, run.check) == (piece.run, told.length, told.digest))
        })
    })
}

/// True if the newest checkpoint may be the one that adopted a plan without pieces: the plan's checkpoint still exists,
/// and both have the same position.
fn has_same_position(
    storage: &dyn Storage,
    stream: &Stream,
    (number, check): (u32, u32),
    newest: &ReadCheckpoint,
) -> bool {
    let planned = read_checkpoint(storage, stream, number);
    planned.is_ok_and(|planned| planned.check == check && planned.snapshot.position == newest.snapshot.position)
}

fn check_all(
    storage: &dyn Storage,
    basis: &Basis,
    plan: &RebuildPlan,
    told: &[Option<StagedRun>],
) -> Result<Vec<CheckedRun>> {
    let mut payloads = Payloads::new(&basis.storage, &basis.loaded);
    let mut checked = Vec::new();
    for (index, (piece, told)) in plan.pieces().iter().zip(told).enumerate() {
        let bits = bits_of(&basis.read.snapshot.windows, piece)?;
        match told {
            None => refuse_vanishing(index, bits.pending())?,
            Some(named) => {
                let stream = &basis.stream.id;
                checked.push(check_run(storage, stream, (index, piece), &bits, (named, &mut payloads))?);
            }
        }
    }
    Ok(checked)
}

fn move_into_place(storage: &dyn Storage, checked: &[CheckedRun]) -> Result<()> {
    let waiting = checked.iter().filter(|run| !run.is_in_place);
    for run in waiting {
        storage.rename(&run.named.name.path(), &run_path(run.piece.run))?;
    }
    if checked.is_empty() || is_on(Planted::RebuiltNamedUnsynced) {
        return Ok(());
    }
    storage.sync_folder(RUN_FOLDER)?;
    match storage.sync_folder(LOAD_FOLDER) {
        Err(error) if error.is_not_found() => Ok(()),
        other => other,
    }
}
