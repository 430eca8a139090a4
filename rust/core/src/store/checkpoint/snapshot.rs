//! The small state as of one position, and its bytes: the body of a checkpoint.
//!
//! The body is a sequence of little-endian fields. Counts and lengths of text are `u64`. In order:
//!
//! 1. position: `end u64 | chain u32 | next_sequence u64 | epoch u32 | trusted_ms u64`
//! 2. `delay_ms_max u64 | voided u64 | next_group u32 | next_consumer u32 | next_run u32`
//! 3. epochs: count, then `epoch u32 | nonce 16 | first_sequence u64 | previous_chain u32`
//! 4. subjects: count, then `number u32 | name | next u64 | finished_below u64 | listed_from u64 |
//!    gone_below u64`, gone ranges (count, `first u64 | end u64`), `ended_before u64 | expired u64 |
//!    expired_before_ms u64 | pending u64`
//! 5. groups in order of their numbers: count, then `number u32 | subject u32 | name | start u64 |
//!    cursor u64 | reserved_number u64 | marked_below u64 | again_below u64 | offset_floor u64 |
//!    consumer_ended_ms u64 | done_below u64`, done ranges (count, `first u64 | end u64`), returned (count,
//!    `number u64 | deliveries u32`), consumers (count, then `number u32 | name | next_offset u64 |
//!    reserved_offset u64 | bits u32 | seen_ms u64`, held: count, `offset u64 | number u64 | deliveries u32`);
//!    bit 0 of `bits`: lasting, bit 1: broadcast
//! 6. ended groups: count, then `subject u32 | name | offset u64`
//! 7. windows, oldest first: count, then `first u64 | length u64 | run u32` (0: none)
//!    and `ceil(length / 32)` words `u64` of two bits a sequence (0 nothing, 1 pending,
//!    2 dispatched, 3 cancelled), the first sequence in the lowest bits
//! 8. the last moves, in order: count, then `target u64 | due_ms u64 | sequence u64 | how u32 |
//!    delay_ms u64`
//! 9. keys of pending messages, by sequence: count, then `key 16 | due_ms u64 | sequence u64 | subject u32 |
//!    size u32`; keys of messages that became ready lately: `window_ms u64 | keys_max u32`, then as in 10
//! 10. ids of recent publishes, in order: count, then `id 16 | due_ms u64 | sequence u64 |
//!     subject u32 | size u32 | until_ms u64 | noted u64`
//!
//! 11. recurring series, by number: count, then `number u64 | subject u32 | name | rule | zone | catch_up u32 |
//!     last_due_ms u64 | pending_due_ms u64 | pending_sequence u64 | meta | body`
//!
//! 12. loads, in log order: count, then `job 16 | base u64 | count u64 | adopted_ms u64`; names of recently adopted
//!     staged runs, ascending: count, then `staged_ms u64 | nonce 16`
//!
//! The parts that belong to this copy alone follow, outside the digest:
//!
//! 13. `feed_due_ms u64 | feed_sequence u64`: no message at or below this key is pending, except by facts after the
//!     position
//! 14. `floor u32`; segments from the floor on: count, then `segment u32` and a position as in 1
//! 15. schedule runs, then dispatch runs: count, then `number u32 | length u64 | check u32 |
//!     created_ms u64`
//! 16. totals of the messages due in each minute: count, then `minute u32 | messages u64 | bytes u64`
//! 17. for each window of 7, in order: count, then `below u32 | is_known u32`, and the entries that its run counts and
//!     that are no longer pending: count, then `subject u32 | minute u32 | messages u64 | bytes u64`
//! 18. the subjects of each file of 14 and 15, in the same order: see [`crate::store::state::file_subjects`]
//! 19. holes of these segments, in log order: count, then two positions as in 1: where the first batch of the hole
//!     begins, and after its last batch
//! 20. holes of the schedule runs of 15, by run and place: count, then `run u32 | from u64 | to u64`
//! 21. the loaded ones of the schedule runs of 15, by number: count, then `run u32 | staged_ms u64 | nonce 16 |
//!     base u64 | rows u64`

use std::collections::BTreeMap;

use super::codec::{FieldReader, FieldWriter};
use super::forecast_codec::{ended_of, read_ended, read_totals, write_ended, write_totals};
use super::group_codec::{read_groups, write_group};
use super::log_codec::{
    read_holes, read_position, read_run_holes, read_segments, write_holes, write_position, write_run_holes,
};
use super::named_files::{NamedFiles, read_loads, read_runs, write_loads, write_runs};
use super::subject_codec::{QueueSnapshot, read_subjects, write_subjects};
use super::window_codec::{WindowSnapshot, is_pending, read_windows, write_windows};
use crate::error::Result;
use crate::message_log::Holes;
use crate::planted::{self, Planted};
use crate::queues::Group;
use crate::record::{made_up_number, written_format};
use crate::run::RunHoles;
use crate::schedule_log::{JoinedEnded, SEQUENCE_MAX, SavedEnded, TwoBits};
use crate::store::checkpoint::file_subjects_codec::{read_file_subjects, write_file_subjects};
use crate::store::names::dispatched_keys::DispatchedKeys;
use crate::store::names::keys::Keys;
use crate::store::names::recent_ids::RecentIds;
use crate::store::names::subjects::Subjects;
use crate::store::state::forecast::MinuteTotals;
use crate::store::state::load_jobs::LoadJobs;
use crate::store::state::recent_moves::RecentMoves;
use crate::store::state::recurring::Recurring;
use crate::store::state::{EpochInfo, LogPosition, SegmentStart, State};
use crate::units::{
    ConsumerNumber, DueKey, Epoch, GroupNumber, Millis, Minute, PullOffset, RunNumber, SegmentNumber, Sequence,
    SubjectNumber, Tally,
};

/// All small state as of one position.
#[derive(Clone, Debug)]
pub(in crate::store) struct Snapshot {
    pub(in crate::store) position: LogPosition,
    pub(in crate::store) delay_ms_max: u64,
    pub(in crate::store) voided: u64,
    pub(in crate::store) next_group: GroupNumber,
    pub(in crate::store) next_consumer: ConsumerNumber,
    pub(in crate::store) next_run: RunNumber,
    pub(in crate::store) epochs: Vec<EpochInfo>,
    pub(in crate::store) subjects: Subjects,
    pub(in crate::store) queues: BTreeMap<SubjectNumber, QueueSnapshot>,
    pub(in crate::store) groups: BTreeMap<GroupNumber, Group>,
    pub(in crate::store) ended_groups: BTreeMap<(SubjectNumber, String), PullOffset>,
    pub(in crate::store) windows: Vec<WindowSnapshot>,
    pub(in crate::store) moves: RecentMoves,
    pub(in crate::store) keys: Keys,
    pub(in crate::store) dispatched_keys: DispatchedKeys,
    pub(in crate::store) ids: RecentIds,
    pub(in crate::store) recurring: Recurring,
    pub(in crate::store) load_jobs: LoadJobs,
    pub(in crate::store) segments: Vec<SegmentStart>,
    /// Where a feed must begin to return all pending messages.
    pub(in crate::store) feed_from: DueKey,
    /// The totals of the messages that are due in each minute.
    pub(in crate::store) totals: Vec<(Minute, Tally)>,
}

/// The small state as of one position, frozen: its bytes, and next to them the large parts and those of this copy
/// alone. The bytes are written while the owner is held, which takes less time than a copy of all maps.
#[derive(Clone, Debug)]
pub(in crate::store) struct Frozen {
    pub(in crate::store) position: LogPosition,
    pub(in crate::store) segments: Vec<SegmentStart>,
    /// The holes of the segments.
    pub(in crate::store) holes: Holes,
    /// The holes of the payloads of runs.
    pub(in crate::store) run_holes: RunHoles,
    windows: Vec<WindowSnapshot>,
    moves: RecentMoves,
    keys: Keys,
    dispatched_keys: DispatchedKeys,
    ids: RecentIds,
    recurring: Recurring,
    load_jobs: LoadJobs,
    feed_from: DueKey,
    totals: MinuteTotals,
    /// Parts 1 to 6 of a body.
    small: Vec<u8>,
}

impl Frozen {
    /// Freezes the state. `planned` are the runs that will serve the windows in memory, by the window's first
    /// sequence. A feed that begins at `feed_from` returns all pending messages.
    pub(in crate::store) fn of(state: &State, planned: &BTreeMap<Sequence, RunNumber>, feed_from: DueKey) -> Self {
        let windows = state.schedule.windows().iter().map(|window| WindowSnapshot {
            bits: window.bits().clone(),
            run: window.run().map(|run| run.number()).or_else(|| planned.get(&window.first()).copied()),
            ended: ended_of(window),
        });
        let mut out = FieldWriter::default();
        write_small(&mut out, state);
        Self {
            position: state.position,
            segments: state.segments.clone(),
            holes: state.holes.clone(),
            run_holes: state.run_holes.clone(),
            windows: windows.collect(),
            moves: state.moves.frozen(),
            keys: state.keys.clone(),
            dispatched_keys: state.dispatched_keys.frozen(),
            ids: state.ids.frozen(),
            recurring: state.recurring.frozen(),
            load_jobs: state.load_jobs.clone(),
            feed_from,
            totals: state.totals.clone(),
            small: out.bytes,
        }
    }

    /// Returns the states of the entries of a run, as of the freeze. `None` if no window has this run.
    pub(in crate::store) fn bits_of(&self, run: RunNumber) -> Option<&TwoBits> {
        self.windows.iter().find(|window| window.run == Some(run)).map(|window| &window.bits)
    }

    /// Replaces the windows that `bits` span by one window with this run.
    pub(super) fn merge_windows(&mut self, bits: &TwoBits, run: Option<RunNumber>) {
        let from = self.windows.partition_point(|window| window.bits.first() < bits.first());
        let to = self.windows.partition_point(|window| window.bits.end() <= bits.end());
        if from < to {
            let ended = SavedEnded::none(Minute(0));
            self.windows.splice(from..to, [WindowSnapshot { bits: bits.clone(), run, ended }]);
        }
    }

    /// Joins the layers of ended entries of each window into one. Returns the joined layers, by the window's first
    /// sequence.
    pub(super) fn join_ended(&mut self) -> Vec<(Sequence, JoinedEnded)> {
        self.windows.iter_mut().filter_map(|window| Some((window.bits.first(), window.ended.join()?))).collect()
    }

    /// Returns the body, and the length of the part that is the same on every copy of the stream.
    pub(in crate::store) fn encode(&self, files: &NamedFiles) -> (Vec<u8>, usize) {
        let mut out = FieldWriter { bytes: self.small.clone() };
        write_windows(&mut out, &self.windows);
        self.moves.write(&mut out, self.position.trusted);
        let none = Keys::default();
        if planted::is_on(Planted::KeysNotSaved) { &none } else { &self.keys }.write(&mut out);
        let none = DispatchedKeys::default();
        if planted::is_on(Planted::DispatchedKeysNotSaved) { &none } else { &self.dispatched_keys }.write(&mut out);
        if planted::is_on(Planted::IdsNotSaved) { RecentIds::default() } else { self.ids.clone() }.write(&mut out);
        self.recurring.write(&mut out);
        self.load_jobs.write(&mut out);
        let logical = out.bytes.len();
        let segments = self.segments.iter().filter(|start| start.segment >= files.floor);
        out.u64(self.feed_from.due.0);
        out.u64(self.feed_from.sequence.0);
        out.u32(files.floor.0);
        out.count(segments.clone().count());
        for start in segments.clone() {
            out.u32(start.segment.0);
            write_position(&mut out, &start.position);
        }
        write_runs(&mut out, &files.schedule_runs);
        write_runs(&mut out, &files.dispatch_runs);
        write_totals(&mut out, &self.totals);
        write_ended(&mut out, self.windows.iter().map(|window| &window.ended));
        write_file_subjects(&mut out, segments, files);
        write_holes(&mut out, &files.holes);
        write_run_holes(&mut out, &files.run_holes);
        write_loads(&mut out, &files.loads);
        (out.bytes, logical)
    }
}

/// Parts 1 to 6.
fn write_small(out: &mut FieldWriter, state: &State) {
    write_position(out, &state.position);
    out.u64(state.delay_ms_max);
    out.u64(state.voided);
    out.u32(state.next_group.0);
    out.u32(state.next_consumer.0);
    out.u32(state.next_run.0);
    if let Some(number) = made_up_number(written_format()) {
        out.u64(number);
    }
    out.count(state.epochs.len());
    for info in &state.epochs {
        out.u32(info.epoch.0);
        out.array(&info.nonce);
        out.u64(info.first_sequence.0);
        out.u32(info.previous_chain);
    }
    write_subjects(out, &state.subjects, |number| QueueSnapshot::of(state, number));
    out.count(state.groups.len());
    for group in state.groups.values() {
        write_group(out, group);
    }
    out.count(state.ended_groups.len());
    for ((subject, name), offset) in &state.ended_groups {
        out.u32(subject.0);
        out.text(name);
        out.u64(offset.0);
    }
}

impl Snapshot {
    /// Copies the state, without the states of single sequences.
    pub(in crate::store) fn without_windows(state: &State) -> Self {
        Self {
            position: state.position,
            delay_ms_max: state.delay_ms_max,
            voided: state.voided,
            next_group: state.next_group,
            next_consumer: state.next_consumer,
            next_run: state.next_run,
            epochs: state.epochs.clone(),
            subjects: state.subjects.clone(),
            queues: state.subjects.iter().map(|(number, _)| (number, QueueSnapshot::of(state, number))).collect(),
            groups: state.groups.clone(),
            ended_groups: state.ended_groups.clone(),
            windows: Vec::new(),
            moves: state.moves.clone(),
            keys: state.keys.clone(),
            dispatched_keys: state.dispatched_keys.clone(),
            ids: state.ids.clone(),
            recurring: state.recurring.clone(),
            load_jobs: state.load_jobs.clone(),
            segments: state.segments.clone(),
            feed_from: DueKey::START,
            totals: state.totals.iter().collect(),
        }
    }

    /// Reads a body of this format.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are not a valid body.
    pub(in crate::store) fn decode(path: &str, format: u32, body: &[u8]) -> Result<(Self, NamedFiles)> {
        let mut from = FieldReader::new(path, body);
        let position = read_position(&mut from)?;
        let (delay_ms_max, voided) = (from.u64()?, from.u64()?);
        let (next_group, next_consumer, next_run) =
            (GroupNumber(from.u32()?), ConsumerNumber(from.u32()?), RunNumber(from.u32()?));
        if position.next_sequence > SEQUENCE_MAX {
            return Err(from.malformed("a sequence that an entry may have"));
        }
        if next_run > RunNumber::END {
            return Err(from.malformed("a number that a run may have"));
        }
        if made_up_number(format).is_some_and(|number| from.u64() != Ok(number)) {
            return Err(from.malformed("the number of the made-up format"));
        }
        let epochs = read_epochs(&mut from)?;
        let (mut subjects, queues) = read_subjects(&mut from)?;
        let groups = read_groups(&mut from, &mut subjects)?;
        let mut ended_groups = BTreeMap::new();
        for _ in 0..from.count(20)? {
            ended_groups.insert((SubjectNumber(from.u32()?), from.text()?), PullOffset(from.u64()?));
        }
        let mut windows = read_windows(&mut from, position.next_sequence)?;
        let next = position.next_sequence;
        let moves = RecentMoves::read(&mut from, next, position.trusted)?;
        let (keys, dispatched_keys) = (Keys::read(&mut from, next)?, DispatchedKeys::read(&mut from, next)?);
        let ids = RecentIds::read(&mut from, next)?;
        let recurring = Recurring::read(&mut from, next)?;
        if !recurring.fit(|number| subjects.get(number).is_some(), |sequence| is_pending(&windows, sequence)) {
            return Err(from.malformed("series of known subjects that wait for pending messages"));
        }
        let load_jobs = LoadJobs::read(&mut from, next)?;
        let OfThisCopy { feed_from, segments, files, totals } = read_of_this_copy(&mut from, &position, &mut windows)?;
        from.end()?;
        let snapshot = Self {
            position,
            delay_ms_max,
            voided,
            next_group,
            next_consumer,
            next_run,
            epochs,
            subjects,
            queues,
            groups,
            ended_groups,
            windows,
            moves,
            keys,
            dispatched_keys,
            ids,
            recurring,
            load_jobs,
            segments,
            feed_from,
            totals,
        };
        Ok((snapshot, files))
    }
}

fn read_epochs(from: &mut FieldReader<'_>) -> Result<Vec<EpochInfo>> {
    let mut epochs = Vec::new();
    for _ in 0..from.count(32)? {
        let (epoch, nonce, first_sequence) = (Epoch(from.u32()?), from.array()?, Sequence(from.u64()?));
        epochs.push(EpochInfo { epoch, nonce, first_sequence, previous_chain: from.u32()? });
    }
    Ok(epochs)
}

/// The parts that belong to one copy of a store: 13 to 21.
struct OfThisCopy {
    feed_from: DueKey,
    segments: Vec<SegmentStart>,
    files: NamedFiles,
    totals: Vec<(Minute, Tally)>,
}

fn read_of_this_copy(
    from: &mut FieldReader<'_>,
    position: &LogPosition,
    windows: &mut [WindowSnapshot],
) -> Result<OfThisCopy> {
    let feed_from = DueKey { due: Millis(from.u64()?), sequence: Sequence(from.u64()?) };
    let floor = SegmentNumber(from.u32()?);
    let mut segments = read_segments(from)?;
    let mut files = NamedFiles {
        floor,
        schedule_runs: read_runs(from)?,
        dispatch_runs: read_runs(from)?,
        holes: Holes::default(),
        run_holes: RunHoles::default(),
        loads: BTreeMap::new(),
    };
    let totals = read_totals(from)?;
    read_ended(from, windows)?;
    read_file_subjects(from, &mut segments, &mut files)?;
    files.holes = read_holes(from, floor, position)?;
    files.run_holes = read_run_holes(from, &files.schedule_runs)?;
    files.loads = read_loads(from, &files.schedule_runs, position.next_sequence)?;
    Ok(OfThisCopy { feed_from, segments, files, totals })
}
