//! Opening: from what a stop left on disk to a state that is exactly what the log says.
//!
//! Until everything that is needed was found whole, only reading is done, so that a refusal leaves the files as
//! they were. Then, in this order: a newer checkpoint that was not used is removed (else it would be trusted one
//! day), files that no kept checkpoint names are removed, the suspect tail is repaired, and the facts behind the
//! checkpoint are applied. Nothing is dispatched before the log is applied to its end.

pub(super) mod leftovers;
pub(super) mod opening;
pub(super) mod ready_rescue;
pub(super) mod rescue;
pub(super) mod visible_state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::checkpoint::file::{CHECKPOINT_FOLDER, ReadCheckpoint, list_checkpoints, read_checkpoint};
use super::checkpoint::named_files::{NamedFiles, NamedRun};
use super::checkpoint::snapshot::{Snapshot, WindowSnapshot};
use super::options::OwnerOptions;
use super::owner::{Owner, VisibleBatch};
use super::retention::kept_files::{KeptFiles, checkpoint_path};
use super::retention::pins::is_pinned;
use super::retention::stale_loads::Sweep;
use super::state::{LogPosition, State};
use crate::error::{Error, Result};
use crate::message_log::{
    EpochSource, Identity, LOG_FOLDER, SEGMENT_HEADER_BYTES, ScanStart, Scanner, SegmentHeader, Stream, list_segments,
    records_max, repair, segment_path,
};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};
use crate::run::{RUN_FOLDER, Run, RunKind, run_path};
use crate::schedule_log::{Schedule, Window};
use crate::storage::{Storage, read_upto};
use crate::units::{DueKey, Epoch, Location, Millis, RunNumber, SegmentNumber, Sequence};
use leftovers::remove_unused;

/// How far recovery has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryProgress {
    /// Facts applied so far.
    pub facts: u64,
    /// Log bytes applied so far.
    pub bytes: u64,
    /// Log bytes to apply in all.
    pub bytes_whole: u64,
}

/// What opening found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// The checkpoint that was used, if any.
    pub checkpoint: Option<u32>,
    /// Checkpoints that could not be used, with the reason.
    pub checkpoints_refused: Vec<(String, String)>,
    /// Facts applied behind the checkpoint.
    pub facts: u64,
    /// Log bytes read behind the checkpoint.
    pub bytes: u64,
    /// What the repair of a suspect tail set aside, in words.
    pub set_aside: Vec<String>,
}

/// An owner whose state is what the log says, and where the log goes on.
pub struct Recovered {
    /// The owner.
    pub owner: Owner,
    /// This opening's epoch, durable.
    pub epoch: Epoch,
    /// The position behind the last fact that was kept.
    pub position: LogPosition,
    /// The trusted time of the log's last batch: the clock's floor.
    pub trusted: Millis,
    /// The number of the segment to begin.
    pub next_segment: SegmentNumber,
    /// What was found and done.
    pub report: RecoveryReport,
}

/// The position before the first fact of a stream.
pub fn first_position() -> LogPosition {
    LogPosition {
        end: Location::in_segment(SegmentNumber(1), SEGMENT_HEADER_BYTES),
        chain: 0,
        next_sequence: Sequence(1),
        ..LogPosition::default()
    }
}

struct Chosen {
    used: Option<ReadCheckpoint>,
    older: Option<KeptFiles>,
    newer: Vec<u32>,
    refused: Vec<(String, String)>,
}

/// Recovers the store whose identity was read. The epoch is raised once nothing stands in the way
/// of opening, and before the first file is changed.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`: refused, and no file was changed. `Storage`.
pub fn recover(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    epochs: &mut dyn EpochSource,
    options: OwnerOptions,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<Recovered> {
    let stream = identity.stream;
    let options = OwnerOptions { records_bytes_max: records_max(identity.segment_bytes), ..options };
    // What a killed process renamed or removed may not be on disk yet, and is about to be trusted.
    for folder in ["", LOG_FOLDER, RUN_FOLDER, CHECKPOINT_FOLDER] {
        if !is_on(Planted::FoldersTrustedUnsynced) {
            storage.sync_folder(folder)?;
        }
    }
    reached(Failpoint::FoldersSynced);
    let chosen = choose_checkpoint(storage.as_ref(), &stream)?;
    let mut report = RecoveryReport {
        checkpoint: chosen.used.as_ref().map(|used| used.number),
        checkpoints_refused: chosen.refused.clone(),
        ..RecoveryReport::default()
    };
    let (state, kept) = restore(storage, stream, chosen.used.as_ref(), chosen.older.as_ref())?;
    check_segments(storage.as_ref(), &stream, chosen.used.as_ref(), &state)?;
    let mut scanner = Scanner::new(Arc::clone(storage), stream, &scan_start(&state.position))?;
    reached(Failpoint::CheckpointRestored);
    let epoch = epochs.raise()?;
    reached(Failpoint::EpochRaised);
    // The log's own time: what expired while the store was closed is removed by a later opening.
    let pinned = is_pinned(storage.as_ref(), scanner.ending().trusted)?;
    let used = chosen.used.as_ref();
    remove_unused(storage.as_ref(), used, &chosen.newer, &kept, pinned)?;
    reached(Failpoint::UnusedRemoved);
    let repaired = repair(storage.as_ref(), stream, scanner.ending(), epoch)?;
    reached(Failpoint::Repaired);
    report.set_aside = repaired.set_aside;
    let next_checkpoint = chosen.used.as_ref().map_or(1, |used| used.number.saturating_add(1));
    let mut owner = Owner::with_state(storage, state, options, kept, next_checkpoint, feed_from(chosen.used.as_ref()));
    apply_log(&mut scanner, &mut owner, &mut report, progress)?;
    if !pinned {
        Sweep::of(&owner.state, &owner.kept).sweep(storage.as_ref())?;
    }
    reached(Failpoint::LogApplied);
    let position = owner.state().position;
    let known = position.trusted.max(scanner.ending().trusted);
    let trusted = if is_on(Planted::ClockFloorForgotten) { Millis(0) } else { known };
    Ok(Recovered { owner, epoch, position, trusted, next_segment: repaired.next_segment, report })
}

pub(super) fn feed_from(checkpoint: Option<&ReadCheckpoint>) -> DueKey {
    checkpoint.map_or(DueKey::START, |read| read.snapshot.feed_from)
}

/// An owner as of one checkpoint, or as of the first fact; for reading only.
pub(super) fn restored_owner(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    checkpoint: Option<&ReadCheckpoint>,
) -> Result<Owner> {
    let (state, kept) = restore(storage, stream, checkpoint, None)?;
    Ok(Owner::with_state(storage, state, OwnerOptions::default(), kept, 1, feed_from(checkpoint)))
}

pub(super) fn scan_start(position: &LogPosition) -> ScanStart {
    ScanStart {
        location: position.end,
        chain: position.chain,
        next_sequence: position.next_sequence,
        epoch: position.epoch,
        trusted: position.trusted,
        vouched: position.end,
    }
}

/// The newest checkpoint that reads whole, the one before it, and those that are newer and of no
/// use.
fn choose_checkpoint(storage: &dyn Storage, stream: &Stream) -> Result<Chosen> {
    let mut chosen = Chosen { used: None, older: None, newer: Vec::new(), refused: Vec::new() };
    for number in list_checkpoints(storage)?.into_iter().rev() {
        match read_checkpoint(storage, stream, number) {
            Ok(read) if chosen.used.is_none() => chosen.used = Some(read),
            Ok(read) => {
                chosen.older = Some(read.kept());
                break;
            }
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) if is_on(Planted::CheckpointStopsStart) => return Err(error),
            Err(error) => {
                chosen.refused.push((checkpoint_path(number), error.to_string()));
                if chosen.used.is_none() {
                    chosen.newer.push(number);
                }
            }
        }
    }
    Ok(chosen)
}

/// The state as of the checkpoint, its runs opened by their footers.
fn restore(
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

pub(super) fn open_run(
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

/// A run that was loaded, as the checkpoint names it.
pub(super) fn open_loaded(
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

/// The state as of the checkpoint, with the runs that are given.
pub(super) fn state_of(
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
    (state.keys, state.ids, state.load_jobs) =
        (snapshot.keys.clone(), snapshot.ids.clone(), snapshot.load_jobs.clone());
    (state.next_group, state.next_consumer) = (snapshot.next_group, snapshot.next_consumer);
    (state.next_run, state.voided, state.delay_ms_max) = (snapshot.next_run, snapshot.voided, snapshot.delay_ms_max);
    for (subject, queue) in &snapshot.queues {
        state.dispatch.restore_queue(*subject, queue.next, queue.finished_below)?;
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

/// A window whose run is no longer named must have nothing pending in it.
pub(super) fn check_windows(state: &State) -> Result<()> {
    for window in state.schedule.windows() {
        if window.pending() > 0 && window.run().is_none() {
            let found = format!("{} pending from sequence {} on, and no run", window.pending(), window.first());
            return Err(Error::corrupt(CHECKPOINT_FOLDER, 0, "a run for each window with pending entries", found));
        }
    }
    Ok(())
}

/// Every unfinished ready message of the checkpoint must be in one of its runs.
pub(super) fn check_postings(state: &State) -> Result<()> {
    for (subject, _) in state.subjects.iter() {
        let mut number = state.dispatch.finished_below(subject);
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

/// Every segment from the floor to where the replay starts must be there, with its own header.
fn check_segments(storage: &dyn Storage, stream: &Stream, used: Option<&ReadCheckpoint>, state: &State) -> Result<()> {
    let there: BTreeSet<SegmentNumber> = list_segments(storage)?.into_iter().collect();
    let replay = state.position.end.segment().unwrap_or(SegmentNumber(1));
    let floor = used.map_or(SegmentNumber(1), |used| used.files.floor);
    for number in (floor.0..=replay.0).map(SegmentNumber) {
        let path = segment_path(number);
        if !there.contains(&number) {
            return Err(Error::MissingFile { path, reason: format!("segments from {floor} on are needed") });
        }
        let file = storage.open(&path)?;
        let block = read_upto(file.as_ref(), 0, SEGMENT_HEADER_BYTES as usize)?;
        SegmentHeader::read(&path, &block)?.check_place(&path, number, stream)?;
    }
    Ok(())
}

fn apply_log(
    scanner: &mut Scanner,
    owner: &mut Owner,
    report: &mut RecoveryReport,
    progress: &mut dyn FnMut(RecoveryProgress),
) -> Result<()> {
    let bytes_whole = scanner.ending().bytes;
    while let Some(batch) = scanner.next_batch()? {
        owner.apply_facts(&VisibleBatch { header: batch.header, start: batch.start, records: batch.records() })?;
        report.facts = report.facts.saturating_add(u64::from(batch.header.count.get()));
        report.bytes = report.bytes.saturating_add(u64::from(batch.header.length.get()));
        progress(RecoveryProgress { facts: report.facts, bytes: report.bytes, bytes_whole });
        owner.take_outcomes();
        owner.take_woken();
        scanner.recycle(batch.bytes);
    }
    owner.settle_at_open()
}
