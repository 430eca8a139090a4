//! The state: everything that `apply` changes, and nothing else. Two stores with the same facts have the same state.
//!
//! In: changes by `apply`. Out: the data that `propose` and `query` read.
//! Read this file, then `pending_counts`, `forecast` and `due_counts` (how much is pending, and when it is due), then
//! `file_subjects`, `recurring`, `load_jobs` and `recent_moves`. `awaited` holds what a fact says of the messages after
//! it.

pub(super) mod awaited;
pub(super) mod due_counts;
pub(super) mod file_subjects;
pub(super) mod forecast;
pub(super) mod known_places;
pub(super) mod load_jobs;
pub(super) mod pending_counts;
pub(super) mod recent_moves;
pub(super) mod recurring;
pub(super) mod segment_ready;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::dispatched_keys::DispatchedKeys;
use super::names::keys::{Keys, Named};
use super::names::recent_ids::RecentIds;
use super::names::subjects::Subjects;
use super::retention::floors::Floors;
use crate::dispatch_log::DispatchLog;
pub use crate::message_log::LogPosition;
use crate::message_log::{EpochEntry, Holes, Stream};
use crate::planted::{Planted, is_on};
use crate::queues::Group;
use crate::record::terms::NameHash;
use crate::run::{LoadedRuns, Run, RunHoles};
use crate::schedule_log::{Entry, EntryState, Schedule};
use crate::units::{
    ConsumerNumber, Epoch, GroupNumber, Location, LocationFile, Millis, PullOffset, ReadyNumber, RunNumber,
    SegmentNumber, Sequence, SubjectNumber,
};
use awaited::{Awaited, Standing};
use file_subjects::FileSubjects;
use forecast::MinuteTotals;
use known_places::KnownPlaces;
use load_jobs::LoadJobs;
use pending_counts::PendingCounts;
use recent_moves::RecentMoves;
use recurring::Recurring;
use segment_ready::SegmentReady;

/// One epoch that the stream has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EpochInfo {
    /// Its number.
    pub epoch: Epoch,
    /// The key of the checks of its receipts.
    pub nonce: [u8; 16],
    /// The sequence of its first fact. Sequences from here on that an earlier epoch gave out were lost.
    pub first_sequence: Sequence,
    /// The chain of the last batch before it.
    pub previous_chain: u32,
}

impl EpochInfo {
    /// Its row in a table of epochs.
    pub fn entry(&self) -> EpochEntry {
        let (epoch, first_sequence) = (self.epoch, self.first_sequence);
        EpochEntry { epoch, first_sequence, chain_before: self.previous_chain }
    }
}

/// The start of a segment: enough to read the log from there on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentStart {
    /// The segment.
    pub segment: SegmentNumber,
    /// The position before its first batch; `end` is in the segment itself.
    pub position: LogPosition,
    /// The subjects of its messages, as far as it was applied.
    pub subjects: FileSubjects,
    /// What its facts made ready, as far as it was applied.
    pub ready: SegmentReady,
}

/// A run with the time of its creation by the trusted clock.
#[derive(Clone, Debug)]
pub struct KnownRun {
    /// The run.
    pub run: Arc<Run>,
    /// The trusted time of the checkpoint or adoption that made it; a merged run takes that of its oldest input.
    pub created: Millis,
    /// The subjects of its messages.
    pub subjects: FileSubjects,
}

/// The applied state of a store.
#[derive(Debug)]
pub struct State {
    /// The stream that the state belongs to.
    pub stream: Stream,
    /// Every epoch so far, in order.
    pub epochs: Vec<EpochInfo>,
    /// The position up to which the log has been applied.
    pub position: LogPosition,
    /// The segments since the floor, in order.
    pub segments: Vec<SegmentStart>,
    /// The holes of these segments: ranges that are no longer read.
    pub holes: Holes,
    /// The holes of runs: payloads that are no longer read.
    pub run_holes: RunHoles,
    /// Subjects by name and by number.
    pub subjects: Subjects,
    /// The pending messages.
    pub schedule: Schedule,
    /// The number of pending messages of each subject.
    pub(super) counts: PendingCounts,
    /// The number of pending messages due in each minute.
    pub(super) totals: MinuteTotals,
    /// The ready messages.
    pub dispatch: DispatchLog,
    /// Groups by number.
    pub groups: BTreeMap<GroupNumber, Group>,
    /// The ready number below which all groups of a subject have finished, derived from the groups.
    pub(super) floors: Floors,
    /// The first offset of a group that was removed and is created again.
    pub ended_groups: BTreeMap<(SubjectNumber, String), PullOffset>,
    /// The next group's number.
    pub next_group: GroupNumber,
    /// The next consumer's number.
    pub next_consumer: ConsumerNumber,
    /// The next run's number.
    pub next_run: RunNumber,
    /// Every run that a kept checkpoint names, whether or not a view still reads its rows: locations may point to
    /// payloads in it.
    pub runs: BTreeMap<RunNumber, KnownRun>,
    /// The last messages that were moved to another time.
    pub moves: RecentMoves,
    /// The keys of pending messages.
    pub keys: Keys,
    /// The keys of messages that became ready lately.
    pub dispatched_keys: DispatchedKeys,
    /// Ids of recently published messages.
    pub ids: RecentIds,
    /// Recent load jobs.
    pub load_jobs: LoadJobs,
    /// The recurring series.
    pub recurring: Recurring,
    /// The terms of the next messages.
    pub(super) terms: Standing,
    /// The occurrence fact for the next message.
    pub(super) awaited: Option<Awaited>,
    /// Places in the log where ready numbers are known.
    pub(super) history_places: KnownPlaces,
    /// The number of messages that were voided because their bytes were damaged.
    pub voided: u64,
    /// The longest accepted time from publication to the due time, as the last epoch states it.
    pub delay_ms_max: u64,
}

/// A subject remembers so many ranges of messages that were expired or voided. If there are more, no group can read
/// again the messages between the oldest two.
const GONE_RANGES_MAX: usize = 4_096;

impl State {
    /// The state of a stream before its first fact.
    pub fn new(stream: Stream, start: LogPosition) -> Self {
        Self {
            stream,
            epochs: Vec::new(),
            position: start,
            segments: Vec::new(),
            holes: Holes::default(),
            run_holes: RunHoles::default(),
            subjects: Subjects::default(),
            schedule: Schedule::new(start.next_sequence, start.trusted),
            counts: PendingCounts::default(),
            totals: MinuteTotals::default(),
            dispatch: DispatchLog::default(),
            groups: BTreeMap::new(),
            floors: Floors::default(),
            ended_groups: BTreeMap::new(),
            next_group: GroupNumber(1),
            next_consumer: ConsumerNumber(1),
            next_run: RunNumber(1),
            runs: BTreeMap::new(),
            moves: RecentMoves::default(),
            keys: Keys::default(),
            dispatched_keys: DispatchedKeys::default(),
            ids: RecentIds::default(),
            load_jobs: LoadJobs::default(),
            recurring: Recurring::default(),
            terms: Standing::default(),
            awaited: None,
            history_places: KnownPlaces::default(),
            voided: 0,
            delay_ms_max: 0,
        }
    }

    /// Frees the key of a message that is no longer pending, and makes the next occurrence of its series due.
    /// Returns that key with its message.
    pub(super) fn release(&mut self, sequence: Sequence) -> Option<(NameHash, Named)> {
        let is_ready = || self.schedule.state(sequence) == EntryState::Dispatched;
        let keeps = is_on(Planted::ReadyKeepsKey) && is_ready();
        self.recurring.release(sequence);
        if keeps { None } else { self.keys.release(sequence) }
    }

    /// As [`Self::release`], for a message that became ready: its key is remembered as dispatched.
    pub(super) fn release_ready(&mut self, sequence: Sequence, now: Millis) {
        if let Some((key, message)) = self.release(sequence) {
            self.dispatched_keys.note(key, message, now);
        }
    }

    /// Notes that the current segment has a message of this subject.
    #[inline]
    pub(super) fn note_message_of(&mut self, subject: SubjectNumber) {
        if let Some(segment) = self.segments.last_mut() {
            segment.subjects.note(subject);
        }
    }

    /// Notes that a fact of the current segment made a message ready. A group that reads again begins at a segment, and
    /// needs the files with the payload and the row of the message.
    #[inline]
    pub(super) fn note_ready(&mut self, number: ReadyNumber, entry: &Entry) {
        let run = self.schedule.run_of(entry.sequence());
        let Some(segment) = self.segments.last_mut() else { return };
        if self.dispatch.is_first_in(entry.subject(), segment.segment) {
            segment.ready.note_first(entry.subject(), number);
            segment.subjects.note(entry.subject());
        }
        if let Some(run) = run {
            segment.ready.note_file(LocationFile::Run(run));
        }
        let file = entry.location().file();
        if entry.location() != Location::NOWHERE && file != LocationFile::Segment(segment.segment) {
            segment.ready.note_file(file);
        }
    }

    /// The first segment that a group needs which reads finished messages again; `None` without such a group.
    pub(super) fn read_again_from(&self) -> Option<SegmentNumber> {
        let again = self.subjects.iter().map(|(subject, _)| (subject, self.dispatch.finished_below(subject)));
        let again = again.filter(|(subject, first)| *first < self.dispatch.listed_from(*subject));
        let segments = again.filter_map(|(subject, first)| self.segment_with(subject, first));
        segments.map(|start| start.segment).min().filter(|_| !is_on(Planted::ReadAgainHoldsNothing))
    }

    /// The last segment whose first message of the subject has this ready number or a lower one.
    pub(super) fn segment_with(&self, subject: SubjectNumber, number: ReadyNumber) -> Option<&SegmentStart> {
        let is_at_or_below = |start: &&SegmentStart| start.ready.first(subject).is_some_and(|first| first <= number);
        self.segments.iter().rev().find(is_at_or_below)
    }

    /// Returns the group with this name in a subject.
    pub fn group_named(&self, subject: SubjectNumber, name: &str) -> Option<GroupNumber> {
        self.subjects.get(subject)?.groups.named(name)
    }

    /// Returns the epoch with this number.
    pub fn epoch(&self, epoch: Epoch) -> Option<&EpochInfo> {
        self.epochs.iter().find(|info| info.epoch == epoch)
    }

    /// The table of epochs of the facts that were applied.
    pub fn epoch_table(&self) -> Vec<EpochEntry> {
        self.epochs.iter().map(EpochInfo::entry).collect()
    }

    /// Raises the finished mark of a subject to the lowest floor of its groups. Without groups the mark stays as it is.
    pub fn settle(&mut self, subject: SubjectNumber) {
        let Some(entry) = self.subjects.get_mut(subject) else { return };
        let floor = if is_on(Planted::FinishedByOneIsByAll) {
            entry.groups.iter().filter_map(|number| self.groups.get(number)).map(|group| group.done.below()).max()
        } else {
            self.floors.lowest(subject, &entry.groups, &self.groups)
        };
        let floor = floor.unwrap_or_else(|| entry.gone.end_from(self.dispatch.finished_below(subject).0));
        self.dispatch.finish_below(subject, ReadyNumber(floor));
        if entry.gone.range_count() > GONE_RANGES_MAX {
            entry.gone.join_lowest(self.dispatch.finished_below(subject).0);
        }
    }

    /// Returns the segment with the fact of this sequence, if it is kept.
    pub fn segment_of(&self, sequence: Sequence) -> Option<SegmentNumber> {
        let after = self.segments.partition_point(|start| start.position.next_sequence <= sequence);
        self.segments.get(after.checked_sub(1)?).map(|start| start.segment)
    }

    /// Returns the loaded runs that are currently kept.
    pub fn loaded_runs(&self) -> LoadedRuns {
        LoadedRuns::among(self.runs.values().map(|known| &known.run))
    }
}
