//! How a subscription settles messages: acknowledgements, redeliveries and dead letters, and what is known of them.

use bytes::Bytes;
use delaymq_core::planted::{self, Planted};
use delaymq_core::wire::client::delivery_keys;
use delaymq_core::wire::extension::settle::{
    Acknowledge, GiveBack, GivenBack, KeyRange, PutAway, SETTLED_MAX as REQUEST_MESSAGES_MAX,
};
use delaymq_core::wire::extension::{ACKNOWLEDGE, FLUSH, GIVE_BACK, PUT_AWAY};

use crate::failure::Failure;
use crate::session::request::{Request, Ticket};
use crate::session::requests::{Outcome, Purpose, Requests};
use crate::session::subscription::SubscriptionState;

/// Settled messages that are sent at once, without waiting for more.
pub const SETTLED_MAX: usize = 256;

/// When queued settlements are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settling {
    /// They were sent, or there are none.
    Done,
    /// Soon, so that more can go with them.
    Soon,
}

impl<W> SubscriptionState<W> {
    /// Queues acknowledgements. Returns the places of the messages that were passed on before.
    pub(super) fn acknowledge(&mut self, keys: &[u128], requests: &mut Requests<W>) -> (Settling, Vec<usize>) {
        let mut late = Vec::new();
        for (place, key) in keys.iter().enumerate() {
            if !self.is_current(*key) {
                continue;
            }
            if self.is_too_late(*key) {
                late.push(place);
            } else {
                self.acknowledged.push(*key);
            }
        }
        (self.after_queueing(self.acknowledged.len(), requests), late)
    }

    /// Queues a redelivery. False if the message was passed on before.
    pub(super) fn give_back(&mut self, key: u128, delay_ms: u64, requests: &mut Requests<W>) -> (Settling, bool) {
        if !self.is_current(key) {
            return (Settling::Done, true);
        }
        if self.is_too_late(key) {
            return (Settling::Done, false);
        }
        self.given_back.push((key, delay_ms));
        (self.after_queueing(self.given_back.len(), requests), true)
    }

    /// Queues a dead letter. False if the message was passed on before.
    pub(super) fn put_away(&mut self, key: u128, reason: &str, requests: &mut Requests<W>) -> (Settling, bool) {
        if !self.is_current(key) {
            return (Settling::Done, true);
        }
        if self.is_too_late(key) {
            return (Settling::Done, false);
        }
        let count = if let Some((_, keys)) = self.put_away.iter_mut().find(|(known, _)| known == reason) {
            keys.push(key);
            keys.len()
        } else {
            self.put_away.push((reason.to_owned(), vec![key]));
            1
        };
        (self.after_queueing(count, requests), true)
    }

    /// True for a message of this connection; the outcome of any other is ambiguous.
    fn is_current(&mut self, key: u128) -> bool {
        let is_current = self.number != 0 && delivery_keys::is_of(key, self.number);
        self.ambiguous = self.ambiguous.saturating_add(u64::from(!is_current));
        is_current
    }

    fn after_queueing(&mut self, count: usize, requests: &mut Requests<W>) -> Settling {
        if count >= SETTLED_MAX {
            self.push_settled(requests);
        }
        if count == 0 || count >= SETTLED_MAX { Settling::Done } else { Settling::Soon }
    }

    /// Sends all queued acknowledgements, redeliveries and dead letters.
    pub(super) fn push_settled(&mut self, requests: &mut Requests<W>) {
        let (id, number) = (self.id, self.number);
        if number == 0 {
            return;
        }
        if !self.acknowledged.is_empty() {
            let keys = std::mem::take(&mut self.acknowledged);
            self.settled = self.settled.saturating_add(keys.len() as u64);
            keys.chunks(REQUEST_MESSAGES_MAX).for_each(|keys| requests.tell(acknowledge(number, keys)));
        }
        for messages in std::mem::take(&mut self.given_back).chunks(REQUEST_MESSAGES_MAX) {
            let ticket = requests.add_of_connection(give_back(number, messages), Purpose::Settle { id });
            self.unanswered.insert(ticket, messages.len() as u64);
        }
        for (reason, keys) in std::mem::take(&mut self.put_away) {
            for keys in keys.chunks(REQUEST_MESSAGES_MAX) {
                let ticket = requests.add_of_connection(put_away(number, &reason, keys), Purpose::Settle { id });
                self.unanswered.insert(ticket, keys.len() as u64);
            }
        }
    }

    /// Handles the answer to redeliveries or dead letters.
    pub(super) fn settled(&mut self, ticket: Ticket, outcome: Outcome) {
        match outcome {
            // The connection was lost: `disconnected` has counted the messages.
            Err(failure) if failure.is_ambiguous() => return,
            Err(failure) => self.refusal = Some(failure),
            Ok(_) => {}
        }
        self.unanswered.remove(&ticket);
    }

    /// How many messages were settled on this connection and may not be durable.
    pub(super) fn unconfirmed(&self) -> u64 {
        let unanswered = self.unanswered.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        self.settled.saturating_sub(self.confirmed).saturating_add(unanswered)
    }

    pub(super) fn clear_unconfirmed(&mut self) {
        self.confirmed = self.settled;
        self.unanswered.clear();
    }

    /// Asks whether everything settled is durable, so that little is ambiguous if the connection is lost.
    pub(super) fn confirm(&mut self, requests: &mut Requests<W>) {
        if self.number != 0 && self.unconfirmed() > 0 {
            self.push_settled(requests);
            self.ask_flush(None, requests);
        }
    }

    /// Asks the server to make everything settled durable; `None` if there is nothing to ask.
    ///
    /// # Errors
    /// Some of it is ambiguous, or was refused.
    pub(super) fn request_flush(&mut self, waiter: W, requests: &mut Requests<W>) -> Result<Option<Ticket>, Failure> {
        self.push_settled(requests);
        if let Some(failure) = self.pop_failure() {
            return Err(failure);
        }
        Ok((self.number != 0).then(|| self.ask_flush(Some(waiter), requests)))
    }

    fn ask_flush(&mut self, waiter: Option<W>, requests: &mut Requests<W>) -> Ticket {
        // Several may be in progress: each answer covers only the messages that were sent before its request.
        let unanswered_before = self.unanswered.keys().copied().collect();
        let purpose = Purpose::Flush { id: self.id, waiter, settled_before: self.settled, unanswered_before };
        let body = Bytes::copy_from_slice(&self.number.to_be_bytes());
        requests.add_of_connection(Request::new(FLUSH, body).reading(), purpose)
    }

    /// Handles the answer to a flush; returns what its waiter gets.
    pub(super) fn flushed(
        &mut self,
        outcome: Outcome,
        is_awaited: bool,
        settled_before: u64,
        unanswered_before: &[Ticket],
    ) -> Outcome {
        match outcome {
            Ok(answer) => {
                let settled = if planted::is_on(Planted::FlushCoversLater) { self.settled } else { settled_before };
                self.confirmed = self.confirmed.max(settled);
                for ticket in unanswered_before {
                    self.unanswered.remove(ticket);
                }
                match is_awaited.then(|| self.pop_failure()).flatten() {
                    Some(failure) => Err(failure),
                    None => Ok(answer),
                }
            }
            Err(failure) => {
                if failure.is_ambiguous() && is_awaited {
                    self.ambiguous = 0; // this error reports them
                }
                Err(failure)
            }
        }
    }

    /// Ends the subscription. `was_confirmed`: the server has confirmed the end, after everything settled was durable.
    ///
    /// # Errors
    /// Some settled messages are ambiguous, or were refused.
    pub(super) fn finish(&mut self, was_confirmed: bool) -> Result<(), Failure> {
        if !was_confirmed {
            self.ambiguous = self.ambiguous.saturating_add(self.unconfirmed());
        }
        self.clear_unconfirmed();
        self.pop_failure().map_or(Ok(()), Err)
    }

    /// The error of settled messages that may not be durable, once.
    fn pop_failure(&mut self) -> Option<Failure> {
        let ambiguous = std::mem::take(&mut self.ambiguous);
        if let Some(refusal) = self.refusal.take() {
            return Some(refusal);
        }
        (ambiguous > 0).then(|| {
            let words = format!(
                "a connection was lost before {ambiguous} of the messages that were settled were known to be: they \
                 may come again"
            );
            Failure::ambiguous(words, "the connection was lost")
        })
    }
}

fn acknowledge(number: u32, keys: &[u128]) -> Request {
    let mut keys: Vec<(u32, u64)> = keys.iter().map(|key| delivery_keys::parts(*key)).collect();
    keys.sort_unstable();
    let mut ranges: Vec<KeyRange> = Vec::new();
    for (queue, offset) in keys {
        match ranges.last_mut() {
            Some(last) if last.queue == queue && last.first.checked_add(last.count) == Some(offset) => {
                last.count = last.count.saturating_add(1);
            }
            _ => ranges.push(KeyRange { queue, first: offset, count: 1 }),
        }
    }
    filled(ACKNOWLEDGE, |out| Acknowledge { subscription: number, ranges }.put(out))
}

/// The request that gives messages back, each after a delay.
pub(super) fn give_back(number: u32, messages: &[(u128, u64)]) -> Request {
    let messages = messages.iter().map(|(key, delay_ms)| {
        let (queue, offset) = delivery_keys::parts(*key);
        GivenBack { queue, offset, delay_ms: *delay_ms }
    });
    let request = GiveBack { subscription: number, messages: messages.collect() };
    filled(GIVE_BACK, |out| request.put(out))
}

fn put_away(number: u32, reason: &str, keys: &[u128]) -> Request {
    let keys = keys.iter().map(|key| delivery_keys::parts(*key)).collect();
    filled(PUT_AWAY, |out| PutAway { subscription: number, reason, keys }.put(out))
}

/// Checks the reason of a dead letter.
///
/// # Errors
/// `TooLarge` naming `reason`.
pub(super) fn check_reason(reason: &str) -> delaymq_core::error::Result<()> {
    PutAway { subscription: 0, reason, keys: Vec::new() }.put(&mut Vec::new())
}

/// A request of a subscription. Its limits were checked when the messages were queued.
fn filled(command: i16, fill: impl FnOnce(&mut Vec<u8>) -> delaymq_core::error::Result<()>) -> Request {
    let mut body = Vec::new();
    let filled = fill(&mut body);
    debug_assert!(filled.is_ok(), "{filled:?}");
    Request::new(command, body)
}
