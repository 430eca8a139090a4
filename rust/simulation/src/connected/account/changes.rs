//! What is known of messages that were cancelled or moved, and of those that are stored once however often a client
//! asks.
//!
//! A message comes under the sequence that it was stored under. Each move gives it another receipt, and the old receipt
//! is not valid any more.

use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::extension::moves::Moved;
use delaymq_core::wire::extension::publish::DueTime;

use super::{Account, Came, Sent};

/// A cancel, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cancel {
    Asked,
    Done,
    Refused,
}

/// What was asked of a receipt: that its message comes at another time.
#[derive(Clone, Debug, Default)]
pub(super) struct Move {
    asks: Vec<Ask>,
    /// The receipt that the message has since, as an answer has it, and the time that was asked for.
    to: Option<(Sequence, DueTime)>,
}

/// One command, however often it was sent.
#[derive(Clone, Copy, Debug)]
struct Ask {
    due: DueTime,
    /// When it comes at the earliest.
    not_before: Millis,
    /// How often it was sent.
    sent: usize,
    /// Not answered yet, or never.
    open: usize,
}

impl Ask {
    /// A message that was moved by it may be due then, as told at `now`, which no clock of the server is ahead of.
    fn fits(&self, due: Millis, now: Millis) -> bool {
        match self.due {
            DueTime::At(time) => due == time,
            DueTime::After(delay_ms) => due >= self.not_before && due <= now.plus(delay_ms),
        }
    }
}

impl Sent {
    /// How often it may be stored at most.
    pub(super) fn stored_max(&self) -> usize {
        if self.is_once { 1 } else { self.asked }
    }
}

impl Account {
    /// The receipt is of a message, and not of a series.
    pub(in crate::connected) fn is_of_a_message(&self, receipt: Sequence) -> bool {
        self.of.contains_key(&self.stored_as(receipt))
    }

    /// The sequence of the message that has, or had, this receipt.
    pub(super) fn stored_as(&self, receipt: Sequence) -> Sequence {
        self.moved_from.get(&receipt).copied().unwrap_or(receipt)
    }

    /// The receipt of a message that was told last.
    fn last_receipt_of(&self, sequence: Sequence) -> Sequence {
        std::iter::successors(Some(sequence), |receipt| self.moved_to(*receipt)).last().unwrap_or(sequence)
    }

    /// The receipt that names the message since, as an answer to a move of this one has it.
    pub(super) fn moved_to(&self, receipt: Sequence) -> Option<Sequence> {
        self.moves.get(&receipt).and_then(|known| known.to).map(|(to, _)| to)
    }

    /// A message is asked to be cancelled.
    pub(in crate::connected) fn cancel_asked(&mut self, sequence: Sequence) {
        self.cancels.entry(sequence).or_insert(Cancel::Asked);
    }

    /// Nobody knows what became of a cancel.
    pub(in crate::connected) fn cancel_lost(&mut self, sequence: Sequence) {
        self.maybe_cancelled.insert(sequence);
    }

    /// The answer to a cancel: true where it was done.
    pub(in crate::connected) fn cancel_told(&mut self, sequence: Sequence, is_done: bool) {
        let before = self.cancels.insert(sequence, if is_done { Cancel::Done } else { Cancel::Refused });
        let stored = self.stored_as(sequence);
        let came = self.places.keys().any(|(_, other)| *other == stored);
        let moved = self.moved_to(sequence);
        self.counts.cancelled += u64::from(is_done);
        let is_gone = came || before == Some(Cancel::Refused) || moved.is_some();
        if is_done && is_gone || !is_done && before == Some(Cancel::Done) {
            self.blame(format!(
                "cancel of {sequence} says done: {is_done}, before {before:?}, came {came}, moved to {moved:?}"
            ));
        }
    }

    /// A message is asked to be moved.
    pub(in crate::connected) fn move_asked(&mut self, receipt: Sequence, due: DueTime, not_before: Millis) {
        let asks = &mut self.moves.entry(receipt).or_default().asks;
        match asks.iter_mut().find(|ask| ask.due == due) {
            Some(ask) => {
                ask.not_before = ask.not_before.min(not_before);
                (ask.sent, ask.open) = (ask.sent + 1, ask.open + 1);
            }
            None => asks.push(Ask { due, not_before, sent: 1, open: 1 }),
        }
    }

    /// The answer to a move to this time.
    pub(in crate::connected) fn move_told(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let sequence = self.stored_as(receipt);
        let Some(known) = self.moves.get_mut(&receipt) else { return };
        let Some(ask) = known.asks.iter_mut().find(|ask| ask.due == asked) else { return };
        ask.open = ask.open.saturating_sub(1);
        let Moved::Done(new) = moved else { return self.move_refused(receipt, asked, moved) };
        let (to, due) = (new.key.sequence, new.key.due);
        let fits = ask.fits(due, self.now);
        // An earlier one of the same was not answered, and nobody knows whether it was this one that was done.
        let is_again = ask.open > 0 && ask.sent > 1;
        let before = known.to.replace((to, asked));
        let is_cancelled = self.cancels.get(&receipt) == Some(&Cancel::Done);
        let came_due = self.came_dues.get(&sequence).copied();
        // Nobody can have moved it on before its receipt was told.
        let other = before.is_none() && came_due.is_some_and(|came| came != due);
        let changed = self.dues.insert(to, due).is_some_and(|told| told != due);
        let is_new = self.moved_from.insert(to, sequence).is_none() && !self.of.contains_key(&to);
        let is_right = before.map_or(is_new, |before| before == (to, asked));
        self.counts.moved += 1;
        self.counts.moved_again += u64::from(is_again);
        if !fits || other || changed || is_cancelled || !is_right {
            self.blame(format!(
                "move of {receipt} to {asked:?} gave {to} due at {due}, before {before:?}, cancelled {is_cancelled}, \
                 came {came_due:?}"
            ));
        }
    }

    /// A move that was done and is asked for once more is answered as the first time, whatever became of the message
    /// since. One of a message that still waits, and of which nothing else was asked, is done.
    fn move_refused(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let Some(known) = self.moves.get(&receipt) else { return };
        let was_done = known.to.is_some_and(|(_, done)| done == asked);
        let is_only_one = known.asks.iter().map(|ask| ask.sent).sum::<usize>() == 1;
        let waits = self.dues.get(&receipt).is_some_and(|due| *due > self.now) && !self.cancels.contains_key(&receipt);
        if was_done || is_only_one && waits {
            self.blame(format!("move of {receipt} to {asked:?} is {moved:?}, done before: {was_done}"));
        }
    }

    /// A message comes when its last receipt says, or when a move that nobody knows of has it come.
    pub(super) fn judge_the_due(&mut self, number: u64, came: &Came<'_>) {
        let last = self.last_receipt_of(came.sequence);
        let not_before = self.sent.get(&number).map_or(Millis(0), |sent| sent.not_before);
        let told = self.dues.get(&last).copied();
        let is_told = told.map_or(came.due >= not_before, |told| came.due == told);
        let asks = self.moves.get(&last).map(|known| known.asks.as_slice()).unwrap_or_default();
        let may_be_moved = asks.iter().any(|ask| ask.open > 0 && ask.fits(came.due, self.now));
        if !is_told && !may_be_moved {
            self.blame(format!("it is due at another time than {told:?}: {came:?}"));
        }
        if self.came_dues.insert(came.sequence, came.due).is_some_and(|before| before != came.due) {
            self.blame(format!("it is due at another time than when it came before: {came:?}"));
        }
    }

    /// A cancel of the message was done, as an answer has it.
    pub(super) fn is_cancelled(&self, sequence: Sequence) -> bool {
        self.cancels.get(&self.last_receipt_of(sequence)) == Some(&Cancel::Done)
    }

    /// A cancel of the message was done, or nobody knows whether it was. That of an earlier receipt was not.
    pub(super) fn may_be_cancelled(&self, sequence: Sequence) -> bool {
        let last = self.last_receipt_of(sequence);
        self.maybe_cancelled.contains(&last) || matches!(self.cancels.get(&last), Some(Cancel::Done | Cancel::Asked))
    }
}
