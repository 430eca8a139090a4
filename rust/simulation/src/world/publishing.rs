//! Producers: they publish and cancel.

use delaymq_core::units::Millis;

use super::{Kept, World};
use crate::node::{Due, NewMessage, Published};

/// The schedule's index has buckets of so many milliseconds.
const BUCKET_MS: u64 = 4_096;

impl World {
    /// Publishes a few messages at once.
    pub(super) fn publish(&mut self) {
        let count = self.chance.one_of(&[1, 1, 1, 2, 5]);
        let same = self.chance.percent(30).then(|| self.due());
        let mut messages: Vec<(String, Due, Vec<u8>)> = Vec::new();
        for _ in 0..count {
            let subject = Self::subject_name(self.chance.below(self.plan.subjects));
            let due = same.unwrap_or_else(|| self.due());
            let body = self.body();
            messages.push((subject, due, body));
        }
        let new: Vec<NewMessage<'_>> =
            messages.iter().map(|(subject, due, body)| NewMessage { subject, due: *due, body }).collect();
        let Some(node) = &mut self.node else { return };
        let result = node.publish(&new);
        let Some(published) = self.survive("publish", result) else { return };
        let Some(published) = published else {
            self.note("publish must wait for room");
            return self.prepare();
        };
        let bodies: Vec<Vec<u8>> = messages.into_iter().map(|(_, _, body)| body).collect();
        self.was_published(&published, &bodies);
    }

    pub(super) fn was_published(&mut self, published: &Published, bodies: &[Vec<u8>]) {
        for (receipt, body) in published.receipts.iter().zip(bodies) {
            let key = receipt.key;
            self.note(&format!("publish {} in {} due {}", key.sequence, receipt.subject, key.due));
            self.oracle.submitted(key.sequence, Self::entry(receipt.subject, key.due, body));
            self.dues.insert(key.due);
            self.receipts.push(Kept { receipt: *receipt, is_here: true });
        }
    }

    pub(super) fn subject_name(number: u64) -> String {
        format!("subject-{number}")
    }

    /// A body that is nothing but its number.
    pub(super) fn short_body(&mut self) -> Vec<u8> {
        let number = self.next_body;
        self.next_body += 1;
        number.to_le_bytes().to_vec()
    }

    fn body(&mut self) -> Vec<u8> {
        let number = self.next_body;
        self.next_body += 1;
        let length = self.chance.below(self.plan.body_bytes_max);
        let mut body = number.to_le_bytes().to_vec();
        body.extend((0..length).map(|at| (number.wrapping_mul(31).wrapping_add(at) % 251) as u8));
        body
    }

    fn now(&self) -> Millis {
        self.node.as_ref().map_or(self.clock.read().wall, |node| node.reading().now)
    }

    /// A due time: mostly where something has an edge.
    fn due(&mut self) -> Due {
        let now = self.now();
        let owner = self.plan.node.owner;
        let around = |chance: &mut crate::chance::Chance, at: u64| {
            let at = at.saturating_add(chance.below(3)).saturating_sub(1);
            Due::At(Millis(at))
        };
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

    /// Cancels one of the messages published so far, often one whose time is now.
    pub(super) fn cancel(&mut self) {
        let now = self.now();
        let near = |kept: &&Kept| kept.receipt.key.due.0.abs_diff(now.0) <= 2;
        let kept: Vec<&Kept> = if self.chance.percent(40) {
            self.receipts.iter().filter(near).collect()
        } else {
            self.receipts.iter().collect()
        };
        let Some(kept) = self.chance.pick(&kept) else { return };
        let (receipt, is_here) = (kept.receipt, kept.is_here);
        let Some(node) = &mut self.node else { return };
        let may_be_here = node.may_be_here(&receipt);
        if may_be_here != Ok(is_here) {
            self.oracle.blame(format!("{receipt:?}: in the log is {is_here}, the book says {may_be_here:?}"));
        }
        if !is_here {
            return;
        }
        let asked = node.cancel(receipt.key);
        let Some(Some(command)) = self.survive("cancel", asked) else { return };
        self.note(&format!("cancel {} by {command}", receipt.key.sequence));
        self.oracle.cancel_submitted(command, receipt.key.sequence);
        self.cancels.insert(command);
    }
}
