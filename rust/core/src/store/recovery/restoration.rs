//! Restores the state of a checkpoint. Only the footers of its runs are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::{SEGMENT_HEADER_BYTES, ScanStart, Stream};
use crate::planted::{Planted, is_on};
use crate::run::{Run, RunKind, run_path};
use crate::schedule_log::{Schedule, Window};
use crate::storage::Storage;
use crate::store::checkpoint::file::ReadCheckpoint;
use crate::store::checkpoint::named_files::{NamedFiles, NamedRun};
use crate::store::checkpoint::paths::CHECKPOINT_FOLDER;
use crate::store::checkpoint::snapshot::Snapshot;
use crate::store::checkpoint::window_codec::WindowSnapshot;
use crate::store::options::OwnerOptions;
use crate::store::owner::Owner;
use crate::store::retention::kept_files::KeptFiles;
use crate::store::state::{LogPosition, State};
use crate::units::{DueKey, Location, RunNumber, SegmentNumber, Sequence};

/// The position before the first fact of a stream.
pub fn first_position() -> LogPosition {
    LogPosition {
        end: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES),
        chain: 0,
        next_sequence: Sequence(1),
        ..LogPosition::default()
    }
}

pub(in crate::store) fn feed_from(checkpoint: Option<&ReadCheckpoint>) -> DueKey {
    checkpoint.map_or(DueKey::START, |read| read.snapshot.feed_from)
}

/// Makes an owner as of a checkpoint, or as of the first fact, for reading only.
pub(in crate::store) fn restored_owner(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    checkpoint: Option<&ReadCheckpoint>,
) -> Result<Owner> {
    let (state, kept) = restore(storage, stream, checkpoint, None)?;
    Ok(Owner::with_state(storage, state, OwnerOptions::default(), kept, 1, feed_from(checkpoint)))
}

pub(in crate::store) fn scan_start(position: &LogPosition) -> ScanStart {
    ScanStart {
        location: position.end,
        chain: position.chain,
        next_sequence: position.next_sequence,
        epoch: position.epoch,
        trusted: position.trusted,
        vouched: position.end,
    }
}

/// Restores the state of the checkpoint. Only the footers of its runs are read.
pub(super) fn restore(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    used: Option<&ReadCheckpoint>,
    older: Option<&KeptFiles>,
) -> Result<(State, Vec<KeptFiles>)> {
    let Some(used) = used else {
        return Ok((State::new(stream, first_position()), Vec::new()));
    };
    let runs = open_runs(storage, stream, used)?;
    let state = state_of(stream, &used.snapshot, &used.files, &runs)?;
    check_windows(&state)?;
    check_postings(&state)?;
    let kept = older.into_iter().cloned().chain([used.kept()]).collect();
    Ok((state, kept))
}

fn open_runs(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    used: &ReadCheckpoint,
) -> Result<BTreeMap<RunNumber, Arc<Run>>> {
    let mut runs = BTreeMap::new();
    let schedule = used.files.schedule_runs.iter().map(|named| (named, RunKind::Schedule));
    let dispatch = used.files.dispatch_runs.iter().map(|named| (named, RunKind::Dispatch));
    for (named, kind) in schedule.chain(dispatch) {
        runs.insert(named.number, open_run(storage, stream, kind, named, used)?);
    }
    Ok(runs)
}

pub(in crate::store) fn open_run(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    kind: RunKind,
    named: &NamedRun,
    used: &ReadCheckpoint,
) -> Result<Arc<Run>> {
    if used.files.loads.contains_key(&named.number) {
        return Ok(Arc::new(open_loaded(storage.as_ref(), named, used, &stream.id)?.let_go(storage)));
    }
    let run = Run::open(storage.as_ref(), named.number, kind, &stream.id)?;
    if run.length() != named.length || run.digest() != named.check {
        let words = |length: u64, check: u32| format!("{length} bytes with check {check:08x}");
        let (expected, found) = (words(named.length, named.check), words(run.length(), run.digest()));
        return Err(Error::corrupt(&run_path(named.number), 0, expected, found));
    }
    Ok(Arc::new(run))
}

/// Opens a loaded run as the checkpoint names it.
pub(in crate::store) fn open_loaded(
    storage: &dyn Storage,
    named: &NamedRun,
    used: &ReadCheckpoint,
    stream: &[u8; 16],
) -> Result<Run> {
    let subjects = &used.snapshot.subjects;
    match used.files.loads.get(&named.number) {
        Some(load) => load.open(storage, named, stream, &|name| subjects.number(name)),
        None => Run::open(storage, named.number, RunKind::Schedule, stream),
    }
}

/// Makes the state of the checkpoint with these runs.
pub(in crate::store) fn state_of(
    stream: Stream,
    snapshot: &Snapshot,
    files: &NamedFiles,
    runs: &BTreeMap<RunNumber, Arc<Run>>,
) -> Result<State> {
    let mut state = State::new(stream, snapshot.position);
    state.epochs.clone_from(&snapshot.epochs);
    (state.segments, state.subjects) = (snapshot.segments.clone(), snapshot.subjects.clone());
    (state.holes, state.run_holes) = (files.holes.clone(), files.run_holes.clone());
    state.groups = snapshot.groups.clone();
    state.ended_groups = snapshot.ended_groups.clone();
    (state.moves, state.recurring) = (snapshot.moves.clone(), snapshot.recurring.clone());
    (state.keys, state.dispatched_keys) = (snapshot.keys.clone(), snapshot.dispatched_keys.clone());
    (state.ids, state.load_jobs) = (snapshot.ids.clone(), snapshot.load_jobs.clone());
    (state.next_group, state.next_consumer) = (snapshot.next_group, snapshot.next_consumer);
    (state.next_run, state.voided, state.delay_ms_max) = (snapshot.next_run, snapshot.voided, snapshot.delay_ms_max);
    for (subject, queue) in &snapshot.queues {
        state.dispatch.restore_queue(*subject, queue.next, (queue.finished_below, queue.listed_from))?;
        state.counts.restore(*subject, queue.pending);
    }
    state.restore_totals(&snapshot.totals);
    for named in &files.dispatch_runs {
        if let Some(run) = runs.get(&named.number) {
            state.dispatch.restore_run(Arc::clone(run));
        }
    }
    for named in files.schedule_runs.iter().chain(&files.dispatch_runs) {
        if let Some(run) = runs.get(&named.number) {
            state.runs.insert(named.number, named.known(run));
        }
    }
    let left_out = if is_on(Planted::TwoNewestRecovered) { snapshot.windows.len().saturating_sub(2) } else { 0 };
    let windows = snapshot.windows.iter().skip(left_out).map(|window| window_of(window, runs)).collect();
    state.schedule = Schedule::restored(windows, snapshot.position.next_sequence, snapshot.position.trusted);
    Ok(state)
}

fn window_of(window: &WindowSnapshot, runs: &BTreeMap<RunNumber, Arc<Run>>) -> Window {
    let run = window.run.and_then(|number| runs.get(&number)).cloned();
    Window::restored(window.bits.clone(), run, window.ended.clone())
}

/// Checks that each window without a run has no pending entries.
pub(in crate::store) fn check_windows(state: &State) -> Result<()> {
    for window in state.schedule.windows() {
        if window.pending() > 0 && window.run().is_none() {
            let found = format!("{} pending from sequence {} on, and no run", window.pending(), window.first());
            return Err(Error::corrupt(CHECKPOINT_FOLDER, 0, "a run for each window with pending entries", found));
        }
    }
    Ok(())
}

/// Checks that each unfinished ready message of the checkpoint is in one of its runs.
pub(in crate::store) fn check_postings(state: &State) -> Result<()> {
    for (subject, _) in state.subjects.iter() {
        let mut number = state.dispatch.listed_from(subject);
        while number < state.dispatch.next_number(subject) {
            let held = state.dispatch.runs().iter().map(|run| run.count_from(subject, number)).max().unwrap_or(0);
            if held == 0 {
                let expected = format!("a posting of ready number {number} of subject {subject}");
                return Err(Error::corrupt(CHECKPOINT_FOLDER, 0, expected, "none in any run"));
            }
            number = number.plus(held);
        }
    }
    Ok(())
}
