//! Consumers of QMQ: each has a session whose jobs run one after the other, parked pulls, and a lease.

mod jobs;
mod parked_pulls;
mod pull_answers;

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::queues::held_pulls::{HeldId, HeldPulls};
use delaymq_core::queues::leases::Leases;
use delaymq_core::queues::pull_log::PullLog;
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::Candidate;
use delaymq_core::store::{Delivery, RetryRule};
use delaymq_core::units::{GroupNumber, Millis, PullOffset, Sequence};

use super::steps::Asker;
use crate::node::{Node, Place};

/// Options for consumers that clients named.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastingOptions {
    /// The lease in milliseconds.
    pub(crate) lease_ms: u64,
    /// The lease of a broadcast consumer.
    pub(crate) broadcast_lease_ms: u64,
    /// The rule for messages that are not finished.
    pub(crate) rule: RetryRule,
    /// Messages that a consumer may always hold.
    pub(crate) in_flight_min: u32,
    /// Parked pulls, at most.
    pub(crate) held_max: u32,
}

/// A subject, a group and a consumer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub(super) subject: String,
    pub(super) group: String,
    pub(super) consumer: String,
}

/// A pull that is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Pulling {
    pub(super) asker: Asker,
    pub(super) count: usize,
    pub(super) received: Option<PullOffset>,
    pub(super) filters: Vec<Filter>,
    /// Ready messages that the filters have judged, and that still belong to nobody.
    pub(super) judged: Vec<(Candidate, bool)>,
    pub(super) version: i16,
    pub(super) deadline: Millis,
    /// The end of the facts that it waits for before it looks again.
    pub(super) hastened: Option<Sequence>,
    /// The consumer is switched off: the pull waits for its deadline.
    pub(super) is_refused: bool,
}

/// A job of a session.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Pull(Pulling),
    Acknowledge {
        asker: Asker,
        offsets: (PullOffset, PullOffset),
    },
    /// Its lease is over.
    End,
}

/// A settlement that has no room in the log yet.
#[derive(Clone, Debug)]
struct Owed {
    done: Vec<std::ops::Range<PullOffset>>,
    passed_over: Vec<Delivery>,
    /// The receiver of the answer, once it is durable.
    asker: Option<Asker>,
    is_end: bool,
}

/// How far a consumer's session is with the store.
#[derive(Clone, Debug)]
enum Standing {
    Detached,
    /// Its consumer was submitted.
    Attaching(Sequence),
    /// Earlier decisions are being applied, so that all its deliveries are known.
    CatchingUp(Place, Sequence),
    Attached(Attached),
}

#[derive(Clone, Debug)]
struct Attached {
    place: Place,
    log: PullLog<Delivery>,
    /// Assigned and not read yet.
    unread: VecDeque<Delivery>,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) name: Name,
    pub(super) jobs: VecDeque<Job>,
    standing: Standing,
    owed: Option<Owed>,
    /// The store holds it.
    is_stored: bool,
    /// It has its group for itself.
    is_broadcast: bool,
    /// When the store was last told that this broadcast consumer is there.
    renewed: Option<Millis>,
    /// The end of its last settlement.
    settled: Sequence,
    /// The end of the submission that ends the consumer, once it was made.
    ending: Option<Sequence>,
}

/// All sessions.
pub(super) struct Lasting {
    pub(super) options: LastingOptions,
    pub(super) sessions: BTreeMap<u64, Session>,
    numbers: BTreeMap<Name, u64>,
    next_number: u64,
    pub(super) leases: Leases<u64>,
    held: HeldPulls<u64>,
    /// Parked pulls by their numbers in `held`, with their sessions.
    pulls: BTreeMap<u64, (HeldId, u64, Pulling)>,
    /// How often each group had news.
    news: BTreeMap<GroupNumber, u64>,
    /// Groups whose next parked pull looks again.
    waking: VecDeque<GroupNumber>,
}

impl Lasting {
    pub(super) fn new(options: LastingOptions) -> Self {
        Self {
            options,
            sessions: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 1,
            leases: Leases::new(options.lease_ms),
            held: HeldPulls::new(options.held_max),
            pulls: BTreeMap::new(),
            news: BTreeMap::new(),
            waking: VecDeque::new(),
        }
    }

    /// Takes in the consumers of an earlier run. Their leases begin now; that of a broadcast consumer began when the
    /// store was last told of it.
    pub(super) fn take_in(&mut self, node: &Node) {
        let now = node.reading().now;
        let state = node.owner().state();
        for group in state.groups.values() {
            let Some(subject) = state.subjects.get(group.subject) else { continue };
            for consumer in group.consumers.values().filter(|consumer| consumer.is_lasting) {
                let (subject, group) = (subject.name.clone(), group.name.clone());
                let name = Name { subject, group, consumer: consumer.name.clone() };
                let number = self.session(name, true);
                self.leases.renew(number, now);
                if consumer.is_broadcast {
                    let LastingOptions { lease_ms, broadcast_lease_ms, .. } = self.options;
                    let rest_ms = broadcast_lease_ms.saturating_sub(now.since(consumer.seen));
                    self.leases.set_lease(number, rest_ms.max(lease_ms.min(broadcast_lease_ms)));
                    self.become_broadcast(number);
                }
            }
        }
    }

    /// The number of a consumer's session, which is begun if there is none.
    pub(super) fn session(&mut self, name: Name, is_stored: bool) -> u64 {
        if let Some(known) = self.numbers.get(&name) {
            return *known;
        }
        let number = self.number();
        let session = Session {
            name: name.clone(),
            jobs: VecDeque::new(),
            standing: Standing::Detached,
            owed: None,
            is_stored,
            is_broadcast: false,
            renewed: None,
            settled: Sequence(0),
            ending: None,
        };
        self.numbers.insert(name, number);
        self.sessions.insert(number, session);
        number
    }

    pub(super) fn become_broadcast(&mut self, number: u64) {
        if let Some(session) = self.sessions.get_mut(&number) {
            session.is_broadcast = true;
        }
    }

    /// A consumer was heard.
    pub(super) fn hear(&mut self, number: u64, now: Millis) {
        self.leases.renew(number, now);
        if self.sessions.get(&number).is_some_and(|session| session.is_broadcast) {
            self.leases.set_lease(number, self.options.broadcast_lease_ms);
        }
    }

    fn number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        number
    }

    /// The number of a consumer's session, if there is one.
    pub(super) fn known(&self, name: &Name) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    fn forget(&mut self, number: u64, session: &Session) {
        self.numbers.remove(&session.name);
        self.leases.end(number);
    }

    /// A group began again: so do its consumers, and every parked pull looks again.
    pub(super) fn begin_again(&mut self, subject: &str, group: &str) {
        let is_of_group = |session: &Session| session.name.subject == subject && session.name.group == group;
        let of_group = self.sessions.iter().filter(|(_, session)| is_of_group(session));
        let numbers: Vec<u64> = of_group.map(|(number, _)| *number).collect();
        for number in numbers {
            let pulls = self.take_pulls_of(number);
            let Some(session) = self.sessions.get_mut(&number) else { continue };
            session.standing = Standing::Detached;
            session.jobs.extend(pulls);
        }
    }

    /// Takes out the parked pulls of a session, so that they look again.
    fn take_pulls_of(&mut self, number: u64) -> Vec<Job> {
        let of_session = self.pulls.iter().filter(|(_, (_, session, _))| *session == number);
        let owners: Vec<u64> = of_session.map(|(owner, _)| *owner).collect();
        let taken = owners.into_iter().filter_map(|owner| self.pulls.remove(&owner));
        let look_again = |(held, _, pulling)| {
            self.held.cancel(held);
            Job::Pull(pulling)
        };
        taken.map(look_again).collect()
    }

    /// True if nothing waits but parked pulls that wait for news.
    pub(super) fn is_quiet(&self) -> bool {
        let idle = |session: &Session| session.jobs.is_empty() && session.owed.is_none() && session.ending.is_none();
        let waits_for_news = self.pulls.values().all(|(_, _, pulling)| !pulling.is_refused);
        waits_for_news && self.waking.is_empty() && self.sessions.values().all(idle)
    }
}
