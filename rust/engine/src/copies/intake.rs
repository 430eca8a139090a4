//! Whether requests are taken that the copies must keep: publishes, changes of pending messages, and series. And which of
//! those that were taken are on too few copies.

use std::ops::Range;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Submission;
use delaymq_core::store::Outcome;
use delaymq_core::units::Sequence;

use crate::commit::inbox::CommitUrgency;
use crate::copies::state::{Copies, CopyCount, Intake};
use crate::held;
use crate::invalid;
use crate::shared::Shared;
use crate::store::Store;

impl Shared {
    /// True if the store may decide: it is alone, or the first fact of its epoch is committed and applied.
    pub(crate) fn has_begun(&self) -> bool {
        self.copies.as_ref().is_none_or(|copies| copies.has_begun.load(Ordering::SeqCst))
    }

    /// Fails with `NotPrimary` while the store may not decide.
    pub(crate) fn check_begun(&self) -> Result<()> {
        match &self.copies {
            Some(copies) if !self.has_begun() => Err(Error::NotPrimary { epoch: copies.epoch.0 }),
            _ => Ok(()),
        }
    }

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
}

impl Store {
    /// Fails with `InvalidArgument` naming `store` if it is a store alone.
    pub(crate) fn copies(&self) -> Result<&Copies> {
        let copies = self.shared.copies.as_ref();
        copies.ok_or_else(|| invalid("store", "a store that leads copies", "a store alone"))
    }

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
