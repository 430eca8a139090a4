//! The subscriptions of a session: the calls of their consumers, and how they are created again.

use delaymq_core::error::Error;
use delaymq_core::planted::{self, Planted};
use delaymq_core::wire::extension::consume::Subscribed;
use delaymq_core::wire::extension::errors::RemoteError;

use crate::failure::{Failure, Kind};
use crate::session::arrival::Arrival;
use crate::session::request::{Closing, Report, SubscriptionId, Ticket};
use crate::session::requests::{Answer, Outcome, Purpose, Requests};
use crate::session::settling::{Settling, check_reason};
use crate::session::subscription::{SubscriptionRequest, SubscriptionState, unsubscribe};
use crate::session::timers::Timer;
use crate::session::{CONFIRM_MS, SOON_MS, Session};

/// The error of a message that is settled after its subscription is closed.
const SETTLED_TOO_LATE: &str =
    "the subscription is closed: what it had not settled went back to its group and comes again";

impl<W> Session<W> {
    /// Adds a subscription, which is requested now, or when there is a connection. `opened` gets the answer.
    ///
    /// # Errors
    /// The client is closed, or an argument is refused.
    pub fn subscribe(
        &mut self,
        wanted: SubscriptionRequest,
        opened: W,
        now_ms: u64,
    ) -> Result<SubscriptionId, Failure> {
        self.check()?;
        // Refuses invalid arguments before anything is sent.
        wanted.request(0, "").map_err(|error| RemoteError::from(&error))?;
        let id = SubscriptionId(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        self.subscriptions.insert(id, SubscriptionState::new(id, wanted, opened));
        if self.is_ready {
            self.resubscribe(id, now_ms);
        }
        self.advance(now_ms);
        Ok(id)
    }

    /// Requests a subscription from the server, under the consumer name that it has had so far.
    pub(super) fn resubscribe(&mut self, id: SubscriptionId, now_ms: u64) {
        let Some(state) = self.subscriptions.get_mut(&id) else { return };
        let keeps = planted::is_on(Planted::NumberKept) && state.asked_number != 0;
        let number = if keeps { state.asked_number } else { self.next_number };
        self.next_number = self.next_number.checked_add(1).unwrap_or(1);
        (state.number, state.asked_number) = (0, number);
        // `subscribe` has checked the arguments.
        let Ok(request) = state.wanted.request(number, &state.consumer) else { return };
        self.refused.remove(&id);
        self.requests.add_of_connection(request, Purpose::Subscribe { id, number });
        self.requests.send(self.caller.as_mut(), now_ms);
    }

    /// Handles the answer to a subscribe.
    pub(super) fn subscribe_answered(&mut self, id: SubscriptionId, number: u32, outcome: Outcome, now_ms: u64) {
        let Some(state) = self.subscriptions.get_mut(&id).filter(|state| state.asked_number == number) else {
            // It has ended, or was requested under another number since.
            if outcome.is_ok() {
                self.requests.add_of_connection(unsubscribe(number), Purpose::Nothing);
            }
            return;
        };
        match outcome.and_then(|answer| subscribed(&answer).map(|told| (answer, told))) {
            Ok((answer, told)) => {
                self.by_number.insert(number, id);
                state.subscribed(number, told.consumer, &mut self.requests);
                self.completed.extend(state.opened.take().map(|opened| (opened, Ok(answer))));
                self.news.insert(id);
            }
            Err(failure) if failure.is_ambiguous() => {} // the connection was lost: it is requested on the next one
            // A temporary error, such as an overloaded server: the subscription is requested again.
            Err(failure) if !state.consumer.is_empty() && !failure.is_permanent() && !failure.is_of_arguments() => {
                if state.last_refusal != failure.words() {
                    failure.words().clone_into(&mut state.last_refusal);
                    let text = format!("{} cannot be made again yet: {}", state.wanted.shown(), failure.words());
                    self.reports.push(Report { action: "subscription_refused", text });
                }
                self.refused.insert(id);
                self.timers.set(Timer::Resubscribe, now_ms.saturating_add(self.options.again_ms));
            }
            Err(failure) => {
                state.cause = Some(failure.clone());
                self.completed.extend(state.opened.take().map(|opened| (opened, Err(failure))));
                self.news.insert(id);
            }
        }
    }

    /// Removes a subscription whose caller waits no longer for its creation, ends it at the server if it exists, and returns the error
    /// of its caller.
    pub fn abandon(&mut self, id: SubscriptionId, now_ms: u64) -> Failure {
        let failure = self.requests.unanswered(false, false, true);
        let number = self.subscriptions.get(&id).map_or(0, |state| state.number);
        self.remove(id);
        if number != 0 && self.closed.is_none() {
            self.requests.add_of_connection(unsubscribe(number), Purpose::Nothing);
            self.advance(now_ms);
        }
        failure
    }

    fn remove(&mut self, id: SubscriptionId) -> Option<SubscriptionState<W>> {
        self.refused.remove(&id);
        self.dirty.remove(&id);
        let state = self.subscriptions.remove(&id)?;
        self.by_number.remove(&state.number);
        Some(state)
    }

    /// Makes a call of a subscription, then sends what it asked for; `None` if it is not open.
    pub(super) fn with_subscription<T>(
        &mut self,
        id: SubscriptionId,
        now_ms: u64,
        call: impl FnOnce(&mut SubscriptionState<W>, &mut Requests<W>) -> T,
    ) -> Option<T> {
        let state = self.subscriptions.get_mut(&id)?;
        let settled_before = state.settled;
        let result = call(state, &mut self.requests);
        if let Some(end) = state.next_hold_ms() {
            self.timers.set_earlier(Timer::PassOn, end);
        }
        if state.settled != settled_before {
            self.timers.set_once(Timer::Confirm, now_ms.saturating_add(CONFIRM_MS));
        }
        self.advance(now_ms);
        Some(result)
    }

    /// Up to `count_max` messages that have arrived, which the consumer holds from now on. With `tops_up`, more are
    /// requested if few are left.
    ///
    /// # Errors
    /// The client is closed, or the server refused to create the subscription again.
    pub fn take(
        &mut self,
        id: SubscriptionId,
        count_max: usize,
        tops_up: bool,
        now_ms: u64,
    ) -> Result<Vec<Arrival>, Failure> {
        let taken =
            self.with_subscription(id, now_ms, |state, requests| state.take(count_max, tops_up, now_ms, requests));
        taken.unwrap_or_else(|| self.check().map(|()| Vec::new()))
    }

    /// Asks the server to send all ready messages and then an answer; `None` without a connection.
    ///
    /// # Errors
    /// The client is closed.
    pub fn request_ready(&mut self, id: SubscriptionId, waiter: W, now_ms: u64) -> Result<Option<Ticket>, Failure> {
        self.check()?;
        Ok(self.with_subscription(id, now_ms, |state, requests| state.request_ready(waiter, requests)).flatten())
    }

    /// Hands over no more messages.
    pub fn stop(&mut self, id: SubscriptionId) {
        if let Some(state) = self.subscriptions.get_mut(&id) {
            state.stop();
            self.news.insert(id);
        }
    }

    /// True until it, or its client, is closed.
    pub fn has(&self, id: SubscriptionId) -> bool {
        self.subscriptions.contains_key(&id)
    }

    /// True once it hands over no more messages.
    pub fn is_stopped(&self, id: SubscriptionId) -> bool {
        self.subscriptions.get(&id).is_none_or(|state| state.is_stopped)
    }

    /// True if the server has the subscription on this connection.
    pub fn is_subscribed(&self, id: SubscriptionId) -> bool {
        self.subscriptions.get(&id).is_some_and(|state| state.number != 0)
    }

    /// Checks that messages of the subscription can be settled.
    pub(super) fn check_settles(&self, id: SubscriptionId) -> Result<(), Failure> {
        self.check()?;
        let is_open = self.subscriptions.get(&id).is_some_and(|state| state.closed.is_none());
        if is_open { Ok(()) } else { Err(Failure::new(Kind::Closed, SETTLED_TOO_LATE)) }
    }

    fn settle<T: Default>(
        &mut self,
        id: SubscriptionId,
        now_ms: u64,
        call: impl FnOnce(&mut SubscriptionState<W>, &mut Requests<W>) -> (Settling, T),
    ) -> Result<T, Failure> {
        self.check_settles(id)?;
        let Some((settling, result)) = self.with_subscription(id, now_ms, call) else { return Ok(T::default()) };
        if settling == Settling::Soon {
            self.dirty.insert(id);
            self.timers.set_once(Timer::Settle, now_ms.saturating_add(SOON_MS));
        }
        Ok(result)
    }

    /// Queues acknowledgements; an empty list checks whether any would be accepted. Returns the places of the messages
    /// that were passed on before, since the consumer had them for too long.
    ///
    /// # Errors
    /// The client or the subscription is closed.
    pub fn acknowledge(&mut self, id: SubscriptionId, keys: &[u128], now_ms: u64) -> Result<Vec<usize>, Failure> {
        self.settle(id, now_ms, |state, requests| state.acknowledge(keys, requests))
    }

    /// Queues a redelivery. False if the message was passed on before, since the consumer had it for too long.
    ///
    /// # Errors
    /// The client or the subscription is closed, or the delay is longer than those of the store.
    pub fn give_back(&mut self, id: SubscriptionId, key: u128, delay_ms: u64, now_ms: u64) -> Result<bool, Failure> {
        self.check_settles(id)?;
        if delay_ms > self.delay_ms_max {
            let (expected, found) = (format!("at most {} ms", self.delay_ms_max), format!("{delay_ms} ms"));
            let refused = Error::InvalidArgument { argument: "delay", expected, found };
            return Err(RemoteError::from(&refused).into());
        }
        self.settle(id, now_ms, |state, requests| state.give_back(key, delay_ms, requests))
    }

    /// Queues a dead letter. False if the message was passed on before, since the consumer had it for too long.
    ///
    /// # Errors
    /// The client or the subscription is closed, or the reason is too long.
    pub fn dead_letter(&mut self, id: SubscriptionId, key: u128, reason: &str, now_ms: u64) -> Result<bool, Failure> {
        self.check_settles(id)?;
        check_reason(reason).map_err(|error| RemoteError::from(&error))?;
        self.settle(id, now_ms, |state, requests| state.put_away(key, reason, requests))
    }

    /// Asks the server to make everything settled durable; `None` if there is nothing to ask.
    ///
    /// # Errors
    /// The client is closed, or some of what was settled is ambiguous, or was refused.
    pub fn request_flush(&mut self, id: SubscriptionId, waiter: W, now_ms: u64) -> Result<Option<Ticket>, Failure> {
        self.check()?;
        self.with_subscription(id, now_ms, |state, requests| state.request_flush(waiter, requests)).unwrap_or(Ok(None))
    }

    /// Begins to close a subscription: sends what was settled, and asks the server to end it. `None` if it is closed.
    ///
    /// # Errors
    /// The client is closed.
    pub fn begin_close(
        &mut self,
        id: SubscriptionId,
        waiter: W,
        with_client: bool,
        now_ms: u64,
    ) -> Result<Option<Closing>, Failure> {
        if self.subscriptions.get(&id).is_none_or(|state| state.closed.is_some()) {
            return Ok(None);
        }
        self.check()?;
        self.news.insert(id);
        let begin = |state: &mut SubscriptionState<W>, requests: &mut Requests<W>| Closing {
            ticket: state.begin_close(waiter, with_client, requests),
        };
        Ok(self.with_subscription(id, now_ms, begin))
    }

    /// Removes a subscription that was closed. `was_confirmed`: the server has confirmed the end.
    ///
    /// # Errors
    /// Some settled messages are ambiguous, or were refused.
    pub fn finish_close(&mut self, id: SubscriptionId, was_confirmed: bool) -> Result<(), Failure> {
        self.remove(id).map_or(Ok(()), |mut state| state.finish(was_confirmed))
    }
}

fn subscribed(answer: &Answer) -> Result<Subscribed, Failure> {
    Subscribed::read(&answer.body).map_err(|malformed| RemoteError::from(&malformed).into())
}
