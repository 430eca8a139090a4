//! The state of a client's subscription: messages that have arrived, and messages that were settled.
//!
//! When a connection is lost, the messages that it delivered go back to the group: those that were not handed over
//! are dropped, and settling the others is ambiguous, which a flush reports.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use delaymq_core::error::Result as CoreResult;
use delaymq_core::planted::{self, Planted};
use delaymq_core::queues::holds::Holds;
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::StartAt;
use delaymq_core::wire::extension::consume::{Credit, Subscribe};
use delaymq_core::wire::extension::{CREDIT, SUBSCRIBE, UNSUBSCRIBE};

use crate::failure::{Failure, Kind};
use crate::session::arrival::Arrival;
use crate::session::request::{CLIENT_CLOSED, Request, SUBSCRIPTION_CLOSED, SubscriptionId, Ticket};
use crate::session::requests::{Purpose, Requests};

/// Messages that are requested ahead of the consumer, at first.
const PREFETCH: usize = 256;

/// The arguments of a subscribe, which are sent again on a new connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscriptionRequest {
    /// The texts of a selection of subjects: names, or one prefix that ends with `*`.
    pub subjects: Vec<String>,
    /// The group.
    pub group: String,
    /// The start of a group that is new.
    pub start: StartAt,
    /// The most messages that it holds unsettled.
    pub in_flight_max: u32,
    /// A message must pass all of these.
    pub filters: Vec<Filter>,
    /// How long the consumer may have a message before it settles it. The server is not told: the session gives the
    /// message back.
    pub handle_within_ms: Option<u64>,
}

impl SubscriptionRequest {
    /// The same for a further connection: a subject that was made meanwhile is read from its first message.
    fn again(&mut self) {
        if self.subjects.iter().any(|subject| subject.ends_with('*')) {
            self.start = StartAt::Earliest;
        }
    }

    /// The request that creates the subscription under this number, for this consumer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn request(&self, number: u32, consumer: &str) -> CoreResult<Request> {
        let subscribe = Subscribe {
            subscription: number,
            subjects: self.subjects.iter().map(String::as_str).collect(),
            group: &self.group,
            consumer,
            start: self.start,
            is_broadcast: false,
            in_flight_max: self.in_flight_max,
            credit: 0,
            filters: self.filters.clone(),
        };
        let mut body = Vec::new();
        subscribe.put(&mut body)?;
        Ok(Request::new(SUBSCRIBE, body))
    }

    /// Its name in reports.
    pub(super) fn shown(&self) -> String {
        let subjects: Vec<&str> = self.subjects.iter().take(3).map(String::as_str).collect();
        format!("the subscription of {} for {}", subjects.join(", "), self.group)
    }
}

/// See the module. The settling is in `settling`.
#[derive(Debug)]
pub(super) struct SubscriptionState<W> {
    pub(super) id: SubscriptionId,
    pub(super) wanted: SubscriptionRequest,
    /// The number under which it was last asked for.
    pub(super) asked_number: u32,
    /// Its number on this connection; 0 without one.
    pub(super) number: u32,
    pub(super) consumer: String,
    /// It hands over no more messages.
    pub(super) is_stopped: bool,
    /// It is closed, for this reason.
    pub(super) closed: Option<&'static str>,
    pub(super) opened: Option<W>,
    /// The error that keeps the server from creating it again.
    pub(super) cause: Option<Failure>,
    pub(super) last_refusal: String,
    pub(super) ready: VecDeque<Arrival>,
    prefetch: usize,
    credit: usize,
    pub(super) acknowledged: Vec<u128>,
    pub(super) given_back: Vec<(u128, u64)>,
    pub(super) put_away: Vec<(String, Vec<u128>)>,
    /// Acknowledgements sent so far; those after the first `confirmed` may still be lost.
    pub(super) settled: u64,
    pub(super) confirmed: u64,
    /// Other settling requests, with their numbers of messages.
    pub(super) unanswered: BTreeMap<Ticket, u64>,
    pub(super) ambiguous: u64,
    pub(super) refusal: Option<Failure>,
    /// Until when the consumer may keep the messages that it was handed, if there is a limit.
    pub(super) holds: Option<Holds<u128>>,
    /// Messages held for too long that the server refused to take back for now.
    pub(super) refused_back: Vec<u128>,
}

impl<W> SubscriptionState<W> {
    /// A subscription that the server does not have yet.
    pub(super) fn new(id: SubscriptionId, wanted: SubscriptionRequest, opened: W) -> Self {
        let holds = wanted.handle_within_ms.map(Holds::new);
        Self {
            id,
            wanted,
            asked_number: 0,
            number: 0,
            consumer: String::new(),
            is_stopped: false,
            closed: None,
            opened: Some(opened),
            cause: None,
            last_refusal: String::new(),
            ready: VecDeque::new(),
            prefetch: 0,
            credit: 0,
            acknowledged: Vec::new(),
            given_back: Vec::new(),
            put_away: Vec::new(),
            settled: 0,
            confirmed: 0,
            unanswered: BTreeMap::new(),
            ambiguous: 0,
            refusal: None,
            holds,
            refused_back: Vec::new(),
        }
    }

    /// Handles its creation at the server.
    pub(super) fn subscribed(&mut self, number: u32, consumer: String, requests: &mut Requests<W>) {
        (self.number, self.consumer, self.cause, self.credit) = (number, consumer, None, 0);
        self.wanted.again();
        self.last_refusal.clear();
        // With a limit, a consumer that waits has news now, and asks itself.
        if self.holds.is_none() {
            self.top_up(requests);
        }
    }

    /// Handles a lost connection, whose messages go back to the group.
    pub(super) fn disconnected(&mut self) {
        (self.number, self.cause, self.credit) = (0, None, 0);
        let put_away: usize = self.put_away.iter().map(|(_, keys)| keys.len()).sum();
        let queued = self.acknowledged.len().saturating_add(self.given_back.len()).saturating_add(put_away);
        if !planted::is_on(Planted::LostCountsAsSettled) {
            self.ambiguous = self.ambiguous.saturating_add(self.unconfirmed()).saturating_add(queued as u64);
        }
        self.clear_unconfirmed();
        if !planted::is_on(Planted::LostHandedOver) {
            self.ready.clear();
        }
        self.acknowledged.clear();
        self.given_back.clear();
        self.put_away.clear();
        self.end_holds();
    }

    /// Buffers messages; true if a consumer may take them.
    pub(super) fn delivered(&mut self, messages: Vec<Arrival>, now_ms: u64) -> bool {
        self.credit = self.credit.saturating_sub(messages.len());
        if self.is_stopped {
            return false;
        }
        if let Some(holds) = &mut self.holds {
            for arrival in &messages {
                holds.begin(arrival.key, now_ms);
            }
        }
        self.ready.extend(messages);
        true
    }

    /// Up to `count_max` buffered messages, which the consumer holds from now on. With `tops_up`, more are requested if
    /// few are left.
    ///
    /// # Errors
    /// The server refused to create the subscription again.
    pub(super) fn take(
        &mut self,
        count_max: usize,
        tops_up: bool,
        now_ms: u64,
        requests: &mut Requests<W>,
    ) -> Result<Vec<Arrival>, Failure> {
        if self.closed == Some(CLIENT_CLOSED) {
            return Err(Failure::new(Kind::Closed, CLIENT_CLOSED));
        }
        if self.is_stopped {
            return Ok(Vec::new());
        }
        let found: Vec<Arrival> = self.ready.drain(..count_max.min(self.ready.len())).collect();
        if let Some(holds) = &mut self.holds {
            for arrival in &found {
                holds.extend(arrival.key, None, now_ms);
            }
        }
        if found.is_empty()
            && let Some(cause) = &self.cause
        {
            return Err(cause.clone());
        }
        // With a limit nothing is requested ahead: a consumer that is stuck would keep it from the others.
        let (least, asks_ahead) = if self.holds.is_some() { (0, false) } else { (self.prefetch.max(PREFETCH), true) };
        self.prefetch = least.max(count_max).min(self.wanted.in_flight_max as usize);
        let is_low = asks_ahead && self.ready.len().saturating_add(self.credit) <= self.prefetch / 2;
        if tops_up && (found.is_empty() || is_low) {
            self.top_up(requests);
        }
        if self.ready.is_empty() {
            self.push_settled(requests);
        }
        Ok(found)
    }

    /// The number of further messages that the buffer has room for.
    fn room(&self) -> usize {
        let credit = if planted::is_on(Planted::CreditGivenTwice) { 0 } else { self.credit };
        self.prefetch.saturating_sub(self.ready.len()).saturating_sub(credit)
    }

    fn credited(&mut self, room: usize) -> Request {
        self.credit = self.credit.saturating_add(room);
        let credit = u32::try_from(room).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(8);
        Credit { subscription: self.number, credit }.put(&mut body);
        Request::new(CREDIT, body)
    }

    /// Gives the server credit for as many messages as the buffer has room for.
    fn top_up(&mut self, requests: &mut Requests<W>) {
        let room = self.room();
        if self.number != 0 && room > 0 && !self.is_stopped {
            let request = self.credited(room);
            requests.tell(request);
        }
    }

    /// Asks the server to send all ready messages and then an answer; `None` without a connection.
    pub(super) fn request_ready(&mut self, waiter: W, requests: &mut Requests<W>) -> Option<Ticket> {
        if self.number == 0 || self.is_stopped {
            return None;
        }
        // The credit goes first and by itself: this request may be withdrawn before it is sent.
        self.top_up(requests);
        let request = self.credited(0).reading();
        Some(requests.add_of_connection(request, Purpose::Caller(waiter)))
    }

    /// Hands over no more messages.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Sends what was settled, closes the subscription, and asks the server to end it; `None` without a connection.
    pub(super) fn begin_close(&mut self, waiter: W, with_client: bool, requests: &mut Requests<W>) -> Option<Ticket> {
        self.stop();
        self.ready.clear();
        self.push_settled(requests);
        self.end_holds();
        self.closed = Some(if with_client { CLIENT_CLOSED } else { SUBSCRIPTION_CLOSED });
        (self.number != 0).then(|| requests.add_of_connection(unsubscribe(self.number), Purpose::Caller(waiter)))
    }
}

/// The request that ends the subscription of this number.
pub(super) fn unsubscribe(number: u32) -> Request {
    Request::new(UNSUBSCRIBE, Bytes::copy_from_slice(&number.to_be_bytes()))
}
