//! One subscription of a connection: its consumers, the messages that they hold, and the messages to send.

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::{Error, Result};
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::{Delivery, PullRequest, retry_subject};
use delaymq_core::units::DueKey;
use delaymq_core::wire::connection::Connection;
use delaymq_core::wire::connection::subscriptions::Subscriptions;
use delaymq_core::wire::extension::DELIVER;
use delaymq_core::wire::extension::consume::{Delivered, PayloadForm, put_deliver};
use delaymq_core::wire::extension::proof::Proof;
use delaymq_core::wire::extension::settle::{GivenBack, KeyRange};
use delaymq_core::wire::qmq::filtering::may_pass;

use super::steps::{Joining, Pending, Wanted};
use crate::connected::link::LinkId;
use crate::node::{Handed, Node, Place, Pulled, unless_full};

/// The subject itself, and the group's retry subject.
const QUEUES: usize = 2;
const RETRIES: u32 = 1;

/// See the module.
pub(super) struct Standing {
    subject: String,
    group: String,
    in_flight_max: u32,
    filters: Vec<Filter>,
    /// The consumer of each queue, once it exists.
    places: [Option<Place>; QUEUES],
    /// A consumer of the retry subject was submitted.
    is_joining: bool,
    /// Deliveries at the client or on their way to it.
    held: BTreeMap<(u32, u64), Delivery>,
    /// Pulled, and not yet in the connection.
    ready: VecDeque<Ready>,
}

/// A message that is ready to be sent.
struct Ready {
    queue: u32,
    delivery: Delivery,
    meta_length: usize,
    /// Meta and body.
    payload: Vec<u8>,
}

impl Ready {
    fn new(queue: u32, handed: Handed) -> Self {
        let Handed { delivery, meta, body, .. } = handed;
        Self { queue, delivery, meta_length: meta.len(), payload: [meta, body].concat() }
    }
}

impl Standing {
    pub(super) fn new(wanted: Wanted, place: Place) -> Self {
        let Wanted { subject, group, in_flight_max, filters, .. } = wanted;
        Self {
            subject,
            group,
            in_flight_max,
            filters,
            places: [Some(place), None],
            is_joining: false,
            held: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && !self.is_joining
    }

    fn place(&self, queue: u32) -> Option<Place> {
        self.places.get(queue as usize).copied().flatten()
    }

    /// Takes in the consumer of the retry subject.
    pub(super) fn joined(&mut self, place: Option<Place>) {
        self.is_joining = false;
        let [_, retries] = &mut self.places;
        *retries = place;
    }

    /// Submits a consumer of the retry subject, once that subject has its group.
    pub(super) fn join_retries(
        &mut self,
        node: &mut Node,
        link: LinkId,
        number: u32,
        pending: &mut Vec<Pending>,
    ) -> Result<()> {
        if self.is_joining || self.place(RETRIES).is_some() {
            return Ok(());
        }
        let state = node.owner().state();
        let subject = state.subjects.number(&retry_subject(&self.subject, &self.group));
        let Some(group) = subject.and_then(|subject| state.group_named(subject, &self.group)) else { return Ok(()) };
        let name = format!("{}-{link}-{number}", node.epoch());
        if let Some(fact) = unless_full(node.begin_consumer(group, &name, self.in_flight_max))? {
            self.is_joining = true;
            pending.push(Pending::Joining(Joining { link, number, group, fact }));
        }
        Ok(())
    }

    /// Pulls messages as far as there is credit and room, and puts them into the connection.
    pub(super) fn pump(
        &mut self,
        node: &mut Node,
        connection: &mut Connection,
        subscriptions: &mut Subscriptions<()>,
        number: u32,
    ) -> Result<()> {
        for queue in 0..QUEUES as u32 {
            let room = subscriptions.room(number, self.held.len());
            let Some((group, consumer)) = self.place(queue).filter(|_| room > 0 && self.ready.is_empty()) else {
                continue;
            };
            let beside = self.place(queue ^ 1).map_or(0, |(group, consumer)| node.owner().in_flight(group, consumer));
            let in_flight_max = self.in_flight_max;
            let request = PullRequest { group, consumer, count_max: room, in_flight_max, beside };
            if let Pulled::Messages(handed, damaged, _) = self.pull(node, request)? {
                if let Some(delivery) = damaged.first() {
                    return Err(Error::corrupt("", 0, "a whole payload", format!("{delivery:?}")));
                }
                self.held.extend(handed.iter().map(|one| ((queue, one.delivery.offset.0), one.delivery)));
                self.ready.extend(handed.into_iter().map(|one| Ready::new(queue, one)));
            }
            self.send_ready(node, connection, subscriptions, number)?;
        }
        self.send_ready(node, connection, subscriptions, number)
    }

    /// Pulls what passes the filters.
    fn pull(&self, node: &mut Node, request: PullRequest) -> Result<Pulled> {
        if self.filters.is_empty() {
            return node.pull(request, 0);
        }
        let passes = |meta: &[u8], body: &[u8]| may_pass(&self.filters, Some(meta), body);
        loop {
            let mut passed_over = Vec::new();
            match node.pull_passing(request, 0, &passes, &mut passed_over)? {
                // Behind those that did not pass there may be more.
                Pulled::Wait if !passed_over.is_empty() => {}
                pulled => return Ok(pulled),
            }
        }
    }

    fn send_ready(
        &mut self,
        node: &Node,
        connection: &mut Connection,
        subscriptions: &mut Subscriptions<()>,
        number: u32,
    ) -> Result<()> {
        let count = self.ready.len();
        if count == 0 {
            return Ok(());
        }
        let now = node.reading().now;
        let pushed = connection.push(DELIVER, now, |out| {
            put_deliver(out, number, now, count)?;
            self.ready.iter().try_for_each(|ready| self.delivered(node, ready)?.put(out))
        })?;
        if pushed {
            self.ready.clear();
            subscriptions.sent(number, count);
        }
        Ok(())
    }

    fn delivered<'a>(&'a self, node: &Node, ready: &'a Ready) -> Result<Delivered<'a>> {
        let Ready { queue, delivery, meta_length, payload } = ready;
        let entry = &delivery.entry;
        let body_length = payload.len().saturating_sub(*meta_length);
        let key = DueKey { due: entry.due(), sequence: entry.payload_sequence() };
        let subject = node.owner().state().subjects.number(&self.subject);
        let receipt = subject.and_then(|subject| node.receipt_of(key, subject, body_length as u32));
        Ok(Delivered {
            queue: *queue,
            offset: delivery.offset.0,
            form: PayloadForm::Opaque,
            redelivered: delivery.is_redelivered(),
            attempt: delivery.attempt,
            sequence: entry.payload_sequence(),
            due: entry.due(),
            first_due: entry.due(),
            published: entry.due(),
            proof: Proof::of(&receipt.ok_or(Error::Closed)?),
            subject: &self.subject,
            meta_length: *meta_length as u32,
            check: crc32fast::hash(payload),
            payload,
        })
    }

    /// Acknowledges the deliveries of these ranges that the client holds.
    pub(super) fn acknowledge(&mut self, node: &mut Node, ranges: &[KeyRange]) -> Result<()> {
        for queue in 0..QUEUES as u32 {
            let Some((group, consumer)) = self.place(queue) else { continue };
            let of_queue = ranges.iter().filter(|range| range.queue == queue);
            let mut offsets: Vec<u64> = of_queue
                .flat_map(|range| (0..range.count).map(|by| range.first.saturating_add(by)))
                .filter(|offset| self.held.remove(&(queue, *offset)).is_some())
                .collect();
            offsets.sort_unstable();
            if !offsets.is_empty() {
                unless_full(node.acknowledge(group, consumer, &offsets, 0))?;
            }
        }
        Ok(())
    }

    /// Gives back those of these deliveries that the client holds.
    pub(super) fn give_back(&mut self, node: &mut Node, messages: &[GivenBack]) -> Result<()> {
        for message in messages {
            let held = self.held.remove(&(message.queue, message.offset));
            if let (Some(delivery), Some(place)) = (held, self.place(message.queue)) {
                let names = (self.subject.as_str(), self.group.as_str());
                unless_full(node.give_back(names, place, &delivery, message.delay_ms, 0).map(drop))?;
            }
        }
        Ok(())
    }

    /// Ends its consumers.
    pub(super) fn end(self, node: &mut Node) -> Result<()> {
        let mut places = self.places.into_iter().flatten();
        places.try_for_each(|(group, consumer)| unless_full(node.end_consumer(group, consumer, 0)))
    }
}
