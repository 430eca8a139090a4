//! Whether requests are taken that the copies must keep: publishes, changes of pending messages, and series. And which of
//! those that were taken are on too few copies.

use std::collections::VecDeque;
use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Submission;
use delaymq_core::store::Outcome;
use delaymq_core::units::Sequence;

use crate::commit::inbox::CommitUrgency;
use crate::copies::Copies;
use crate::held;
use crate::invalid;
use crate::shared::Shared;
use crate::store::Store;

/// How many ranges of short commits are told apart. One more joins the two oldest ones, with what is between them: its
/// outcome counts as unknown, too.
const SHORT_RANGES_MAX: usize = 1_024;

/// The number of copies, and how many the group demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyCount {
    /// The nodes that have everything that is committed.
    pub copies: usize,
    /// The smallest number with which a publish is answered as stored.
    pub min_copies: usize,
}

impl CopyCount {
    fn is_short(self) -> bool {
        self.copies < self.min_copies
    }

    fn refusal(self, maybe_stored: bool) -> Error {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Error::NotEnoughCopies { copies: number(self.copies), min_copies: number(self.min_copies), maybe_stored }
    }
}

/// Whether a store that leads takes publishes and the like. Deliveries and queries go on in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Intake {
    /// It does.
    #[default]
    Yes,
    /// Too few nodes have a copy.
    NotEnough(CopyCount),
    /// Another node is to become primary.
    HandingOver,
}

/// What is taken, and what was taken on too few copies.
#[derive(Default)]
pub(crate) struct Taken {
    intake: Intake,
    /// The sequence below which everything is committed.
    committed: Sequence,
    /// The count of the last commit.
    count: CopyCount,
    /// Facts that were committed on too few copies, in order, with the count of the last of each range.
    short: VecDeque<(Range<Sequence>, CopyCount)>,
}

impl Taken {
    /// Everything before `end` is committed on so many copies.
    fn committed(&mut self, end: Sequence, count: CopyCount) {
        self.count = count;
        if end <= self.committed {
            return;
        }
        let range = std::mem::replace(&mut self.committed, end)..end;
        if !count.is_short() {
            return;
        }
        match self.short.back_mut().filter(|(last, _)| last.end == range.start) {
            Some(last) => *last = (last.0.start..end, count),
            None => self.short.push_back((range, count)),
        }
        if self.short.len() > SHORT_RANGES_MAX
            && let Some((oldest, _)) = self.short.pop_front()
            && let Some((next, _)) = self.short.front_mut()
        {
            next.start = oldest.start;
        }
    }

    /// The count with which the last fact before `end` was committed, if that was too short.
    fn short_at(&self, end: Sequence) -> Option<CopyCount> {
        let place = self.short.partition_point(|(range, _)| range.end < end);
        self.short.get(place).filter(|(range, _)| range.start < end).map(|(_, count)| *count)
    }
}

impl Copies {
    pub(super) fn note_committed(&self, end: Sequence, count: CopyCount) {
        held(&self.taken).committed(end, count);
    }
}

impl Shared {
    /// Fails with `NotEnoughCopies` or `NotPrimary` while the store takes nothing that the copies must keep: nothing was
    /// done then.
    pub(crate) fn check_intake(&self) -> Result<()> {
        let Some(copies) = &self.copies else { return Ok(()) };
        self.check_begun()?;
        match held(&copies.taken).intake {
            Intake::Yes => Ok(()),
            Intake::NotEnough(count) => Err(count.refusal(false)),
            Intake::HandingOver => Err(Error::NotPrimary { epoch: copies.epoch.0 }),
        }
    }

    /// Submits records of a request that the copies must keep, and waits for their outcomes, in order. Fails also with
    /// `NotEnoughCopies` if they were taken and are on too few copies.
    pub(crate) fn ask_to_keep(
        &self,
        submission: Submission<'_>,
        urgency: CommitUrgency,
    ) -> Result<Vec<Option<Outcome>>> {
        let range = self.begin_asking(submission, urgency)?;
        range.map_or_else(|| Ok(Vec::new()), |range| self.kept_answers(range))
    }

    /// As `answers`, for such a request.
    pub(crate) fn kept_answers(&self, range: Range<Sequence>) -> Result<Vec<Option<Outcome>>> {
        let end = range.end;
        let found = self.answers(range).map_err(|error| self.left_open(error))?;
        self.check_kept(end).map(|()| found)
    }

    /// Fails with `NotEnoughCopies` if the last fact before `end`, which is committed, is on too few copies.
    pub(crate) fn check_kept(&self, end: Sequence) -> Result<()> {
        let Some(copies) = &self.copies else { return Ok(()) };
        held(&copies.taken).short_at(end).map_or(Ok(()), |count| Err(count.refusal(true)))
    }

    /// The error of a request that was taken and is not committed any more here: it is written on this node, and perhaps
    /// on others, so that the next primary may have it.
    pub(crate) fn left_open(&self, error: Error) -> Error {
        match (&self.copies, error) {
            (Some(copies), Error::Closed) => {
                let min_copies = held(&copies.taken).count.min_copies;
                CopyCount { copies: 1, min_copies: min_copies.max(1) }.refusal(true)
            }
            (_, error) => error,
        }
    }

    /// Loads are refused where copies are kept: the files of a load are not sent to them.
    pub(crate) fn refuse_load(&self) -> Result<()> {
        match &self.copies {
            Some(_) => {
                Err(invalid("runs", "a store without copies on other nodes, which loads do not reach", "copies"))
            }
            None => Ok(()),
        }
    }
}

impl Store {
    /// The outcome of a publish that ends at this position, once the wait for the position has ended like this.
    ///
    /// # Errors
    /// That of the wait; `NotEnoughCopies` if the publish is on too few copies.
    pub fn outcome_of(&self, end: Sequence, waited: Result<()>) -> Result<()> {
        waited.map_err(|error| self.shared.left_open(error)).and_then(|()| self.shared.check_kept(end))
    }

    /// Sets whether publishes, changes of pending messages, and new series are taken. At first they are. Nothing else is
    /// refused.
    ///
    /// A store alone takes them always.
    pub fn set_intake(&self, intake: Intake) {
        if let Some(copies) = &self.shared.copies {
            held(&copies.taken).intake = intake;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: CopyCount = CopyCount { copies: 1, min_copies: 2 };
    const ENOUGH: CopyCount = CopyCount { copies: 2, min_copies: 2 };

    fn short(taken: &Taken, ends: Range<u64>) -> Vec<u64> {
        ends.filter(|end| taken.short_at(Sequence(*end)).is_some()).collect()
    }

    #[test]
    fn what_was_committed_on_too_few_copies_is_known_and_the_rest_is_not_touched() {
        let mut taken = Taken::default();
        for (end, count) in [(3, ENOUGH), (5, SHORT), (6, SHORT), (6, ENOUGH), (9, ENOUGH), (10, SHORT)] {
            taken.committed(Sequence(end), count);
        }
        assert_eq!(short(&taken, 0..20), [4, 5, 6, 10]);
        assert_eq!(taken.short.len(), 2, "what stands together is one range");
    }

    #[test]
    fn the_oldest_ranges_join() {
        let mut taken = Taken::default();
        for turn in 0..=SHORT_RANGES_MAX as u64 {
            taken.committed(Sequence(2 * turn + 2), ENOUGH);
            taken.committed(Sequence(2 * turn + 3), SHORT);
        }
        assert_eq!(taken.short.len(), SHORT_RANGES_MAX);
        assert_eq!(short(&taken, 0..10), [3, 4, 5, 7, 9]);
    }
}
