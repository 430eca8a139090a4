//! Verifies the runs of a store block by block, and says for each damaged run which checkpoint needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::run::{DispatchRow, LoadName, Run, RunHoles, RunKind, ScheduleRow};
use crate::storage::Storage;
use crate::store::checkpoint::file::ReadCheckpoint;
use crate::store::checkpoint::paths::checkpoint_path;
use crate::store::inspect::verification::Verification;
use crate::store::recovery::restoration::open_loaded;
use crate::store::state::State;
use crate::units::RunNumber;

/// Reads every block of every run that a checkpoint names.
///
/// # Errors
/// `Storage`, `NewerFormat`; all other errors become findings.
pub(in crate::store) fn verify_runs(
    storage: &dyn Storage,
    stream: &[u8; 16],
    checkpoints: &[ReadCheckpoint],
    found: &mut Verification,
) -> Result<()> {
    let (mut kinds, mut loads) = (BTreeMap::new(), BTreeMap::new());
    // Only holes that both checkpoints name are punched, so the oldest checkpoint that names a run lists all its
    // holes.
    let mut holes = BTreeMap::new();
    for checkpoint in checkpoints {
        let files = &checkpoint.files;
        loads.extend(
            files
                .schedule_runs
                .iter()
                .filter(|run| files.loads.contains_key(&run.number))
                .map(|run| (run.number, (run, checkpoint))),
        );
        for run in &files.schedule_runs {
            holes.entry(run.number).or_insert(&files.run_holes);
        }
        kinds.extend(files.schedule_runs.iter().map(|run| (run.number, RunKind::Schedule)));
        kinds.extend(files.dispatch_runs.iter().map(|run| (run.number, RunKind::Dispatch)));
    }
    let none = RunHoles::default();
    for (number, kind) in kinds {
        found.runs += 1;
        let findings = &mut found.findings;
        let spared = spared_by_newest(checkpoints, number);
        let mut report = |error: Error| findings.push(format!("{error}{spared}"));
        let opened = match loads.get(&number) {
            Some((named, checkpoint)) => open_loaded(storage, named, checkpoint, stream),
            None => Run::open(storage, number, kind, stream),
        };
        match opened {
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) => report(error),
            Ok(run) if kind == RunKind::Schedule => {
                run.verify_past::<ScheduleRow>(holes.get(&number).copied().unwrap_or(&none), &mut report);
            }
            Ok(run) => {
                run.verify::<DispatchRow>(&mut report);
            }
        }
    }
    Ok(())
}

/// Returns what to add to a finding about a run that the newest checkpoint does not name; empty for other runs.
fn spared_by_newest(checkpoints: &[ReadCheckpoint], number: RunNumber) -> String {
    let names = |read: &&ReadCheckpoint| {
        read.files.schedule_runs.iter().chain(&read.files.dispatch_runs).any(|run| run.number == number)
    };
    let older = checkpoints.iter().rfind(names);
    match (older, checkpoints.last()) {
        (Some(older), Some(newest)) if older.number != newest.number => format!(
            "; only {} needs it, and the newest, {}, does not: the store opens without it",
            checkpoint_path(older.number),
            checkpoint_path(newest.number)
        ),
        _ => String::new(),
    }
}

/// Verifies the loaded runs that only facts after the last checkpoint name.
pub(super) fn verify_unnamed_loads(state: &State, checkpoints: &[ReadCheckpoint], found: &mut Verification) {
    let named: BTreeSet<LoadName> =
        checkpoints.iter().flat_map(|checkpoint| checkpoint.files.loads.values()).map(|load| load.name).collect();
    let is_unnamed = |run: &&Arc<Run>| run.relation().is_some_and(|relation| !named.contains(&relation.name));
    for run in state.loaded_runs().iter().filter(is_unnamed) {
        found.runs += 1;
        run.verify::<ScheduleRow>(&mut |error| found.findings.push(error.to_string()));
    }
}
