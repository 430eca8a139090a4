//! The counters of a server, all on one thread.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use delaymq_core::wire::extension::COMMANDS;
use delaymq_core::wire::qmq::ack::ACK;
use delaymq_core::wire::qmq::consume_manage::CONSUME_MANAGE;
use delaymq_core::wire::qmq::pull::PULL;
use delaymq_core::wire::qmq::register::CLIENT_REGISTER;
use delaymq_core::wire::qmq::send::SEND;

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.set(self.0.get().wrapping_add(by));
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.get()
    }
}

/// The commands of QMQ, and their names.
const QMQ: [(i16, &str); 5] = [
    (SEND, "qmq_send"),
    (PULL, "qmq_pull"),
    (ACK, "qmq_ack"),
    (CLIENT_REGISTER, "qmq_client_register"),
    (CONSUME_MANAGE, "qmq_consume_manage"),
];

/// The commands with a counter of their own, and their names.
fn commands() -> impl Iterator<Item = &'static (i16, &'static str)> {
    QMQ.iter().chain(&COMMANDS)
}

/// Requests, by command.
#[derive(Debug)]
pub(crate) struct Requests {
    known: [Counter; QMQ.len() + COMMANDS.len()],
    others: Counter,
}

impl Default for Requests {
    fn default() -> Self {
        Self { known: std::array::from_fn(|_| Counter::default()), others: Counter::default() }
    }
}

impl Requests {
    pub(crate) fn add(&self, command: i16) {
        let place = commands().position(|(known, _)| *known == command);
        place.and_then(|place| self.known.get(place)).unwrap_or(&self.others).add(1);
    }

    /// The name and the count of each command.
    pub(crate) fn read(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let known = commands().zip(&self.known).map(|((_, name), count)| (*name, count.read()));
        known.chain([("other", self.others.read())])
    }
}

/// Counts by a word or number, of which there are few.
#[derive(Debug)]
pub(crate) struct Kinds<K>(RefCell<BTreeMap<K, u64>>);

impl<K> Default for Kinds<K> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<K: Copy + Ord> Kinds<K> {
    pub(crate) fn add(&self, kind: K) {
        let mut counts = self.0.borrow_mut();
        let count = counts.entry(kind).or_default();
        *count = count.wrapping_add(1);
    }

    pub(crate) fn read(&self) -> Vec<(K, u64)> {
        self.0.borrow().iter().map(|(kind, count)| (*kind, *count)).collect()
    }
}

/// The upper bounds of the lateness buckets, in milliseconds.
pub(crate) const LATENESS_STEPS_MS: [u64; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 60_000, 3_600_000];

/// How late messages were.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    steps: [Counter; LATENESS_STEPS_MS.len()],
    count: Counter,
    sum_ms: Counter,
}

impl Lateness {
    pub(crate) fn add(&self, late_ms: u64) {
        let place = LATENESS_STEPS_MS.partition_point(|bound| *bound < late_ms);
        if let Some(step) = self.steps.get(place) {
            step.add(1);
        }
        self.count.add(1);
        self.sum_ms.add(late_ms);
    }

    /// For each bound, how many messages were no later; then their number and their sum.
    pub(crate) fn read(&self) -> (Vec<(u64, u64)>, u64, u64) {
        let mut so_far = 0_u64;
        let steps = LATENESS_STEPS_MS.iter().zip(&self.steps).map(|(bound, step)| {
            so_far = so_far.wrapping_add(step.read());
            (*bound, so_far)
        });
        (steps.collect(), self.count.read(), self.sum_ms.read())
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections taken.
    pub(crate) accepted: Counter,
    /// Connections that were closed at once, for want of a slot.
    pub(crate) refused: Kinds<&'static str>,
    /// Connections closed because of what their peers sent, or because they were too slow.
    pub(crate) cut_off: Kinds<&'static str>,
    /// Requests.
    pub(crate) requests: Requests,
    /// Answers with another code than 0.
    pub(crate) failed: Kinds<i16>,
    /// Requests that were refused because too much was under way.
    pub(crate) busy: Counter,
    /// Bytes read.
    pub(crate) bytes_in: Counter,
    /// Bytes written.
    pub(crate) bytes_out: Counter,
    /// Messages sent to subscriptions.
    pub(crate) delivered: Counter,
    /// How late they were, for first deliveries.
    pub(crate) lateness: Lateness,
}

#[cfg(test)]
mod tests {
    use delaymq_core::wire::extension as own;

    use super::*;

    #[test]
    fn each_command_has_its_counter_and_others_share_one() {
        let requests = Requests::default();
        for command in [own::PUBLISH, own::PUBLISH, own::REDRIVE, own::DELIVER, 0, -1, i16::MAX] {
            requests.add(command);
        }
        let counted: Vec<_> = requests.read().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("publish", 2), ("redrive", 1), ("other", 4)]);
        let names: std::collections::BTreeSet<_> = requests.read().map(|(name, _)| name).collect();
        assert_eq!(names.len(), commands().count() + 1, "no name stands twice");
    }

    #[test]
    fn a_lateness_counts_in_its_step_and_all_above() {
        let lateness = Lateness::default();
        for late_ms in [0, 1, 2, 3, 3_600_000, 3_600_001] {
            lateness.add(late_ms);
        }
        let (steps, count, sum_ms) = lateness.read();
        assert_eq!(steps[..4], [(1, 2), (2, 3), (5, 4), (10, 4)]);
        assert_eq!((steps[12], count, sum_ms), ((3_600_000, 5), 6, 7_200_007));
    }
}
