//! Where a user lets a group start, and the number that its fact says.

use super::start_search::{GroupStarts, StartPlan, Wanted, no_start};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::limits::group_subject;
use crate::record::name::GroupStart;
use crate::schedule_log::EntryState;
use crate::store::names::receipt::Receipt;
use crate::store::owner::Owner;
use crate::store::retention::finished_age::Keeping;
use crate::store::retention::kept_files::first_kept;
use crate::units::{Millis, ReadyNumber, Sequence, SubjectNumber};

/// A message that is kept for less than this from now on is not read again: its files may go before the group starts.
const MARGIN_MS: u64 = 100;

/// A time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// This time.
    At(Millis),
    /// So many milliseconds before now.
    Ago(u64),
}

impl Since {
    /// The time, if it is `now`.
    pub fn at(self, now: Millis) -> Millis {
        match self {
            Self::At(time) => time,
            Self::Ago(ms) => Millis(now.0.saturating_sub(ms)),
        }
    }
}

/// Where a group starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartAt {
    /// At the earliest message that is kept, even if all groups have finished it.
    Earliest,
    /// At the first message that some group has not finished.
    #[default]
    Unfinished,
    /// At the next message that becomes ready.
    Latest,
    /// At the first kept message that became ready at this time or later. No message that was due then or later is
    /// left out.
    Due(Since),
    /// At the first kept message to become ready among those that were published at this time or later. None of these
    /// is left out.
    Published(Since),
    /// At this message. If it is still pending, at the next message that becomes ready.
    Message(Receipt),
}

impl Owner {
    /// The starts that the facts of groups of these subjects say. Retries and dead letters are never read again: they
    /// belong to a group. All that is read is read once for all subjects.
    ///
    /// # Errors
    /// `InvalidArgument` naming `start` for the receipt of a message of another subject or store, or of one that is
    /// neither pending nor dispatched; naming `receipt` for one that this store never gave out.
    pub fn plan_starts(&self, subjects: &[SubjectNumber], at: StartAt, now: Millis) -> Result<StartPlan> {
        let each = |start: &dyn Fn(SubjectNumber) -> GroupStart| {
            StartPlan::Found(subjects.iter().map(|subject| (*subject, start(*subject))).collect())
        };
        let read_again = |wanted| {
            let subjects = subjects.iter().copied().filter(|subject| self.is_read_again(*subject));
            self.search(&subjects.collect::<Vec<_>>(), wanted)
        };
        match at {
            StartAt::Unfinished => Ok(each(&|_| GroupStart::Unfinished)),
            StartAt::Latest => Ok(each(&|_| GroupStart::Latest)),
            StartAt::Earliest => {
                let keeping = self.keeping_in(MARGIN_MS);
                Ok(each(&|subject| self.earliest(subject, &keeping)))
            }
            StartAt::Due(since) => read_again(Wanted::Ready(since.at(now))),
            StartAt::Published(since) => read_again(Wanted::Published { since: since.at(now), from: Sequence(0) }),
            StartAt::Message(receipt) => match subjects {
                [subject] => self.plan_start_at(*subject, &receipt),
                _ => Err(no_start("one for more than one subject")),
            },
        }
    }

    /// Reads all that a plan needs. This is slow; an owner that others wait for reads one piece after the other without
    /// its lock, with [`super::start_search::StartSearch::read`] and [`Self::go_on_with_start`].
    ///
    /// # Errors
    /// As [`Self::plan_starts`]; `Storage`.
    pub fn finish_start(&self, mut plan: StartPlan) -> Result<GroupStarts> {
        loop {
            match plan {
                StartPlan::Found(starts) => return Ok(starts),
                StartPlan::Read(search) => plan = self.go_on_with_start(search.read()?)?,
            }
        }
    }

    fn plan_start_at(&self, subject: SubjectNumber, receipt: &Receipt) -> Result<StartPlan> {
        if !self.receipt_book().may_be_here(receipt)? {
            return Err(no_start("one of another store"));
        }
        if receipt.subject != subject {
            return Err(no_start("one of another subject"));
        }
        match self.state.schedule.state(receipt.key.sequence) {
            EntryState::Pending => {
                let next = self.state.dispatch.next_number(subject);
                Ok(StartPlan::Found(self.bounded([(subject, next)])))
            }
            EntryState::Dispatched => self.search(&[subject], Wanted::Message(receipt.key)),
            EntryState::Cancelled => Err(no_start("one that was cancelled")),
            EntryState::Nothing => Err(no_start("one that is not kept, or was moved")),
        }
    }

    /// The starts at numbers that were found in the log, or at the earliest messages that are still kept.
    pub(super) fn bounded(&self, found: impl IntoIterator<Item = (SubjectNumber, ReadyNumber)>) -> GroupStarts {
        let keeping = self.keeping_in(MARGIN_MS);
        let skipped = u64::from(is_on(Planted::StartSkipsOne));
        let bounded = |(subject, number): (SubjectNumber, ReadyNumber)| {
            let earliest = match self.earliest(subject, &keeping) {
                GroupStart::Number(number) => number,
                GroupStart::Unfinished | GroupStart::Latest => self.state.dispatch.finished_below(subject),
            };
            (subject, GroupStart::Number(number.max(earliest).plus(skipped)))
        };
        found.into_iter().map(bounded).collect()
    }

    /// The first message of the first segment that is young enough for the subject.
    fn earliest(&self, subject: SubjectNumber, keeping: &Keeping) -> GroupStart {
        if !self.is_read_again(subject) {
            return GroupStart::Unfinished;
        }
        let first = first_kept(&self.state.segments, subject, keeping);
        let finished_below = self.state.dispatch.finished_below(subject);
        let is_found_again = self.state.segments.last().is_none_or(|newest| newest.ready.is_known());
        match first {
            Some(first) => GroupStart::Number(first.min(finished_below)),
            // Another group may finish messages before the start is applied, so the start is this number.
            None if is_found_again => GroupStart::Number(finished_below),
            // They could not be read again.
            None => GroupStart::Unfinished,
        }
    }

    /// True for the subjects of users: retries and dead letters belong to a group.
    fn is_read_again(&self, subject: SubjectNumber) -> bool {
        self.state.subjects.get(subject).is_some_and(|known| group_subject(&known.name).is_none())
    }
}
