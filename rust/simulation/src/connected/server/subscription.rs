//! One subscription of a connection: its queues, the messages that its client holds, and the messages to send.

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::{Error, Result};
use delaymq_core::queues::tags::Filter;
use delaymq_core::queues::turns::Turns;
use delaymq_core::record::expire::{EXPIRED_REASON, OnExpiry};
use delaymq_core::store::{Delivery, PullRequest, Selection};
use delaymq_core::units::{DueKey, GroupNumber};
use delaymq_core::wire::connection::Connection;
use delaymq_core::wire::connection::subscriptions::Subscriptions;
use delaymq_core::wire::extension::DELIVER;
use delaymq_core::wire::extension::consume::{Delivered, PayloadForm, put_deliver};
use delaymq_core::wire::extension::proof::Proof;
use delaymq_core::wire::extension::settle::{GivenBack, KeyRange};
use delaymq_core::wire::qmq::filtering::may_pass;

use super::steps::Wanted;
use crate::node::{Expired, Handed, Node, Place, Pulled, unless_full};

/// The subject itself, and the group's retry subject.
const QUEUES: u32 = 2;

/// A subject that is consumed.
pub(super) struct Consumed {
    pub(super) subject: String,
    /// The consumers of the subject and of its retry subject, once they exist.
    pub(super) places: [Option<Place>; QUEUES as usize],
    /// The consumers that were submitted.
    pub(super) is_joining: [bool; QUEUES as usize],
}

/// See the module.
pub(super) struct Standing {
    pub(super) selection: Selection,
    pub(super) group: String,
    pub(super) in_flight_max: u32,
    filters: Vec<Filter>,
    /// The queues of each are numbered from twice its index on.
    pub(super) consumed: Vec<Consumed>,
    turns: Turns,
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
    /// The subscription begins with the first of its subjects.
    pub(super) fn new(wanted: Wanted, place: Place) -> Self {
        let Wanted { selection, subject, group, in_flight_max, filters, .. } = wanted;
        let first = Consumed { subject, places: [Some(place), None], is_joining: [false; QUEUES as usize] };
        let mut standing = Self {
            selection,
            group,
            in_flight_max,
            filters,
            consumed: vec![first],
            turns: Turns::default(),
            held: BTreeMap::new(),
            ready: VecDeque::new(),
        };
        standing.turns.wake(0);
        standing
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.consumed.iter().all(|one| one.is_joining == [false; QUEUES as usize])
    }

    fn place(&self, queue: u32) -> Option<Place> {
        let consumed = self.consumed.get((queue / QUEUES) as usize)?;
        consumed.places.get((queue % QUEUES) as usize).copied().flatten()
    }

    fn subject(&self, queue: u32) -> &str {
        self.consumed.get((queue / QUEUES) as usize).map_or("", |one| &one.subject)
    }

    /// The queues that have a consumer, and their places.
    fn places(&self) -> impl Iterator<Item = (u32, Place)> {
        (0..).zip(self.consumed.iter().flat_map(|one| one.places)).filter_map(|(queue, place)| Some((queue, place?)))
    }

    /// The queues of these groups may have messages.
    pub(super) fn wake(&mut self, groups: &[GroupNumber]) {
        let of_groups = self.places().filter(|(_, (group, _))| groups.contains(group));
        for queue in of_groups.map(|(queue, _)| queue).collect::<Vec<_>>() {
            self.turns.wake(queue);
        }
    }

    /// Takes in the consumer of a queue.
    pub(super) fn joined(&mut self, queue: u32, place: Place) {
        let (index, which) = ((queue / QUEUES) as usize, (queue % QUEUES) as usize);
        let Some(one) = self.consumed.get_mut(index) else { return };
        if let (Some(of_queue), Some(is_joining)) = (one.places.get_mut(which), one.is_joining.get_mut(which)) {
            (*of_queue, *is_joining) = (Some(place), false);
            self.turns.wake(queue);
        }
    }

    /// Pulls messages as far as there is credit and room, and puts them into the connection. Each woken queue has one
    /// turn.
    pub(super) fn pump(
        &mut self,
        node: &mut Node,
        connection: &mut Connection,
        subscriptions: &mut Subscriptions<()>,
        number: u32,
    ) -> Result<()> {
        self.send_ready(node, connection, subscriptions, number)?;
        let room = subscriptions.room(number, self.held.len());
        let (share, mut later, mut done) = (self.turns.share(room), Vec::new(), Ok(()));
        for _ in 0..self.turns.len() {
            let room = subscriptions.room(number, self.held.len()).min(share);
            if room == 0 || !self.ready.is_empty() || !connection.has_answer_room() {
                break;
            }
            let Some(queue) = self.turns.take() else { break };
            let asked = self.ask(node, queue, room);
            // The messages of a failed pull come with a later one.
            if asked.as_ref().map_or(true, |may_have_more| *may_have_more) {
                later.push(queue);
            }
            done = asked.and_then(|_| self.send_ready(node, connection, subscriptions, number));
            if done.is_err() {
                break;
            }
        }
        for queue in later {
            self.turns.wake(queue);
        }
        done
    }

    /// Pulls from one queue. True if it may have more.
    fn ask(&mut self, node: &mut Node, queue: u32, count_max: usize) -> Result<bool> {
        let Some((group, consumer)) = self.place(queue) else { return Ok(false) };
        let others = self.places().filter(|(other, _)| *other != queue);
        let beside = others.map(|(_, (group, consumer))| node.owner().in_flight(group, consumer)).sum();
        let request = PullRequest { group, consumer, count_max, in_flight_max: self.in_flight_max, beside };
        let Pulled::Messages(handed, damaged, expired) = self.pull(node, request)? else {
            // With filters the node does not say whether it waits for facts on their way.
            return Ok(node.was_soon() || !self.filters.is_empty());
        };
        if let Some(delivery) = damaged.first() {
            return Err(Error::corrupt("", 0, "a whole payload", format!("{delivery:?}")));
        }
        for Expired { handed, .. } in expired.into_iter().filter(|one| one.then == OnExpiry::DeadLetter) {
            let names = (self.subject(queue), self.group.as_str());
            let dead = node.dead_letter(names, (group, consumer), &handed.delivery, EXPIRED_REASON, 0);
            unless_full(dead.map(drop))?;
        }
        self.held.extend(handed.iter().map(|one| ((queue, one.delivery.offset.0), one.delivery)));
        self.ready.extend(handed.into_iter().map(|one| Ready::new(queue, one)));
        Ok(true)
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
        let (entry, subject) = (&delivery.entry, self.subject(*queue));
        let body_length = payload.len().saturating_sub(*meta_length);
        let key = DueKey { due: entry.due(), sequence: entry.payload_sequence() };
        let number = node.owner().state().subjects.number(subject);
        let receipt = number.and_then(|number| node.receipt_of(key, number, body_length as u32));
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
            subject,
            meta_length: *meta_length as u32,
            check: crc32fast::hash(payload),
            payload,
        })
    }

    /// Acknowledges the deliveries of these ranges that the client holds.
    pub(super) fn acknowledge(&mut self, node: &mut Node, ranges: &[KeyRange]) -> Result<()> {
        for (queue, (group, consumer)) in self.places().collect::<Vec<_>>() {
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
                let names = (self.subject(message.queue), self.group.as_str());
                unless_full(node.give_back(names, place, &delivery, message.delay_ms, 0).map(drop))?;
            }
        }
        Ok(())
    }

    /// Makes dead letters of those of these deliveries that the client holds.
    pub(super) fn put_away(&mut self, node: &mut Node, reason: &str, keys: &[(u32, u64)]) -> Result<()> {
        for (queue, offset) in keys {
            let held = self.held.remove(&(*queue, *offset));
            if let (Some(delivery), Some(place)) = (held, self.place(*queue)) {
                let names = (self.subject(*queue), self.group.as_str());
                unless_full(node.dead_letter(names, place, &delivery, reason, 0).map(drop))?;
            }
        }
        Ok(())
    }

    /// Ends its consumers.
    pub(super) fn end(self, node: &mut Node) -> Result<()> {
        let mut places = self.places();
        places.try_for_each(|(_, (group, consumer))| unless_full(node.end_consumer(group, consumer, 0)))
    }
}
