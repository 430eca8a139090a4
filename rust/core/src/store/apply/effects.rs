//! The effects of applied facts outside the state: outcomes for callers, wake-ups, and new entries for the feed.
//! No effect is ever saved.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::storage::Storage;
use crate::store::names::subjects::Subjects;
use crate::store::recovery::rescue::{Rescue, rescue};
use crate::store::state::State;

use crate::record::ready::ReadyList;
use crate::schedule_log::{Entry, Feed, PayloadCopies};
use crate::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

/// The outcome of a fact for the caller that proposed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The command is done: the message is cancelled (now or by an earlier command), the dead letter is moved, or the
    /// group is removed.
    Done,
    /// The message was pending and now has this key, by this command or by an earlier one that requested the same.
    Moved(DueKey),
    /// The message became ready before the command was applied.
    AlreadyDispatched,
    /// The message is not stored: a message with its id or key exists under this entry, with a body of so many bytes.
    There(DueKey, u32),
    /// The message is stored. The entry that had its key is cancelled.
    Replaced(DueKey),
    /// No message of the batch is stored: this entry has the key of the message at this place in the batch.
    KeyTaken(u32, DueKey),
    /// No message of the batch is stored: pending messages already have the maximum number of keys, which is this.
    KeysFull(u32),
    /// No message of the batch is stored: the maximum number of ids, which is this, is remembered.
    IdsFull(u32),
    /// No such message, or no such group.
    NotFound,
    /// All messages of the load are stored, with consecutive sequences: the first one, and how many.
    Loaded(Sequence, u64),
    /// Nothing is stored: the job was done before. Its first sequence, and how many.
    LoadedBefore(Sequence, u64),
    /// Nothing is stored: the run at this place was adopted before, by another job or twice by this one.
    RunAdopted(u32),
    /// Nothing is stored: the run at this place was staged too long ago.
    RunTooOld(u32),
    /// Nothing is stored: the maximum number of jobs is remembered.
    JobsFull,
    /// Nothing is stored: the maximum number of recently adopted runs is reached.
    RunsFull,
    /// The new group of that name.
    Group(GroupNumber),
    /// The existing group of that name.
    GroupThere(GroupNumber),
    /// Nothing changed: the group has so many consumers.
    HasConsumers(u32),
    /// So many messages have expired.
    Expired(u64),
    /// The series begins. The key is that of the cancelled pending message of the series that it replaced, if any.
    SeriesBegun(Option<DueKey>),
    /// Nothing changed: a series of that name exists.
    SeriesThere,
    /// Nothing changed: the store has the maximum number of series.
    SeriesFull,
    /// Nothing changed: the series, or all series together, would exceed the size limit.
    SeriesTooLarge,
    /// The series ended. The key is that of its cancelled pending message, if any.
    SeriesEnded(Option<DueKey>),
    /// The consumer of that name, new or existing.
    Consumer(ConsumerNumber),
    /// The group and the consumer of those names, each new or existing.
    Attached(GroupNumber, ConsumerNumber),
}

/// The effects since the caller last took them, and what the feed and open files need.
pub(in crate::store) struct Effects {
    pub(in crate::store) feed: Feed,
    /// Entries whose ready facts are proposed but not applied yet, in the order proposed.
    pub(in crate::store) in_flight: VecDeque<Vec<Entry>>,
    pub(in crate::store) in_flight_entries: usize,
    /// How many lists of `in_flight`, from the front, may have outdated payload locations.
    in_flight_outdated: usize,
    pub(in crate::store) outcomes: Vec<(Sequence, Outcome)>,
    /// True if runs were adopted that the kept files of the newest checkpoint do not include yet.
    pub(in crate::store) has_adopted: bool,
    pub(in crate::store) woken: BTreeSet<GroupNumber>,
    /// Subjects that were named by facts.
    pub(in crate::store) named: Vec<SubjectNumber>,
    /// Subjects with new messages, whose groups are woken.
    woken_subjects: BTreeSet<SubjectNumber>,
    /// The last subject that was woken. The next message usually has the same subject.
    woken_subject: Option<SubjectNumber>,
    pub(in crate::store) storage: Arc<dyn Storage>,
    /// Files that were read lately for the sizes of bodies whose rows do not have them.
    pub(in crate::store) payloads: PayloadCopies,
    /// True if all pending messages were counted one by one, and no checkpoint has the counts yet.
    pub(in crate::store) was_counted: bool,
    /// Damaged blocks that were found and not reported yet.
    pub(in crate::store) rescues: Vec<Rescue>,
    /// Pending entries that cannot be found. The next step voids them.
    pub(in crate::store) lost: Vec<Sequence>,
}

impl Effects {
    pub(in crate::store) fn new(storage: Arc<dyn Storage>, feed: Feed) -> Self {
        Self {
            feed,
            in_flight: VecDeque::new(),
            in_flight_entries: 0,
            in_flight_outdated: 0,
            outcomes: Vec::new(),
            has_adopted: false,
            woken: BTreeSet::new(),
            named: Vec::new(),
            woken_subjects: BTreeSet::new(),
            woken_subject: None,
            storage,
            payloads: PayloadCopies::default(),
            was_counted: false,
            rescues: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Recovers the entries of a damaged block, and notes those that are lost.
    pub(in crate::store) fn rescue(&mut self, state: &mut State, damage: &DamagedBlock) -> Result<()> {
        let rescue = rescue(&self.storage, state, damage)?;
        self.lost.extend(&rescue.lost);
        self.rescues.push(rescue);
        Ok(())
    }

    /// Wakes every group of this subject.
    pub(in crate::store) fn wake_subject(&mut self, subject: SubjectNumber) {
        if self.woken_subject != Some(subject) {
            self.woken_subject = Some(subject);
            self.woken_subjects.insert(subject);
        }
    }

    /// Takes the groups whose parked pulls may go on.
    pub(in crate::store) fn take_woken(&mut self, subjects: &Subjects) -> BTreeSet<GroupNumber> {
        self.woken_subject = None;
        let mut woken = std::mem::take(&mut self.woken);
        for subject in std::mem::take(&mut self.woken_subjects) {
            woken.extend(subjects.get(subject).into_iter().flat_map(|subject| subject.groups.iter()).copied());
        }
        woken
    }

    /// Takes the entries of this ready fact if this process proposed the fact.
    pub(super) fn take_in_flight(&mut self, list: ReadyList<'_>) -> Vec<Entry> {
        let ours = self.in_flight.front().is_some_and(|entries| {
            entries.len() == list.len() && entries.first().map(Entry::key) == list.entries().next().map(|(key, _)| key)
        });
        if !ours {
            return Vec::new();
        }
        let entries = self.in_flight.pop_front().unwrap_or_default();
        self.in_flight_entries = self.in_flight_entries.saturating_sub(entries.len());
        if self.in_flight_outdated > 0 {
            self.in_flight_outdated -= 1;
            return Vec::new();
        }
        entries
    }

    /// Restarts the feed after payloads were copied, since the old places may be removed. Facts in flight look up their
    /// entries in the schedule.
    pub(in crate::store) fn payloads_moved(&mut self, now: Millis) {
        self.feed = Feed::new(self.feed.resume_from(None), now);
        self.in_flight_outdated = self.in_flight.len();
    }

    /// Returns the least key whose ready fact is proposed and not applied.
    pub(in crate::store) fn least_in_flight(&self) -> Option<DueKey> {
        self.in_flight.iter().flatten().map(Entry::key).min()
    }

    /// Returns the time up to which due messages are known with the places of their payloads: in the feed's hand, or in
    /// a ready fact that is proposed and not applied. The feed's position alone does not say it, since the feed goes
    /// back when a loaded run is adopted, and the facts that it proposed before stay in flight.
    pub(in crate::store) fn known_until(&self) -> Millis {
        let in_flight =
            self.in_flight.iter().flatten().map(Entry::due).filter(|_| !is_on(Planted::FeedSaysWhatIsKnown));
        in_flight.fold(self.feed.position().due, Millis::max)
    }

    /// Notes a ready fact in flight.
    pub(in crate::store) fn note_in_flight(&mut self, entries: Vec<Entry>) {
        self.in_flight_entries = self.in_flight_entries.saturating_add(entries.len());
        self.in_flight.push_back(entries);
    }
}
