//! The ready messages of one subject.

use super::pages::Paged;
use crate::schedule_log::Entry;
use crate::units::{ReadyNumber, SegmentNumber, SubjectNumber};

/// Ready messages of one subject, numbered densely in the order of their facts.
#[derive(Clone, Debug, Default)]
pub struct SubjectQueue {
    /// The number of the first entry in memory.
    first: ReadyNumber,
    entries: Paged,
    finished_below: ReadyNumber,
    /// Numbers below this were finished once. A group that reads them again finds them in the log, since no run keeps
    /// rows of what is finished.
    listed_from: ReadyNumber,
    /// Numbers below this are finished or in a run.
    persisted_below: ReadyNumber,
    /// The value of `persisted_below` after the run of the last freeze is installed.
    frozen_below: ReadyNumber,
    /// The segment whose facts made the last message ready.
    segment: Option<SegmentNumber>,
}

/// The part of a subject's queue that goes into the next run.
#[derive(Clone, Debug)]
pub struct FrozenReady {
    /// The subject.
    pub subject: SubjectNumber,
    /// The number of the first entry.
    pub first: ReadyNumber,
    /// The entries, in order.
    pub entries: Paged,
}

impl SubjectQueue {
    /// A queue as restored from a checkpoint: all unfinished messages are in runs.
    pub(super) fn restored(next: ReadyNumber, finished_below: ReadyNumber, listed_from: ReadyNumber) -> Self {
        let entries = Paged::default();
        let segment = None;
        Self { first: next, entries, finished_below, listed_from, persisted_below: next, frozen_below: next, segment }
    }

    /// The number that the next ready message gets.
    pub fn next(&self) -> ReadyNumber {
        self.first.plus(self.entries.len() as u64)
    }

    /// Every message below this number is finished.
    pub fn finished_below(&self) -> ReadyNumber {
        self.finished_below
    }

    /// Notes that a fact of this segment made a message ready. True for the first one since the queue was restored.
    pub(super) fn is_first_in(&mut self, segment: SegmentNumber) -> bool {
        self.segment.replace(segment) != Some(segment)
    }

    /// The messages from this number on are in memory or in runs. Unfinished messages below it are in the log alone.
    pub fn listed_from(&self) -> ReadyNumber {
        self.listed_from.max(self.finished_below)
    }

    /// A group reads again from `number` on: messages from there on are unfinished again. A number that is not below
    /// [`Self::finished_below`] changes nothing.
    pub(super) fn reopen(&mut self, number: ReadyNumber) {
        if number < self.finished_below {
            self.listed_from = self.listed_from();
            self.finished_below = number;
        }
    }

    pub(super) fn push(&mut self, entry: Entry) -> ReadyNumber {
        let number = self.next();
        self.entries.push(entry);
        number
    }

    /// The entry of a number, if it is in memory.
    pub fn in_memory(&self, number: ReadyNumber) -> Option<Entry> {
        if number < self.first {
            return None;
        }
        self.entries.get(usize::try_from(number.since(self.first)).ok()?).copied()
    }

    /// The entries in memory, with their numbers, ascending.
    pub fn each_in_memory(&self) -> impl Iterator<Item = (ReadyNumber, &Entry)> {
        (0_u64..).map(|at| self.first.plus(at)).zip(self.entries.iter())
    }

    /// Finishes the messages below `number`. Returns how many entries left memory.
    pub(super) fn finish_below(&mut self, number: ReadyNumber) -> usize {
        let number = number.min(self.next());
        self.finished_below = self.finished_below.max(number);
        self.drop_below(self.finished_below)
    }

    fn drop_below(&mut self, number: ReadyNumber) -> usize {
        let count = usize::try_from(number.since(self.first)).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.drop_first(count);
        self.first = self.first.plus(count as u64);
        count
    }

    pub(super) fn freeze(&mut self, subject: SubjectNumber) -> Option<FrozenReady> {
        self.frozen_below = self.next();
        let first = self.persisted_below.max(self.finished_below).max(self.first);
        let skip = usize::try_from(first.since(self.first)).unwrap_or(usize::MAX);
        let entries = self.entries.after(skip);
        (!entries.is_empty()).then_some(FrozenReady { subject, first, entries })
    }

    pub(super) fn mark_persisted(&mut self) {
        self.persisted_below = self.persisted_below.max(self.frozen_below);
    }

    pub(super) fn drop_persisted(&mut self) -> usize {
        self.drop_below(self.persisted_below)
    }

    /// Frees memory after a flood. With many subjects, the spare memory of each counts.
    pub(super) fn give_back_room(&mut self) {
        self.entries.give_back_room();
    }

    /// The number of entries that fit the allocated memory.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.entries.room()
    }
}
