//! The answers to a client of QMQ.

use delaymq_core::wire::frame::{HEAD_BYTES, Head, answer, read_head};
use delaymq_core::wire::qmq::message::TAGS_VERSION;
use delaymq_core::wire::qmq::pull::read_pulled;
use delaymq_core::wire::qmq::register::read_registered;
use delaymq_core::wire::qmq::send::{SendCode, read_failures};

use super::{Call, QmqClient, number_of};
use crate::connected::ledger::{Came, Ledger, Mark};

impl QmqClient {
    /// Reads the frames that have arrived whole.
    pub(super) fn hear_frames(&mut self, ledger: &mut Ledger) {
        loop {
            let Head { header, frame_bytes } = match read_head(&self.input) {
                Ok(Some(head)) if self.input.len() >= head.frame_bytes => head,
                Ok(_) => return,
                Err(malformed) => return ledger.blame(format!("the server sent {malformed:?}")),
            };
            let frame: Vec<u8> = self.input.drain(..frame_bytes).collect();
            let body = frame.get(HEAD_BYTES..).unwrap_or_default();
            match self.calls.remove(&header.opaque) {
                Some((call, mark)) if header.is_answer() => self.answered(ledger, call, mark, header.code, body),
                other => ledger.blame(format!("{header:?} answers {other:?}")),
            }
        }
    }

    fn answered(&mut self, ledger: &mut Ledger, call: Call, mark: Mark, code: i16, body: &[u8]) {
        let place = self.wants.place.clone();
        match (call, code) {
            (Call::Send { numbers, damaged, is_nack }, answer::SUCCESS) => {
                self.sent(ledger, mark, (&numbers, &damaged, is_nack), body);
            }
            (Call::Send { numbers, is_nack, .. }, answer::BROKER_ERROR) => {
                ledger.counts.failed += 1;
                self.unsent.extend(numbers.into_iter().filter(|_| !is_nack));
            }
            (Call::Pull { received, .. }, answer::SUCCESS) => self.pulled(ledger, mark, received, body),
            (Call::Pull { was_level, .. }, answer::NO_MESSAGE) => {
                let is_certain = ledger.nothing_came(&place, mark);
                self.is_level = is_certain && was_level && self.pulls() == 0;
            }
            (Call::Acknowledge { first, last }, answer::SUCCESS) => {
                ledger.heard(&place, mark);
                ledger.acknowledged(&place, first, last);
            }
            (Call::Acknowledge { first, last }, answer::BROKER_ERROR) => {
                ledger.acknowledge_failed(&place, first, last);
                self.again.push_back((first, last));
            }
            (Call::Heartbeat, answer::SUCCESS) | (Call::Repeat, answer::SUCCESS | answer::BROKER_ERROR) => {
                ledger.heard(&place, mark);
            }
            (Call::Register, answer::SUCCESS) => match read_registered(body) {
                Ok(told) if told.timestamp_ms >= self.registered_at => self.registered_at = told.timestamp_ms,
                other => ledger.blame(format!("{place:?}: registered as {other:?} after {}", self.registered_at)),
            },
            (Call::Manage { reset }, answer::SUCCESS) => ledger.reset_told(&place.of, reset),
            (Call::Manage { reset }, answer::PARAM_ERROR) => ledger.reset_refused(&place.of, reset),
            // The reset may still happen until the server ends.
            (Call::Manage { .. } | Call::Heartbeat | Call::Register, answer::BROKER_ERROR) => {}
            (call, code) => ledger.blame(format!("{place:?}: {call:?} was answered with {code}: {body:?}")),
        }
    }

    fn sent(
        &mut self,
        ledger: &mut Ledger,
        mark: Mark,
        (numbers, damaged, is_nack): (&[u64], &[u64], bool),
        body: &[u8],
    ) {
        let failures = match read_failures(body) {
            Ok(failures) => failures,
            Err(malformed) => return ledger.blame(format!("the answer to a SEND is {malformed:?}")),
        };
        for number in numbers {
            let failed = failures.iter().find(|failure| number_of(&failure.message_id) == *number);
            match failed {
                None if damaged.contains(number) => {
                    ledger.blame(format!("message {number} is stored, its check wrong"));
                }
                None if is_nack => ledger.nack_told(&self.wants.place.of, *number, mark),
                None => ledger.send_told(*number, mark),
                Some(failure) if failure.code != SendCode::StoreError => {
                    ledger.blame(format!("message {number} is refused: {failure:?}"));
                }
                Some(_) if damaged.contains(number) || is_nack => {}
                Some(_) => {
                    ledger.counts.failed += 1;
                    self.unsent.push(*number);
                }
            }
        }
        if failures.len() > numbers.len() {
            ledger.blame(format!("{failures:?} of {numbers:?}"));
        }
    }

    fn pulled(&mut self, ledger: &mut Ledger, mark: Mark, received: Option<u64>, body: &[u8]) {
        let place = self.wants.place.clone();
        let has_tags = self.wants.version >= TAGS_VERSION;
        let without_tags = if has_tags { body.to_vec() } else { without_tag_flags(body) };
        let (first, messages) = match read_pulled(&without_tags) {
            Ok(pulled) => pulled,
            Err(malformed) => return ledger.blame(format!("{place:?}: an answer is {malformed:?}")),
        };
        let came: Vec<Came<'_>> = messages
            .iter()
            .map(|message| Came {
                number: number_of(message.message_id),
                subject: message.subject,
                body: message.body,
                tag: message.tags().next(),
                has_tags,
            })
            .collect();
        ledger.pulled(&place, mark, received, first.0, &came);
        let numbers: Vec<u64> = came.iter().map(|came| came.number).collect();
        for (offset, number) in (first.0..).zip(numbers) {
            self.held.insert(offset, number);
            self.received = Some(self.received.map_or(offset, |received| received.max(offset)));
        }
        self.is_level = false;
    }
}

/// A client before version 8 ignores the flag of tags and reads no tags: this clears the flag of each message.
fn without_tag_flags(body: &[u8]) -> Vec<u8> {
    /// Bytes before the first message, and bytes of a message before its subject.
    const BEFORE: usize = 16;
    const HEAD: usize = 17;
    let mut bytes = body.to_vec();
    let mut at = BEFORE;
    while at < bytes.len() {
        if let Some(flags) = bytes.get_mut(at) {
            *flags &= !delaymq_core::wire::qmq::message::FLAG_TAGS;
        }
        let number = |at: usize, count: usize| {
            let field = body.get(at..at.saturating_add(count)).unwrap_or_default();
            field.iter().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
        };
        let mut end = at.saturating_add(HEAD);
        for _ in 0..2 {
            end = end.saturating_add(2).saturating_add(number(end, 2));
        }
        at = end.saturating_add(4).saturating_add(number(end, 4));
    }
    bytes
}
