//! Producers: they publish, cancel and move.

use delaymq_core::record::expire::{Expires, Expiry, OnExpiry};
use delaymq_core::store::Receipt;
use delaymq_core::units::Millis;

use super::World;
use super::asked::{Command, Kept};
use crate::node::{Due, NewMessage, Published};

/// Milliseconds of a bucket of the schedule's index.
const BUCKET_MS: u64 = 4_096;

impl World {
    /// Publishes a few messages at once.
    pub(super) fn publish(&mut self) {
        if self.plan.terms_percent > 0 && self.chance.percent(self.plan.terms_percent) {
            return self.publish_on_terms();
        }
        let count = self.chance.one_of(&[1, 1, 1, 2, 5]);
        let same = self.chance.percent(30).then(|| self.due());
        let mut messages: Vec<(String, Due, Vec<u8>)> = Vec::new();
        let expires: Vec<_> = (0..count).map(|_| self.expires()).collect();
        for _ in 0..count {
            let subject = self.some_subject();
            let due = same.unwrap_or_else(|| self.due());
            messages.push((subject, due, self.body()));
        }
        let new: Vec<NewMessage<'_>> = messages
            .iter()
            .zip(&expires)
            .map(|((subject, due, body), expires)| NewMessage {
                subject,
                due: *due,
                body,
                expires: *expires,
                meta: b"",
            })
            .collect();
        let Some(published) = self.call("publish", |node| node.publish(&new)) else { return };
        let Some(published) = published else {
            self.note("publish must wait for room");
            return self.prepare();
        };
        let expiries = new.iter().zip(&published.receipts).map(|(new, receipt)| new.expiry(receipt.key.due)).collect();
        let bodies: Vec<Vec<u8>> = messages.into_iter().map(|(_, _, body)| body).collect();
        self.was_published(&published, &bodies, expiries);
    }

    pub(super) fn was_published(&mut self, published: &Published, bodies: &[Vec<u8>], expiries: Vec<Option<Expiry>>) {
        for ((receipt, body), expiry) in published.receipts.iter().zip(bodies).zip(expiries) {
            let key = receipt.key;
            self.note(&format!("publish {} in {} due {}", key.sequence, receipt.subject, key.due));
            let mut entry = Self::entry(receipt.subject, key.due, body);
            entry.expiry = expiry;
            self.oracle.submitted(key.sequence, entry);
            self.dues.insert(key.due);
            self.keep(*receipt);
        }
    }

    /// When a message expires, and the effect; `None` for most.
    fn expires(&mut self) -> Option<(Expires, OnExpiry)> {
        if self.plan.expiring_percent == 0 || !self.expiring.percent(self.plan.expiring_percent) {
            return None;
        }
        let then = if self.expiring.percent(50) { OnExpiry::Drop } else { OnExpiry::DeadLetter };
        Some((Expires::After(self.expiring.one_of(&[1, 1, 2, 20, 500, 3_000, 600_000])), then))
    }

    /// The name of one of the subjects.
    pub(super) fn some_subject(&mut self) -> String {
        Self::subject_name(self.chance.below(self.plan.subjects))
    }

    pub(super) fn subject_name(number: u64) -> String {
        format!("subject-{number}")
    }

    /// A body with a new number and nothing else.
    pub(super) fn short_body(&mut self) -> Vec<u8> {
        let number = self.next_body;
        self.next_body += 1;
        number.to_le_bytes().to_vec()
    }

    fn body(&mut self) -> Vec<u8> {
        let number = self.next_body;
        let mut body = self.short_body();
        let length = self.chance.below(self.plan.body_bytes_max);
        body.extend((0..length).map(|at| (number.wrapping_mul(31).wrapping_add(at) % 251) as u8));
        body
    }

    /// A due time, mostly at the edge of a window, a bucket or another due time.
    pub(super) fn due(&mut self) -> Due {
        let now = self.now();
        let owner = self.plan.node.owner;
        let around = |chance: &mut crate::chance::Chance, at: u64| {
            let at = at.saturating_add(chance.below(3)).saturating_sub(1);
            Due::At(Millis(at))
        };
        if self.plan.far_percent > 0 && self.chance.percent(self.plan.far_percent) {
            return Due::After(self.chance.between(30_000, 200_000));
        }
        match self.chance.below(12) {
            0 => Due::After(0),
            1 => Due::At(Millis(now.0.saturating_sub(self.chance.below(10_000)))),
            2..=4 => Due::After(self.chance.between(1, 20)),
            5 => around(&mut self.chance, now.0.saturating_add(owner.window_ms)),
            6 => around(&mut self.chance, now.0.saturating_add(owner.window_ms / 2)),
            7 => around(&mut self.chance, (now.0 / BUCKET_MS).saturating_add(1).saturating_mul(BUCKET_MS)),
            8 => around(&mut self.chance, now.0.saturating_add(owner.copy_after_ms.min(50_000))),
            9 => {
                let known: Vec<Millis> = self.dues.range(now..).take(4).copied().collect();
                match self.chance.pick(&known) {
                    Some(due) => around(&mut self.chance, due.0),
                    None => Due::After(3),
                }
            }
            10 => Due::After(self.chance.between(20, 2_000)),
            _ => Due::After(self.chance.between(1_000, 100_000)),
        }
    }

    /// Cancels or moves a message.
    pub(super) fn change_one(&mut self) {
        if self.plan.terms_percent > 0 && self.chance.percent(30) {
            self.ask_by_keys();
        } else if self.chance.percent(50) {
            self.cancel();
        } else {
            self.move_one();
        }
    }

    /// A receipt, often of a message that is due now. `None` if its message is known not to be in the log.
    fn some_receipt(&mut self) -> Option<Receipt> {
        let now = self.now();
        let near = |kept: &&Kept| kept.receipt.key.due.0.abs_diff(now.0) <= 2;
        let kept: Vec<&Kept> = if self.chance.percent(40) {
            self.receipts.iter().filter(near).collect()
        } else {
            self.receipts.iter().collect()
        };
        let kept = self.chance.pick(&kept)?;
        let (receipt, is_here) = (kept.receipt, kept.is_here);
        let node = self.node.as_mut()?;
        let may_be_here = node.may_be_here(&receipt);
        if may_be_here != Ok(is_here) {
            self.oracle.blame(format!("{receipt:?}: in the log is {is_here}, the book says {may_be_here:?}"));
        }
        is_here.then_some(receipt)
    }

    fn cancel(&mut self) {
        let Some(receipt) = self.some_receipt() else { return };
        let Some(command) = self.call("cancel", |node| node.cancel(&receipt)).flatten() else { return };
        self.note(&format!("cancel {} by {command}", receipt.key.sequence));
        self.oracle.cancel_submitted(command, receipt.key.sequence);
        self.await_outcome(command, Command::Cancel);
    }

    /// Moves a message to another time. Sometimes repeats the last move, as a client does that was not answered.
    fn move_one(&mut self) {
        let again = self.asked_again.take().filter(|_| self.chance.percent(60));
        let asked = match again {
            Some((receipt, due)) => self.is_here(&receipt).then_some((receipt, due)),
            None => self.some_receipt().map(|receipt| (receipt, self.due())),
        };
        let Some((receipt, due)) = asked else { return };
        let Some(key) = self.call("move", |node| node.move_to(&receipt, due)).flatten() else { return };
        self.note(&format!("move {} to {} by {}", receipt.key.sequence, key.due, key.sequence));
        self.oracle.move_submitted(key, receipt.key.sequence, due.delay_ms());
        self.dues.insert(key.due);
        self.await_outcome(key.sequence, Command::Move(receipt));
        if self.chance.percent(30) {
            self.asked_again = Some((receipt, due));
        }
    }

    fn is_here(&self, receipt: &Receipt) -> bool {
        self.receipts.iter().any(|kept| kept.receipt == *receipt && kept.is_here)
    }
}
