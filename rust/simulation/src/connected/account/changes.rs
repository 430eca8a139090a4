//! What is known of messages that were cancelled or moved, and of those that are stored once however often they are asked for.
//!
//! A message comes under the sequence that it was stored under. Each move gives it another receipt, and the receipt
//! before names nothing any more.

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    not_before: Millis,
    /// Asked and not answered yet, or never.
    open: usize,
    /// The receipt that the message has since, as an answer has it, and the time that was asked for.
    to: Option<(Sequence, DueTime)>,
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

    /// All receipts of a message that were told.
    fn receipts_of(&self, sequence: Sequence) -> impl Iterator<Item = Sequence> {
        std::iter::successors(Some(sequence), |receipt| self.moved_to(*receipt))
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
    pub(in crate::connected) fn move_asked(&mut self, receipt: Sequence, not_before: Millis) {
        let known = self.moves.entry(receipt).or_insert(Move { not_before, open: 0, to: None });
        known.open += 1;
        known.not_before = known.not_before.min(not_before);
    }

    /// The answer to a move to this time.
    pub(in crate::connected) fn move_told(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let sequence = self.stored_as(receipt);
        let Some(known) = self.moves.get_mut(&receipt) else { return };
        known.open = known.open.saturating_sub(1);
        let Moved::Done(new) = moved else { return self.move_refused(receipt, asked, moved) };
        let (to, due) = (new.key.sequence, new.key.due);
        let before = known.to.replace((to, asked)).map(|(before, _)| before);
        let early = due < known.not_before;
        let is_cancelled = self.cancels.get(&receipt) == Some(&Cancel::Done);
        let came_due = self.came_dues.get(&sequence).copied();
        // Nobody can have moved it on before its receipt was told.
        let other = before.is_none() && came_due.is_some_and(|came| came != due);
        let changed = self.dues.insert(to, due).is_some_and(|told| told != due);
        let is_new = self.moved_from.insert(to, sequence).is_none() && !self.of.contains_key(&to);
        let is_right = before.map_or(is_new, |before| before == to);
        self.counts.moved += 1;
        if early || other || changed || is_cancelled || !is_right {
            self.blame(format!(
                "move of {receipt} to {to} due at {due}, before to {before:?}, cancelled {is_cancelled}, \
                 came {came_due:?}"
            ));
        }
    }

    /// A move that was done and is asked for once more is answered as the first time, as long as nothing became of the
    /// message since.
    fn move_refused(&mut self, receipt: Sequence, asked: DueTime, moved: &Moved) {
        let Some((to, done)) = self.moves.get(&receipt).and_then(|known| known.to) else { return };
        let is_over = self.dues.get(&to).is_none_or(|due| *due <= self.now)
            || self.moves.contains_key(&to)
            || self.may_be_cancelled(self.stored_as(receipt));
        if asked == done && !is_over {
            self.blame(format!("move of {receipt} to {to} was done and is {moved:?}, asked for once more"));
        }
    }

    /// A message comes when its last receipt says, or when a move that nobody knows of has it come.
    pub(super) fn judge_the_due(&mut self, number: u64, came: &Came<'_>) {
        let last = self.receipts_of(came.sequence).last().unwrap_or(came.sequence);
        let not_before = self.sent.get(&number).map_or(Millis(0), |sent| sent.not_before);
        let told = self.dues.get(&last).copied();
        let is_told = told.map_or(came.due >= not_before, |told| came.due == told);
        let open = self.moves.get(&last).filter(|known| known.open > 0).map(|known| known.not_before);
        if !is_told && open.is_none_or(|open| came.due < open) {
            self.blame(format!("it is due at another time than {told:?}, moved from {open:?} on: {came:?}"));
        }
        if self.came_dues.insert(came.sequence, came.due).is_some_and(|before| before != came.due) {
            self.blame(format!("it is due at another time than when it came before: {came:?}"));
        }
    }

    /// A cancel of the message was done, as an answer has it.
    pub(super) fn is_cancelled(&self, sequence: Sequence) -> bool {
        self.receipts_of(sequence).any(|receipt| self.cancels.get(&receipt) == Some(&Cancel::Done))
    }

    /// A cancel of the message was done, or nobody knows whether it was.
    pub(super) fn may_be_cancelled(&self, sequence: Sequence) -> bool {
        self.receipts_of(sequence).any(|receipt| {
            self.maybe_cancelled.contains(&receipt)
                || matches!(self.cancels.get(&receipt), Some(Cancel::Done | Cancel::Asked))
        })
    }

    /// Each group has had as many copies of a message as were stored and not cancelled, whatever answers were lost.
    pub(super) fn judge_the_copies(&mut self, groups: &[(String, String)]) {
        let mut wrong = Vec::new();
        for (number, sent) in &self.sent {
            let count = |is_so: fn(&Self, Sequence) -> bool| {
                sent.copies.iter().filter(|sequence| is_so(self, **sequence)).count()
            };
            let least = sent.answered.len().saturating_sub(count(Self::may_be_cancelled));
            let most = sent.stored_max().saturating_sub(count(Self::is_cancelled));
            for (_, group) in groups.iter().filter(|(subject, _)| *subject == sent.subject) {
                let had = sent.copies.iter().filter(|sequence| self.place(group, **sequence).is_some()).count();
                if had < least || had > most {
                    wrong.push(format!(
                        "lost or doubled: {group} had {had} copies of message {number}, and {least} to {most} are \
                         right: {sent:?}"
                    ));
                }
            }
        }
        self.violations.extend(wrong);
    }
}
