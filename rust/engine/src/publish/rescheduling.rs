//! Cancel and move: what a producer may still change while its message is pending.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::command::{Cancel, Move, encode_cancel, encode_move};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Millis;

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::options::Due;
use crate::shared::Shared;
use crate::store::Store;

/// The outcome of a cancel. It is durable when the call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CancelOutcome {
    /// It is cancelled and will not be delivered, by this call or an earlier one.
    Done,
    /// It had become ready before.
    AlreadyDispatched,
    /// It belongs to another store, or this store does not know it any more.
    NotFound,
}

/// The outcome of a move. It is durable when the call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveOutcome {
    /// It has this receipt and the new due time, by this call or by an earlier one that asked for the same.
    Done(Receipt),
    /// It had become ready before.
    AlreadyDispatched,
    /// It is cancelled, was moved elsewhere, belongs to another store, or this store does not know it any more.
    NotFound,
}

/// The most bytes that one cancel or move takes in the log.
const COMMAND_BYTES: usize = 64;

impl Store {
    /// Cancels a message.
    ///
    /// # Errors
    /// `InvalidArgument` for a receipt that no store has given out; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn cancel(&self, receipt: &Receipt) -> Result<CancelOutcome> {
        let outcomes = self.cancel_many(std::slice::from_ref(receipt))?;
        Ok(outcomes.first().copied().unwrap_or(CancelOutcome::NotFound))
    }

    /// Cancels messages. The outcomes are in the order of the receipts.
    ///
    /// # Errors
    /// As [`Self::cancel`]; `InvalidArgument` before any was cancelled.
    pub fn cancel_many(&self, receipts: &[Receipt]) -> Result<Vec<CancelOutcome>> {
        let found = self.command(receipts, CommitUrgency::URGENT.earliest_due, &mut |out, receipt, _| {
            let (target, subject, size) = (receipt.key, receipt.subject, receipt.size);
            encode_cancel(out, Cancel { target, subject, size });
        })?;
        Ok(found
            .into_iter()
            .map(|found| match found {
                Some(Outcome::Done) => CancelOutcome::Done,
                Some(Outcome::AlreadyDispatched) => CancelOutcome::AlreadyDispatched,
                _ => CancelOutcome::NotFound,
            })
            .collect())
    }

    /// Moves a message to another time.
    ///
    /// # Errors
    /// As [`Self::cancel`]; `InvalidArgument` naming `due` if that is too far ahead.
    pub fn move_to(&self, receipt: &Receipt, due: Due) -> Result<MoveOutcome> {
        let outcomes = self.move_many(&[(*receipt, due)])?;
        Ok(outcomes.first().copied().unwrap_or(MoveOutcome::NotFound))
    }

    /// Moves messages to other times. The outcomes are in the same order. Delays count from this call.
    ///
    /// # Errors
    /// As [`Self::move_to`]; `InvalidArgument` before any was moved.
    pub fn move_many(&self, moves: &[(Receipt, Due)]) -> Result<Vec<MoveOutcome>> {
        self.shared.check()?;
        let (now, from) = self.shared.now();
        let due = |(_, due): &(Receipt, Due)| self.shared.due_time(*due, now, from);
        let dues = moves.iter().map(due).collect::<Result<Vec<Millis>>>()?;
        let receipts: Vec<Receipt> = moves.iter().map(|(receipt, _)| *receipt).collect();
        let earliest_due = dues.iter().copied().min().unwrap_or(now);
        let found = self.command(&receipts, earliest_due, &mut |out, receipt, place| {
            let delay_ms = match moves.get(place) {
                Some((_, Due::After(delay_ms))) => Some(*delay_ms),
                _ => None,
            };
            let due = dues.get(place).copied().unwrap_or(now);
            let (target, subject, size) = (receipt.key, receipt.subject, receipt.size);
            encode_move(out, &Move { target, due, delay_ms, subject, size });
        })?;
        let book = self.shared.receipts.get().ok_or(Error::Closed)?;
        let outcome = |(found, receipt): (Option<Outcome>, &Receipt)| match found {
            Some(Outcome::Moved(key)) => {
                book.receipt_of(key, receipt.subject, receipt.size).map_or(MoveOutcome::NotFound, MoveOutcome::Done)
            }
            Some(Outcome::AlreadyDispatched) => MoveOutcome::AlreadyDispatched,
            _ => MoveOutcome::NotFound,
        };
        Ok(found.into_iter().zip(&receipts).map(outcome).collect())
    }

    /// Refuses a due time that a publish or a move would refuse now.
    ///
    /// # Errors
    /// `InvalidArgument` naming `due`.
    pub fn check_due(&self, due: Due) -> Result<()> {
        let (now, from) = self.shared.now();
        self.shared.due_time(due, now, from).map(drop)
    }

    /// Submits one command for each receipt that may belong to a message of this store, and waits for the outcomes.
    /// `encode` encodes a command with its place. Other receipts get no command.
    fn command(
        &self,
        receipts: &[Receipt],
        earliest_due: Millis,
        encode: &mut dyn FnMut(&mut Vec<u8>, &Receipt, usize),
    ) -> Result<Vec<Option<Outcome>>> {
        self.shared.check()?;
        self.shared.check_intake()?;
        let book = self.shared.receipts.get().ok_or(Error::Closed)?;
        let here = receipts.iter().map(|receipt| book.may_be_here(receipt)).collect::<Result<Vec<bool>>>()?;
        let is_here = |(place, _): &(usize, &Receipt)| here.get(*place) == Some(&true);
        let asked: Vec<(usize, &Receipt)> = receipts.iter().enumerate().filter(is_here).collect();
        let mut outcomes = vec![None; receipts.len()];
        let urgency = CommitUrgency { earliest_due, ..CommitUrgency::URGENT };
        for part in asked.chunks(self.shared.submission_bytes_max() / COMMAND_BYTES) {
            let mut records = Vec::with_capacity(part.len() * COMMAND_BYTES);
            for (place, receipt) in part {
                encode(&mut records, receipt, *place);
            }
            let submission = submission(&records, part.len(), Class::Finishing);
            let found = self.shared.ask_to_keep(submission, urgency)?;
            for ((place, _), found) in part.iter().zip(found) {
                if let Some(outcome) = outcomes.get_mut(*place) {
                    *outcome = found;
                }
            }
        }
        Ok(outcomes)
    }
}

impl Shared {
    /// The due time of a request. `from` is the time from which delays count.
    /// Fails with `InvalidArgument` naming `due` if that is too far ahead.
    pub(crate) fn due_time(&self, due: Due, now: Millis, from: Millis) -> Result<Millis> {
        let time = match due {
            Due::After(0) => now,
            Due::After(delay_ms) => from.plus(delay_ms),
            Due::At(time) => time,
        };
        self.options.check_ahead("due", time, from).map(|()| time)
    }
}
