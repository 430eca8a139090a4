//! The dispatch log: the ready messages, by subject and number. Messages that became ready since the last
//! checkpoint are in memory, with as many older ones as fit. All older ones are in runs, sorted by (subject,
//! number).

mod by_subject;
mod pages;
mod postings;
mod queue;

#[cfg(test)]
mod tests;

pub use by_subject::BySubject;
pub use pages::Paged;
pub use postings::{DispatchRun, ReadPostings, prefetch_postings, read_postings, row_of};
pub use queue::{FrozenReady, SubjectQueue};

use crate::error::{Error, Result};
use crate::run::Run;
use crate::schedule_log::{Entry, SUBJECT_MAX};
use crate::units::{ReadyNumber, RunNumber, SegmentNumber, SubjectNumber};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A greater subject number means a damaged or hostile log.
pub const SUBJECT_NUMBER_MAX: u32 = 1 << 24;
const _: () = assert!(SUBJECT_NUMBER_MAX <= SUBJECT_MAX);

/// The place of a ready message's entry.
#[derive(Clone, Debug)]
pub enum Posting {
    /// In memory.
    Entry(Entry),
    /// In a run, at this row.
    InRun {
        /// The run.
        run: Arc<Run>,
        /// How many consecutive numbers of the subject are in the run, from the requested one on.
        count: u64,
    },
    /// In the log alone: it was finished once, and a group reads it again.
    InLog,
    /// Finished, or never ready.
    Gone,
}

/// All ready messages.
#[derive(Debug, Default)]
pub struct DispatchLog {
    subjects: BySubject<SubjectQueue>,
    runs: Vec<DispatchRun>,
    /// Entries that replace rows that cannot be read.
    patched: BTreeMap<(SubjectNumber, ReadyNumber), Entry>,
    entries_in_memory: usize,
    /// Entries that became ready since the last freeze. They are the cost of a replay.
    entries_since_freeze: u64,
}

impl DispatchLog {
    /// Makes room for a subject's queue.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that no store gives out.
    pub fn admit(&mut self, subject: SubjectNumber) -> Result<()> {
        if subject.0 > SUBJECT_NUMBER_MAX {
            return Err(Error::InvalidArgument {
                argument: "subject",
                expected: format!("a number up to {SUBJECT_NUMBER_MAX}"),
                found: subject.to_string(),
            });
        }
        self.subjects.admit(subject);
        Ok(())
    }

    /// The queue of a subject that was admitted.
    pub fn queue(&self, subject: SubjectNumber) -> Option<&SubjectQueue> {
        self.subjects.get(subject)
    }

    /// The number that the subject's next ready message gets.
    pub fn next_number(&self, subject: SubjectNumber) -> ReadyNumber {
        self.queue(subject).map(SubjectQueue::next).unwrap_or_default()
    }

    /// The number below which every message of the subject is finished, permanently.
    pub fn finished_below(&self, subject: SubjectNumber) -> ReadyNumber {
        self.queue(subject).map(SubjectQueue::finished_below).unwrap_or_default()
    }

    /// The number from which on the unfinished messages of the subject are in memory or in runs. Those below it are in
    /// the log alone.
    pub fn listed_from(&self, subject: SubjectNumber) -> ReadyNumber {
        self.queue(subject).map(SubjectQueue::listed_from).unwrap_or_default()
    }

    /// A group of the subject reads again from `number` on: messages from there on are unfinished again.
    pub fn reopen(&mut self, subject: SubjectNumber, number: ReadyNumber) {
        if let Some(queue) = self.subjects.get_mut(subject) {
            queue.reopen(number);
        }
    }

    /// Appends a ready message and returns its number. An entry of a subject that was not admitted is
    /// dropped.
    pub fn push(&mut self, entry: Entry) -> Option<ReadyNumber> {
        let queue = self.subjects.get_mut(entry.subject())?;
        self.entries_in_memory += 1;
        self.entries_since_freeze += 1;
        Some(queue.push(entry))
    }

    /// Notes that a fact of this segment made a message of the subject ready. True for the first one since the queue was
    /// restored.
    pub fn is_first_in(&mut self, subject: SubjectNumber, segment: SegmentNumber) -> bool {
        self.subjects.get_mut(subject).is_some_and(|queue| queue.is_first_in(segment))
    }

    /// Notes that every message of the subject below `number` is finished. A lower number than before changes
    /// nothing.
    pub fn finish_below(&mut self, subject: SubjectNumber, number: ReadyNumber) {
        if let Some(queue) = self.subjects.get_mut(subject) {
            self.entries_in_memory = self.entries_in_memory.saturating_sub(queue.finish_below(number));
        }
        if !self.patched.is_empty() {
            self.patched.retain(|(of, patched), _| *of != subject || *patched >= number);
        }
    }

    /// Looks up a number of a subject, without reading from the disk.
    pub fn posting(&self, subject: SubjectNumber, number: ReadyNumber) -> Posting {
        let Some(queue) = self.queue(subject) else { return Posting::Gone };
        if let Some(entry) = queue.in_memory(number) {
            return Posting::Entry(entry);
        }
        if number < queue.finished_below() || number >= queue.next() {
            return Posting::Gone;
        }
        if number < queue.listed_from() {
            return Posting::InLog;
        }
        if let Some(entry) = self.patched.get(&(subject, number)) {
            return Posting::Entry(*entry);
        }
        for run in self.runs.iter().rev() {
            let count = run.count_from(subject, number);
            if count > 0 {
                return Posting::InRun { run: Arc::clone(run.run()), count };
            }
        }
        Posting::Gone
    }

    /// Replaces rows of a run that cannot be read by these entries.
    pub fn patch(&mut self, subject: SubjectNumber, found: &[(ReadyNumber, Entry)]) {
        self.patched.extend(found.iter().map(|(number, entry)| ((subject, *number), *entry)));
    }

    /// Like [`Self::posting`], but reads the run if necessary. `None` also for a message that is in the log alone.
    ///
    /// # Errors
    /// Those of reading the run; `Corrupt` if the block is damaged.
    pub fn find(&self, subject: SubjectNumber, number: ReadyNumber) -> Result<Option<Entry>> {
        match self.posting(subject, number) {
            Posting::Entry(entry) => Ok(Some(entry)),
            Posting::InRun { run, .. } => {
                let found = read_postings(&run, subject, number, 1)?;
                found.entries.first().map(|(_, entry)| Some(*entry)).ok_or_else(|| unreadable(&run, found.error))
            }
            Posting::InLog | Posting::Gone => Ok(None),
        }
    }

    /// Entries held in memory.
    pub fn entries_in_memory(&self) -> usize {
        self.entries_in_memory
    }

    /// Entries that became ready since the last freeze.
    pub fn entries_since_freeze(&self) -> u64 {
        self.entries_since_freeze
    }

    /// The number of ready and unfinished messages of all subjects.
    pub fn unfinished(&self) -> u64 {
        let unfinished = self.subjects.iter().map(|(_, queue)| queue.next().since(queue.finished_below()));
        unfinished.fold(0, u64::saturating_add)
    }

    /// Returns the ready and unfinished messages that are in no run yet: the content of the next run.
    pub fn freeze(&mut self) -> Vec<FrozenReady> {
        self.entries_since_freeze = 0;
        let mut frozen = Vec::new();
        for (subject, queue) in self.subjects.iter_mut() {
            frozen.extend(queue.freeze(subject));
        }
        frozen
    }

    /// Takes over the run that was made of the last freeze (`None` if nothing was frozen). If more than
    /// `entries_max` entries are in memory, removes those that are in runs.
    pub fn install(&mut self, run: Option<Arc<Run>>, entries_max: usize) {
        self.runs.extend(run.map(DispatchRun::new));
        for (_, queue) in self.subjects.iter_mut() {
            queue.mark_persisted();
        }
        if self.entries_in_memory > entries_max {
            let dropped: usize = self.subjects.iter_mut().map(|(_, queue)| queue.drop_persisted()).sum();
            self.entries_in_memory = self.entries_in_memory.saturating_sub(dropped);
        }
        self.subjects.iter_mut().for_each(|(_, queue)| queue.give_back_room());
    }

    /// The runs, oldest first.
    pub fn runs(&self) -> &[DispatchRun] {
        &self.runs
    }

    /// True if no message of the run is read from it any more.
    pub fn is_run_finished(&self, run: &DispatchRun) -> bool {
        run.ranges().iter().all(|range| self.listed_from(range.subject) > range.last)
    }

    /// Forgets finished runs that retention has removed.
    pub fn forget_runs(&mut self, gone: &dyn Fn(RunNumber) -> bool) {
        self.runs.retain(|run| !gone(run.run().number()));
    }

    /// Restores a subject's queue from a checkpoint.
    ///
    /// # Errors
    /// Like [`Self::admit`].
    pub fn restore_queue(
        &mut self,
        subject: SubjectNumber,
        next: ReadyNumber,
        (finished_below, listed_from): (ReadyNumber, ReadyNumber),
    ) -> Result<()> {
        self.admit(subject)?;
        if let Some(queue) = self.subjects.get_mut(subject) {
            *queue = SubjectQueue::restored(next, finished_below, listed_from);
        }
        Ok(())
    }

    /// Restores a run that a checkpoint names.
    pub fn restore_run(&mut self, run: Arc<Run>) {
        self.runs.push(DispatchRun::new(run));
    }
}

fn unreadable(run: &Run, error: Option<Error>) -> Error {
    error
        .unwrap_or_else(|| Error::corrupt(&crate::run::run_path(run.number()), 0, "the row of a ready message", "none"))
}
