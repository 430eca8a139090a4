//! The ledger of QMQ's clients: their requests and answers, in maps. It judges every promise to them by these alone,
//! and not by the state of the server or its store.
//!
//! Each group of the subject must get a message once its storing was answered. The message may come under one pull
//! offset for each request to store it, and under one more for each reason to come again: a crash that may have lost a
//! delivery, an acknowledgement that skipped it, a lease that may have ended, a reset of the group. Under the same
//! offset it may come as often as its consumer says that it did not receive it.

mod end_check;
mod leases;
mod pull_check;
mod resets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::counts::counts;

/// A message as its producer knows it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    /// It may not come before.
    pub(super) due: u64,
    pub(super) tag: Option<&'static str>,
    /// How often it was sent, and how often that was answered.
    asked: u64,
    told: u64,
}

impl Sent {
    pub(super) fn new(subject: String, body: Vec<u8>, due: u64, tag: Option<&'static str>) -> Self {
        Self { subject, body, due, tag, asked: 0, told: 0 }
    }
}

/// A consumer of a subject.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// The subject that is pulled: that of the group, or its retry or dead-letter subject.
    pub(super) subject: String,
    /// The group.
    pub(super) of: GroupName,
    pub(super) consumer: String,
}

/// A group: subject and name.
pub(super) type GroupName = (String, String);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Acked {
    No,
    Asked,
    Told,
}

/// A message under one pull offset of a consumer.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, and all may be so")]
struct Key {
    number: u64,
    /// When it came, in messages.
    arrival: u64,
    /// When its pull was sent and when it came, in steps.
    asked: u64,
    came: u64,
    /// The first life of the server in which it may have been given under this offset.
    first_life: u64,
    doubt: u64,
    acked: Acked,
    /// When it was first acknowledged, in messages, and when that was answered, in steps.
    acknowledged_at: u64,
    told_at: Option<u64>,
    /// An acknowledgement of it was answered: it is finished under this offset.
    is_over: bool,
    /// An acknowledgement passed over it, or an acknowledgement of it failed.
    passed: bool,
    /// The server ended, and the next one may not know that it was given.
    is_void: bool,
    /// It was counted as a reason to come again.
    counted: bool,
}

/// A consumer as its client knows it.
#[derive(Clone, Debug, Default)]
struct Taken {
    keys: BTreeMap<u64, Key>,
    /// Grows whenever its lease may have ended.
    doubt: u64,
    /// The first life of the server in which it may have been given a message that has not come.
    given_since: Option<u64>,
    /// The last life of the server in which a pull of it was lost. Until that life ends, the server may give messages
    /// to the lost pull.
    lost_in: Option<u64>,
    /// The last time at which the server certainly heard of it.
    sign: Option<u64>,
    /// The server's clock may have jumped since.
    is_out_of_sight: bool,
}

/// A message as a group knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    /// Different offsets that it came under.
    seen: u64,
    /// Reasons for more of them.
    extra: u64,
    /// How often it was sent to the retry subject, and how often that was answered.
    nacked: u64,
    nacks_told: u64,
    /// The group began again after it.
    forgiven: bool,
}

/// A reset of a group.
#[derive(Clone, Debug)]
struct Reset {
    /// When it was asked, and until when it may happen, in steps; `None` while that is not known.
    asked: u64,
    ended: Option<u64>,
    from_latest: bool,
    /// How often each message that may come again with it had been sent.
    counted: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    owed: BTreeMap<u64, Owed>,
    /// All its resets.
    resets: Vec<Reset>,
    /// The tag that its messages must have.
    wants: Option<&'static str>,
    /// It is the group of a broadcast consumer, and ends with its lease.
    is_broadcast: bool,
}

/// The moment at which a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: u64,
    step: u64,
    arrivals: u64,
    life: u64,
}

counts! {
    /// The counts of QMQ's clients.
    QmqCounts {
        /// Messages whose storing was answered.
        sent,
        /// Messages that pulls brought, and of those such that came under an offset that they had.
        pulled,
        /// See `pulled`.
        pulled_again,
        /// Messages that came by a retry or dead-letter subject.
        retried,
        /// Offsets acknowledged, and such that an acknowledgement passed over.
        acknowledged,
        /// See `acknowledged`.
        passed_over,
        /// Messages that came under a new offset though they had one.
        doubled,
        /// Groups that began again.
        resets,
        /// Consumers that died.
        dead,
        /// Requests that failed since the store had ended or was full.
        failed,
        /// Pulls answered that there is nothing.
        empty,
    }
}

/// A message that a pull brought.
#[derive(Clone, Debug)]
pub(super) struct Came<'a> {
    pub(super) number: u64,
    pub(super) subject: &'a str,
    pub(super) body: &'a [u8],
    pub(super) tag: Option<&'a str>,
    /// False where the client's version does not know tags.
    pub(super) has_tags: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    lease_ms: u64,
    /// A broadcast consumer that is silent for less than this certainly lives.
    broadcast_lives_ms: u64,
    /// Consumers may be switched off, or the store may fail: a pull may then be answered empty although there are
    /// messages.
    may_say_nothing: bool,
    sent: BTreeMap<u64, Sent>,
    groups: BTreeMap<GroupName, Group>,
    taken: BTreeMap<Place, Taken>,
    /// No clock of the server is ahead of this time.
    pub(super) time: u64,
    arrivals: u64,
    /// Grows with each request and each answer.
    step: u64,
    /// Deliveries that arrived before this are durable, since a later request is.
    durable_below: u64,
    /// How often the server ended.
    life: u64,
    pub(super) counts: QmqCounts,
    violations: Vec<String>,
}

impl Ledger {
    /// The ledger of these groups, each with the tag that it wants. With `may_say_nothing` a pull may be answered empty
    /// although there are messages.
    pub(super) fn new(
        groups: Vec<(GroupName, Option<&'static str>)>,
        lease_ms: u64,
        may_say_nothing: bool,
        time: u64,
    ) -> Self {
        let group = |(name, wants): (GroupName, Option<&'static str>)| (name, Group { wants, ..Group::default() });
        let groups = groups.into_iter().map(group).collect();
        Self { lease_ms, may_say_nothing, groups, time, ..Self::default() }
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(super) fn mark(&mut self) -> Mark {
        self.step += 1;
        Mark { at: self.time, step: self.step, arrivals: self.arrivals, life: self.life }
    }

    pub(super) fn sent(&self, number: u64) -> Option<&Sent> {
        self.sent.get(&number)
    }

    /// A message is sent, for the first time or again.
    pub(super) fn send_asked(&mut self, number: u64, sent: impl FnOnce() -> Sent) {
        self.sent.entry(number).or_insert_with(sent).asked += 1;
    }

    /// The answer says that it is stored.
    pub(super) fn send_told(&mut self, number: u64, mark: Mark) {
        self.counts.sent += 1;
        if let Some(sent) = self.sent.get_mut(&number) {
            sent.told += 1;
        }
        self.durable_below = self.durable_below.max(mark.arrivals);
    }

    /// A consumer sends a message to its group's retry subject.
    pub(super) fn nack_asked(&mut self, group: &GroupName, number: u64) {
        if let Some(group) = self.groups.get_mut(group) {
            group.owed.entry(number).or_default().nacked += 1;
        }
    }

    /// The answer says that the message is in the retry subject.
    pub(super) fn nack_told(&mut self, group: &GroupName, number: u64, mark: Mark) {
        if let Some(group) = self.groups.get_mut(group) {
            group.owed.entry(number).or_default().nacks_told += 1;
        }
        self.durable_below = self.durable_below.max(mark.arrivals);
    }

    /// The server ended. The next one may not know which messages were given.
    pub(super) fn server_ended(&mut self) {
        self.life += 1;
        self.end_resets();
        let durable_below = self.durable_below;
        self.count_again(|_, key| key.acked != Acked::Told && key.arrival >= durable_below, false);
        for key in self.taken.values_mut().flat_map(|taken| taken.keys.values_mut()) {
            key.is_void |= key.arrival >= durable_below;
        }
    }

    /// A pull was answered with messages or is lost: it may have given its consumer other messages as well.
    pub(super) fn may_be_given(&mut self, place: &Place, mark: Mark) {
        let given_since = &mut self.taken.entry(place.clone()).or_default().given_since;
        *given_since = Some(given_since.map_or(mark.life, |since| since.min(mark.life)));
    }

    /// A pull is lost: the messages that it gives to its consumer, and the time, are not known.
    pub(super) fn pull_lost(&mut self, place: &Place, mark: Mark) {
        self.may_be_given(place, mark);
        let lost_in = &mut self.taken.entry(place.clone()).or_default().lost_in;
        *lost_in = (*lost_in).max(Some(mark.life));
    }

    /// A pull was answered empty: all messages of its consumer have come before, except those of a lost pull. True if
    /// it is certain that all have come and none will.
    pub(super) fn nothing_came(&mut self, place: &Place, mark: Mark) -> bool {
        self.counts.empty += 1;
        self.heard(place, mark);
        if self.may_say_nothing {
            return false;
        }
        let taken = self.taken.entry(place.clone()).or_default();
        taken.given_since = taken.lost_in.filter(|life| *life >= mark.life);
        taken.given_since.is_none()
    }

    /// Counts a reason to come again for every message under such a key. Keys that were counted count only if `twice`.
    fn count_again(&mut self, may: impl Fn(&Place, &Key) -> bool, twice: bool) {
        for (place, taken) in &mut self.taken {
            let Some(group) = self.groups.get_mut(&place.of) else { continue };
            for key in taken.keys.values_mut().filter(|key| may(place, key)) {
                if twice || !key.counted {
                    key.counted = true;
                    group.owed.entry(key.number).or_default().extra += 1;
                }
            }
        }
    }

    /// A consumer acknowledges a range.
    pub(super) fn acknowledge_asked(&mut self, place: &Place, first: u64, last: u64) {
        let Some(taken) = self.taken.get_mut(place) else { return };
        let Some(group) = self.groups.get_mut(&place.of) else { return };
        let arrivals = self.arrivals;
        for (offset, key) in taken.keys.range_mut(..=last) {
            if key.acked != Acked::No {
                continue;
            }
            if *offset >= first {
                (key.acked, key.acknowledged_at) = (Acked::Asked, arrivals);
                self.counts.acknowledged += 1;
            } else if group.is_broadcast {
                (key.acked, key.acknowledged_at) = (Acked::Asked, arrivals);
            } else if !key.passed {
                key.passed = true;
                self.counts.passed_over += 1;
                if !key.counted {
                    key.counted = true;
                    group.owed.entry(key.number).or_default().extra += 1;
                }
            }
        }
    }

    /// A consumer acknowledges offsets above all that came to it. That changes nothing unless the server ended since:
    /// offsets that were reserved then count as given, and the consumer's messages are passed over.
    pub(super) fn acknowledge_ahead_asked(&mut self, place: &Place, first: u64, last: u64) {
        let latest = self.taken.get(place).and_then(|taken| taken.keys.last_key_value());
        if latest.is_some_and(|(_, key)| key.first_life < self.life) {
            self.acknowledge_asked(place, first, last);
        }
    }

    /// The answer says that the acknowledgement is done. The fact that finished a message was stored after its first
    /// acknowledgement and is durable, so all earlier arrivals are durable. This does not hold if there was nothing to
    /// finish: the consumer may have ended, the group may have begun again, or the end of a server may have made the
    /// delivery void.
    pub(super) fn acknowledged(&mut self, place: &Place, first: u64, last: u64) {
        let Some(group) = self.groups.get(&place.of) else { return };
        let Some(taken) = self.taken.get_mut(place) else { return };
        for (_, key) in taken.keys.range_mut(first..=last).filter(|(_, key)| key.acked == Acked::Asked) {
            key.is_over = true;
            if key.doubt != taken.doubt || key.passed {
                continue;
            }
            (key.acked, key.told_at) = (Acked::Told, Some(self.step));
            if !key.is_void && !group.may_have_begun_since(key.asked) {
                self.durable_below = self.durable_below.max(key.acknowledged_at);
            }
        }
    }

    /// An acknowledgement failed: the client repeats it, and its messages may have gone on meanwhile.
    pub(super) fn acknowledge_failed(&mut self, place: &Place, first: u64, last: u64) {
        self.counts.failed += 1;
        self.count_again(|other, key| other == place && key.acked == Acked::Asked, false);
        let Some(taken) = self.taken.get_mut(place) else { return };
        taken.keys.range_mut(first..=last).for_each(|(_, key)| key.passed = true);
    }
}
