//! The effects of applying facts on anything but the state: outcomes for the caller, wake-ups, and what
//! the feed must hear. None of it is ever saved.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::error::Result;
use crate::run::DamagedBlock;
use crate::storage::Storage;
use crate::store::names::subjects::Subjects;
use crate::store::recovery::rescue::{Rescue, rescue};
use crate::store::state::State;
use crate::store::state::followed::Followed;

use crate::record::ready::ReadyList;
use crate::schedule_log::{Entry, Feed, PayloadCopies};
use crate::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

/// What `apply` found of a fact that somebody asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The message was pending and is cancelled, now or by an earlier command; the dead letter is
    /// moved; the group is removed.
    Done,
    /// The message was pending and is due under this key from now on, or since an earlier command that
    /// asked for the same.
    Moved(DueKey),
    /// Its ready fact came first.
    AlreadyDispatched,
    /// The message is not stored, since one of its id, or of its key, is there under this entry, with a body
    /// of so many bytes.
    There(DueKey, u32),
    /// The message is stored in the place of this entry, which had its key and is cancelled.
    Replaced(DueKey),
    /// Nothing of the batch is stored, since the key of the message at this place is taken by this entry.
    KeyTaken(u32, DueKey),
    /// Nothing of the batch is stored: pending messages may have so many keys, and no more.
    KeysFull(u32),
    /// Nothing of the batch is stored: so many ids are remembered, and no more.
    IdsFull(u32),
    /// No such message, or no such group.
    NotFound,
    /// All messages of the load are stored, with sequences from this one on, so many.
    Loaded(Sequence, u64),
    /// Nothing is stored: the job was done before, with sequences from this one on, so many.
    LoadedBefore(Sequence, u64),
    /// Nothing is stored: the run at this place was adopted before, by another job or twice by this one.
    RunAdopted(u32),
    /// Nothing is stored: the run at this place was staged too long ago.
    RunTooOld(u32),
    /// Nothing is stored: so many jobs are remembered, and no more.
    JobsFull,
    /// Nothing is stored: so many runs are adopted within a while, and no more.
    RunsFull,
    /// The group of that name, which is new.
    Group(GroupNumber),
    /// The group of that name, which was there before.
    GroupThere(GroupNumber),
    /// Nothing changed, since the group has so many consumers.
    HasConsumers(u32),
    /// So many messages have expired.
    Expired(u64),
    /// The series begins; the pending message of the one in whose place it does is cancelled.
    SeriesBegun(Option<DueKey>),
    /// Nothing changed: there is a series of that name.
    SeriesThere,
    /// Nothing changed: a store has so many series, and no more.
    SeriesFull,
    /// Nothing changed: the series, or all series together, would exceed the size limit.
    SeriesTooLarge,
    /// The series ended; its pending message is cancelled.
    SeriesEnded(Option<DueKey>),
    /// The consumer of that name, which may have been there before.
    Consumer(ConsumerNumber),
    /// The group and the consumer of those names, either of which may have been there before.
    Attached(GroupNumber, ConsumerNumber),
}

/// See the module.
pub(in crate::store) struct Effects {
    pub(in crate::store) feed: Feed,
    /// Entries whose ready facts are proposed and not applied, in the order proposed.
    pub(in crate::store) in_flight: VecDeque<Vec<Entry>>,
    pub(in crate::store) in_flight_entries: usize,
    /// So many of these, from the first on, name payloads where they may have been moved from.
    in_flight_outdated: usize,
    pub(in crate::store) outcomes: Vec<(Sequence, Outcome)>,
    /// Runs were adopted, and no kept checkpoint holds them yet.
    pub(in crate::store) has_adopted: bool,
    pub(in crate::store) woken: BTreeSet<GroupNumber>,
    /// Subjects whose newest messages are followed.
    pub(in crate::store) followed: Followed,
    /// Subjects that have something new, whose groups are woken.
    woken_subjects: BTreeSet<SubjectNumber>,
    /// The last subject that was woken: the next message is mostly of the same.
    woken_subject: Option<SubjectNumber>,
    pub(in crate::store) storage: Arc<dyn Storage>,
    /// The files that bodies were measured in lately, whose rows do not say their sizes.
    pub(in crate::store) payloads: PayloadCopies,
    /// All pending messages were counted one by one, and no checkpoint has the counts yet.
    pub(in crate::store) was_counted: bool,
    /// Damaged blocks that were met, and not reported yet.
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
            woken_subjects: BTreeSet::new(),
            woken_subject: None,
            followed: Followed::default(),
            storage,
            payloads: PayloadCopies::default(),
            was_counted: false,
            rescues: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Finds the entries of a damaged block again; what is lost is noted.
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

    /// Takes the groups that have something new.
    pub(in crate::store) fn take_woken(&mut self, subjects: &Subjects) -> BTreeSet<GroupNumber> {
        self.woken_subject = None;
        let mut woken = std::mem::take(&mut self.woken);
        for subject in std::mem::take(&mut self.woken_subjects) {
            woken.extend(subjects.get(subject).into_iter().flat_map(|subject| subject.groups.iter()).copied());
        }
        woken
    }

    /// Takes the entries of this ready fact, where this process proposed it.
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

    /// Loads entries again after payloads were copied, since the old places may be removed. Facts in flight find their
    /// entries in the schedule.
    pub(in crate::store) fn payloads_moved(&mut self, now: Millis) {
        self.feed = Feed::new(self.feed.resume_from(None), now);
        self.in_flight_outdated = self.in_flight.len();
    }

    /// Returns the least key that was handed over and is not applied as ready.
    pub(in crate::store) fn least_in_flight(&self) -> Option<DueKey> {
        self.in_flight.iter().flatten().map(Entry::key).min()
    }

    /// Notes a ready fact in flight.
    pub(in crate::store) fn note_in_flight(&mut self, entries: Vec<Entry>) {
        self.in_flight_entries = self.in_flight_entries.saturating_add(entries.len());
        self.in_flight.push_back(entries);
    }
}
