//! Moves of pending messages, and publishes that are stored once however often they are sent.

use delaymq_core::record::expire::{Expires, OnExpiry};
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::Receipt;
use delaymq_core::units::Millis;
use delaymq_core::wire::extension::moves::{Moved, put_moves};
use delaymq_core::wire::extension::publish::{DueTime, PublishWriter};
use delaymq_core::wire::extension::terms::{TermsAsked, TermsWriter};
use delaymq_core::wire::extension::{MOVE, PUBLISH_ON_TERMS};

use super::{Call, Client, Repeats};
use crate::connected::account::{Account, Sent};
use crate::connected::labels::meta_of;
use crate::connected::users::Shared;

/// The longest delay of a message, in milliseconds.
pub(super) const DELAY_MS_MAX: u64 = 3_000;
/// Delays of messages that are moved or stored once.
const DELAYS_MS: [u64; 4] = [0, 40, 500, DELAY_MS_MAX];

impl Client {
    /// Moves a message. Sends the last move again if no answer came, and sometimes if one came.
    pub(super) fn move_one(&mut self, around: &mut Shared) -> &'static str {
        let same = self.moves_again.pop().or_else(|| self.last_move.filter(|_| around.chance.percent(30)));
        let Some((receipt, due)) = same.or_else(|| self.new_move(around)) else { return "has nothing to move" };
        self.last_move = Some((receipt, due));
        around.account.move_asked(receipt.key.sequence, due, not_before(due, around.now));
        self.ask(around, MOVE, Repeats::For(u64::MAX), Call::Move(receipt, due), |out| {
            put_moves(out, &[(receipt, due)])
        })
    }

    fn new_move(&self, around: &mut Shared) -> Option<(Receipt, DueTime)> {
        let of_messages = self.receipts.iter().filter(|receipt| around.account.is_of_a_message(receipt.key.sequence));
        // Mostly messages that may still be pending.
        let any = around.chance.percent(20);
        let receipts: Vec<_> = of_messages.filter(|receipt| any || receipt.key.due > around.now).copied().collect();
        let receipt = around.chance.pick(&receipts).copied()?;
        Some((receipt, some_due(around, &DELAYS_MS)))
    }

    /// The answer to a move.
    pub(super) fn move_told(&mut self, account: &mut Account, (receipt, due): (Receipt, DueTime), moved: &Moved) {
        account.move_told(receipt.key.sequence, due, moved);
        if let Moved::Done(receipt) = moved {
            self.receipts.push(*receipt);
        }
    }

    /// Publishes messages of one subject with ids: a batch that was not answered, one that was stored before, or new
    /// ones.
    pub(super) fn publish_once(&mut self, around: &mut Shared) -> &'static str {
        let messages = match self.once_again.pop() {
            Some(messages) => messages,
            None => new_messages(around),
        };
        let subject = around.chance.pick(&around.subjects).cloned().unwrap_or_default();
        let (mut writer, mut terms) = (PublishWriter::default(), TermsWriter::default());
        for ((number, due), place) in messages.iter().zip(0..) {
            let not_before = not_before(*due, around.now);
            around.account.publish_asked(*number, || {
                Sent::once(subject.clone(), number.to_le_bytes().into_iter().chain(*b"once").collect(), not_before)
            });
            let Some(sent) = around.account.sent(*number) else { continue };
            let meta = meta_of(*number, format!("id-{number}"));
            let asked = TermsAsked { deduplicates: true, ..terms_of(place, None) };
            let pushed = writer.push(&sent.subject, *due, &meta, &sent.body).and_then(|()| terms.push(&asked));
            if let Err(error) = pushed {
                around.account.blame(format!("message {number} is refused: {error}"));
            }
        }
        if around.chance.percent(15) {
            self.once_again.push(messages.clone());
        }
        let repeats = Repeats::For(around.chance.one_of(&[300, u64::MAX]));
        self.ask(around, PUBLISH_ON_TERMS, repeats, Call::PublishOnce(messages), |out| terms.put(out, &writer, true))
    }
}

fn new_messages(around: &mut Shared) -> Vec<(u64, DueTime)> {
    let count = around.chance.between(1, 3);
    let new = (0..count).map(|_| {
        let number = around.new_number();
        (number, some_due(around, &DELAYS_MS))
    });
    new.collect()
}

/// A due time after one of these delays, as a delay or as a time.
pub(super) fn some_due(around: &mut Shared, delays_ms: &[u64]) -> DueTime {
    let delay_ms = around.chance.one_of(delays_ms);
    if around.chance.percent(50) { DueTime::After(delay_ms) } else { DueTime::At(around.now.plus(delay_ms)) }
}

/// When a message expires, and the effect; most do not. The longest are over only after the history.
pub(super) fn some_expiry(around: &mut Shared, due: DueTime) -> Option<(Expires, OnExpiry)> {
    if !around.chance.percent(40) {
        return None;
    }
    let after_ms = around.chance.one_of(&[1, 15, 200, 300, 2_000, 86_400_000]);
    let then = if around.chance.percent(50) { OnExpiry::Drop } else { OnExpiry::DeadLetter };
    let expires = match due {
        DueTime::At(time) if around.chance.percent(50) => Expires::At(time.plus(after_ms)),
        _ => Expires::After(after_ms),
    };
    Some((expires, then))
}

/// The terms of a message without a key or an id that counts.
pub(super) fn terms_of(place: u32, expires: Option<(Expires, OnExpiry)>) -> TermsAsked<'static> {
    TermsAsked { place, key: None, if_exists: IfExists::Replace, deduplicates: false, expires }
}

/// The earliest time at which a message of this due time may come.
pub(super) fn not_before(due: DueTime, now: Millis) -> Millis {
    match due {
        DueTime::After(delay_ms) => now.plus(delay_ms),
        DueTime::At(time) => time,
    }
}
