//! The consumers of QMQ that this server knows: a session for each, whatever connection it uses, and the queues where
//! their pulls wait.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use delaymq_core::queues::held_pulls::{HeldId, HeldPulls};
use delaymq_core::queues::leases::Leases;
use delaymq_core::units::Millis;
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::{ConsumerId, RetryRule};

use crate::connection::quota::ConnectionQuota;
use crate::counters::Counter;
use crate::options::ServerOptions;
use crate::qmq::pull::PendingPull;
use crate::qmq::pull_queues::PullQueues;
use crate::qmq::session::Session;

/// How long a broadcast consumer has at least to come back after a start of the server.
const COMES_BACK_MS: u64 = 3_600_000;
/// How often, in one lease, the store is told that a broadcast consumer is there.
const RENEWALS: u64 = 16;

/// Their counters.
#[derive(Debug, Default)]
pub(crate) struct ConsumerCounters {
    /// Messages in answers to pulls, including repeated ones.
    pub(crate) answered: Counter,
    /// Messages that a filter of their consumer kept back.
    pub(crate) filtered: Counter,
    /// Messages that went to a retry subject because an acknowledgement skipped them.
    pub(crate) passed_over: Counter,
    /// Consumers whose lease ended.
    pub(crate) expired: Counter,
}

/// The names of a consumer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Name {
    pub(crate) subject: String,
    pub(crate) group: String,
    pub(crate) consumer: String,
}

impl Name {
    /// The names that a client sends. The group of a broadcast consumer is its own, and has its name, whatever group the
    /// client sends.
    pub(crate) fn new(name: &ConsumerName<'_>, is_broadcast: bool) -> Self {
        let group = if is_broadcast { name.consumer } else { name.group };
        Self { subject: name.subject.to_owned(), group: group.to_owned(), consumer: name.consumer.to_owned() }
    }

    pub(crate) fn id(&self) -> ConsumerId<'_> {
        ConsumerId { subject: &self.subject, group: &self.group, consumer: &self.consumer }
    }
}

/// See the module.
pub(crate) struct Consumers {
    sessions: RefCell<HashMap<Rc<Name>, Rc<Session>>>,
    by_number: RefCell<HashMap<u64, Rc<Session>>>,
    sessions_max: usize,
    pub(crate) leases: RefCell<Leases<u64>>,
    broadcast_lease_ms: u64,
    pub(crate) pull_queues: RefCell<PullQueues>,
    pub(crate) held: RefCell<HeldPulls<u64>>,
    /// The quota of parked pulls that delay nothing.
    pub(crate) held_apart: ConnectionQuota,
    /// Parked pulls, by the number that the core's held pulls use.
    pub(crate) pulls: RefCell<HashMap<u64, (HeldId, Box<PendingPull>)>>,
    pub(crate) rule: RetryRule,
    pub(crate) counters: ConsumerCounters,
    /// When `keep_time` runs next, at the latest.
    pub(crate) looks_at: Cell<Millis>,
}

impl Consumers {
    pub(crate) fn new(options: &ServerOptions) -> Self {
        let held_max = options.held_pulls_max as usize;
        Self {
            sessions: RefCell::default(),
            by_number: RefCell::default(),
            sessions_max: options.consumers_max,
            leases: RefCell::new(Leases::new(options.lease_ms)),
            broadcast_lease_ms: options.broadcast_lease_ms,
            pull_queues: RefCell::default(),
            held: RefCell::new(HeldPulls::new(u32::MAX)),
            held_apart: ConnectionQuota::new(held_max, held_max.div_ceil(2)),
            pulls: RefCell::default(),
            rule: RetryRule { delay_ms: options.retry_delay_ms, attempts_max: options.attempts_max, reason: None },
            counters: ConsumerCounters::default(),
            looks_at: Cell::new(Millis(0)),
        }
    }

    /// How many consumers are known, and how many pulls are parked.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.sessions.borrow().len(), self.held.borrow().len())
    }

    /// The session of a consumer, if it is known.
    pub(crate) fn known(&self, name: &Name) -> Option<Rc<Session>> {
        self.sessions.borrow().get(name).cloned()
    }

    /// The session of this number.
    pub(crate) fn of_number(&self, number: u64) -> Option<Rc<Session>> {
        self.by_number.borrow().get(&number).cloned()
    }

    /// The session of a consumer, with this number if it is new; `None` if the limit is reached.
    pub(crate) fn session(&self, name: Name, number: u64, is_stored: bool) -> Option<Rc<Session>> {
        if let Some(known) = self.known(&name) {
            return Some(known);
        }
        let mut sessions = self.sessions.borrow_mut();
        // Consumers from the store are accepted beyond the limit: they were within it once.
        if sessions.len() >= self.sessions_max && !is_stored {
            return None;
        }
        let name = Rc::new(name);
        let session = Rc::new(Session::new(Rc::clone(&name), number, is_stored));
        sessions.insert(name, Rc::clone(&session));
        self.by_number.borrow_mut().insert(number, Rc::clone(&session));
        Some(session)
    }

    /// Removes a session.
    pub(crate) fn forget(&self, session: &Session) {
        if self.by_number.borrow_mut().remove(&session.number).is_some() {
            self.sessions.borrow_mut().remove(&session.name);
        }
        self.leases.borrow_mut().end(session.number);
    }

    /// A consumer was heard.
    pub(crate) fn hear(&self, session: &Session, now: Millis) {
        let mut leases = self.leases.borrow_mut();
        leases.renew(session.number, now);
        if session.is_broadcast() {
            leases.set_lease(session.number, self.broadcast_lease_ms);
        }
    }

    /// A broadcast consumer of an earlier server was last heard so long ago. It has the rest of its lease, and some
    /// time to come back: it could not be heard while no server ran.
    pub(crate) fn take_in_broadcast(&self, session: &Session, silent_ms: u64, now: Millis) {
        let lease_ms = self.broadcast_lease_ms;
        let rest_ms = lease_ms.saturating_sub(silent_ms).max(lease_ms.min(COMES_BACK_MS));
        let mut leases = self.leases.borrow_mut();
        leases.renew(session.number, now);
        leases.set_lease(session.number, rest_ms);
    }

    /// How often the store is told that a broadcast consumer is there.
    pub(crate) fn broadcast_renewal_ms(&self) -> u64 {
        self.broadcast_lease_ms / RENEWALS
    }

    /// The sessions of a group.
    pub(crate) fn of_group(&self, subject: &str, group: &str) -> Vec<Rc<Session>> {
        let sessions = self.sessions.borrow();
        let is_of_group = |name: &Rc<Name>| name.subject == subject && name.group == group;
        sessions.iter().filter(|(name, _)| is_of_group(name)).map(|(_, session)| Rc::clone(session)).collect()
    }

    /// Removes all sessions, at the end of the server.
    pub(crate) fn forget_all(&self) {
        self.sessions.borrow_mut().clear();
        self.by_number.borrow_mut().clear();
        let held = std::mem::take(&mut *self.pulls.borrow_mut());
        drop(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE_MS: u64 = 48 * 3_600_000;

    fn ended_by(consumers: &Consumers, now: u64) -> bool {
        let mut ended = Vec::new();
        consumers.leases.borrow_mut().expire(Millis(now), &mut ended);
        !ended.is_empty()
    }

    #[test]
    fn a_broadcast_consumer_of_an_earlier_server_has_the_rest_of_its_lease_or_an_hour() {
        for (lease_ms, silent_ms, rest_ms) in [
            (LEASE_MS, 0, LEASE_MS),
            (LEASE_MS, 3_600_000, LEASE_MS - 3_600_000),
            (LEASE_MS, LEASE_MS - 5, COMES_BACK_MS),
            (LEASE_MS, 10 * LEASE_MS, COMES_BACK_MS),
            (1_000, u64::MAX, 1_000),
        ] {
            let consumers = Consumers::new(&ServerOptions { broadcast_lease_ms: lease_ms, ..ServerOptions::default() });
            let (host, now) = ("host@@1".to_owned(), Millis(7));
            let name = Name { subject: "order".to_owned(), group: host.clone(), consumer: host };
            let session = consumers.session(name, 1, true).unwrap();
            session.become_broadcast();
            consumers.take_in_broadcast(&session, silent_ms, now);
            assert!(!ended_by(&consumers, 7 + rest_ms - 1), "{silent_ms}");
            // Once it is heard it has a whole lease.
            consumers.hear(&session, Millis(7 + rest_ms - 1));
            assert!(!ended_by(&consumers, 7 + rest_ms - 2 + lease_ms), "{silent_ms}");
            assert!(ended_by(&consumers, 7 + rest_ms - 1 + lease_ms), "{silent_ms}");
            consumers.take_in_broadcast(&session, silent_ms, now);
            assert!(ended_by(&consumers, 7 + rest_ms), "{silent_ms}");
        }
    }
}
