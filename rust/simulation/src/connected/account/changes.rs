//! Messages that were cancelled or moved, and messages that are stored once however often a client sends them.
//!
//! A message comes under the sequence of its publish. Each move gives it another receipt, and the old receipt is no
//! longer valid.

use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::extension::moves::Moved;
use delaymq_core::wire::extension::publish::DueTime;

use super::known::{Ask, Cancel};
use super::{Account, Came, Sent};

impl Sent {
    /// How often it may be stored, at most.
    pub(super) fn stored_max(&self) -> usize {
        if self.is_once { 1 } else { self.asked }
    }
}

impl Account {
    /// True if the message passes the filters of this group. Occurrences of series have no labels, and pass none.
    pub(super) fn is_wanted(&self, group: &str, number: u64) -> bool {
        self.wants.get(group).is_none_or(|wants| wants.pass(number) && !self.series.is_of(number))
    }

    /// The receipt is of a message, and not of a series.
    pub(crate) fn is_of_a_message(&self, receipt: Sequence) -> bool {
        self.of.contains_key(&self.stored_as(receipt))
    }

    /// The sequence of the message that has, or had, this receipt.
    pub(super) fn stored_as(&self, receipt: Sequence) -> Sequence {
        self.moved_from.get(&receipt).copied().unwrap_or(receipt)
    }

    /// The last known receipt of a message.
    fn last_receipt_of(&self, sequence: Sequence) -> Sequence {
        std::iter::successors(Some(sequence), |receipt| self.moved_to(*receipt)).last().unwrap_or(sequence)
    }

    /// The receipt that replaced this one, by the answer to a move.
    pub(super) fn moved_to(&self, receipt: Sequence) -> Option<Sequence> {
        self.moves.get(&receipt).and_then(|known| known.to).map(|(to, _)| to)
    }

    /// A cancel is sent.
    pub(crate) fn cancel_asked(&mut self, sequence: Sequence) {
        self.cancels.entry(sequence).or_insert(Cancel::Asked);
    }

    /// The outcome of a cancel is not known.
    pub(crate) fn cancel_lost(&mut self, sequence: Sequence) {
        self.maybe_cancelled.insert(sequence);
    }

    /// The answer to a cancel: true if it was done.
    pub(crate) fn cancel_told(&mut self, sequence: Sequence, is_done: bool) {
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

    /// A move is sent.
    pub(crate) fn move_asked(&mut self, receipt: Sequence, due: DueTime, not_before: Millis) {
        let asks = &mut self.moves.entry(receipt).or_default().asks;
        match asks.iter_mut().find(|ask| ask.due == due) {
            Some(ask) => {
                ask.not_before = ask.not_before.min(not_before);
                (ask.sent, ask.open) = (ask.sent + 1, ask.open + 1);
            }
            None => asks.push(Ask { due, not_before, sent: 1, open: 1 }),
        }
    }

    /// A move is sent once more, or only now.
    pub(crate) fn move_repeated(&mut self, receipt: Sequence, due: DueTime, not_before: Millis) {
        let asks = self.moves.entry(receipt).or_default().asks.iter_mut();
        asks.filter(|ask| ask.due == due).for_each(|ask| ask.not_before = ask.not_before.min(not_before));
    }

    /// The answer to a move to this time.
    pub(crate) fn move_told(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let sequence = self.stored_as(receipt);
        let Some(known) = self.moves.get_mut(&receipt) else { return };
        let Some(ask) = known.asks.iter_mut().find(|ask| ask.due == asked) else { return };
        ask.open = ask.open.saturating_sub(1);
        let Moved::Done(new) = moved else { return self.move_refused(receipt, asked, moved) };
        let (to, due) = (new.key.sequence, new.key.due);
        let fits = ask.fits(due, self.now);
        // An earlier identical move was not answered, so that either of them may have been done.
        let is_again = ask.open > 0 && ask.sent > 1;
        let before = known.to.replace((to, asked));
        let is_cancelled = self.cancels.get(&receipt) == Some(&Cancel::Done);
        let came_due = self.came_dues.get(&sequence).copied();
        // No later move is possible before this receipt was answered.
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

    /// A repeated move gets the first answer, whatever happened to the message since. The only move of a message that
    /// still waits is done.
    fn move_refused(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let Some(known) = self.moves.get(&receipt) else { return };
        let was_done = known.to.is_some_and(|(_, done)| done == asked);
        let is_only_one = known.asks.iter().map(|ask| ask.sent).sum::<usize>() == 1;
        let waits = self.dues.get(&receipt).is_some_and(|due| *due > self.now) && !self.cancels.contains_key(&receipt);
        if was_done || is_only_one && waits {
            self.blame(format!("move of {receipt} to {asked:?} is {moved:?}, done before: {was_done}"));
        }
    }

    /// A message is due at the time of its last receipt, or of a move whose outcome is not known.
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

    /// An answer says that the message was cancelled.
    pub(super) fn is_cancelled(&self, sequence: Sequence) -> bool {
        self.cancels.get(&self.last_receipt_of(sequence)) == Some(&Cancel::Done)
    }

    /// The message was or may have been cancelled. Cancels of earlier receipts do not count.
    pub(super) fn may_be_cancelled(&self, sequence: Sequence) -> bool {
        let last = self.last_receipt_of(sequence);
        self.maybe_cancelled.contains(&last) || matches!(self.cancels.get(&last), Some(Cancel::Done | Cancel::Asked))
    }
}
