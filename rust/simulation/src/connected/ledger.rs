//! What QMQ's clients sent and were told, in maps: every promise to them is judged against this. It knows
//! nothing of what the server or its store say of themselves.
//!
//! A message is owed to each group of its subject once its storing was answered. It may come under one
//! pull offset for every time that it was asked to be stored, and under one more for everything that lets
//! it come again: a crash that may have lost that it was given, an acknowledgement that passed over it, a
//! lease that may have ended, a group that began again. Under an offset that it had it may come as often
//! as its consumer says that it did not receive it.

mod judging;

use std::collections::{BTreeMap, BTreeSet};

/// A message as its producer knows it.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) subject: String,
    pub(super) body: Vec<u8>,
    /// It may not come before.
    pub(super) due: u64,
    pub(super) tag: Option<&'static str>,
    /// How often it was asked to be stored, and how often that was answered.
    asked: u64,
    told: u64,
}

impl Sent {
    pub(super) fn new(subject: String, body: Vec<u8>, due: u64, tag: Option<&'static str>) -> Self {
        Self { subject, body, due, tag, asked: 0, told: 0 }
    }
}

/// Who consumes what.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    /// What is pulled: the subject itself, or the group's retry or dead-letter subject.
    pub(super) subject: String,
    /// Whose group it is.
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
struct Key {
    number: u64,
    /// When it came, counted in messages.
    arrival: u64,
    /// Server lives before.
    life: u64,
    doubt: u64,
    acked: Acked,
    /// An acknowledgement went over it, or one of it failed.
    passed: bool,
    /// It has been counted as a reason to come again.
    counted: bool,
}

/// A consumer as its client knows it.
#[derive(Clone, Debug, Default)]
struct Taken {
    keys: BTreeMap<u64, Key>,
    /// Grows whenever its lease may have ended, or its group began again.
    doubt: u64,
    /// Since when it was certainly heard of.
    sign: Option<u64>,
}

/// A message as a group knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    /// Different offsets that it came under.
    seen: u64,
    /// Reasons for more of them.
    extra: u64,
    /// Times that it was sent to the retry subject, and that this was answered.
    nacked: u64,
    nacks_told: u64,
    /// The group began again behind it.
    forgiven: bool,
}

#[derive(Clone, Debug, Default)]
struct Group {
    owed: BTreeMap<u64, Owed>,
    /// It may begin again at any time: a request for that was lost.
    is_loose: bool,
    /// The tag that a message must have.
    wants: Option<&'static str>,
}

/// What was true when a request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: u64,
    arrivals: u64,
    life: u64,
}

/// Everything counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QmqCounts {
    /// Messages whose storing was answered.
    pub sent: u64,
    /// Messages that pulls brought, and of those such that came under an offset that they had.
    pub pulled: u64,
    /// See `pulled`.
    pub pulled_again: u64,
    /// Messages that came by a retry or dead-letter subject.
    pub retried: u64,
    /// Offsets acknowledged, and such that an acknowledgement passed over.
    pub acknowledged: u64,
    /// See `acknowledged`.
    pub passed_over: u64,
    /// Messages that came under a new offset though they had one.
    pub doubled: u64,
    /// Groups that began again.
    pub resets: u64,
    /// Consumers that died.
    pub dead: u64,
    /// Requests that failed since the store had ended or was full.
    pub failed: u64,
    /// Pulls answered that there is nothing.
    pub empty: u64,
}

impl QmqCounts {
    /// Adds those of another history.
    pub fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.pulled += other.pulled;
        self.pulled_again += other.pulled_again;
        self.retried += other.retried;
        self.acknowledged += other.acknowledged;
        self.passed_over += other.passed_over;
        self.doubled += other.doubled;
        self.resets += other.resets;
        self.dead += other.dead;
        self.failed += other.failed;
        self.empty += other.empty;
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
    sent: BTreeMap<u64, Sent>,
    groups: BTreeMap<GroupName, Group>,
    taken: BTreeMap<Place, Taken>,
    /// No clock of the server can be ahead of this.
    pub(super) time: u64,
    arrivals: u64,
    /// What arrived before is durable: something that was asked later is.
    durable_below: u64,
    /// How often the server ended.
    life: u64,
    pub(super) counts: QmqCounts,
    violations: Vec<String>,
}

impl Ledger {
    pub(super) fn new(lease_ms: u64, time: u64, groups: &[(GroupName, Option<&'static str>)]) -> Self {
        let group = |(name, wants): &(GroupName, Option<&'static str>)| {
            (name.clone(), Group { wants: *wants, ..Group::default() })
        };
        Self { lease_ms, time, groups: groups.iter().map(group).collect(), ..Self::default() }
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    pub(super) fn blame(&mut self, what: String) {
        self.violations.push(what);
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { at: self.time, arrivals: self.arrivals, life: self.life }
    }

    pub(super) fn sent(&self, number: u64) -> Option<&Sent> {
        self.sent.get(&number)
    }

    /// A message is asked to be stored, for the first time or again.
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

    /// The answer says that it is there.
    pub(super) fn nack_told(&mut self, group: &GroupName, number: u64, mark: Mark) {
        if let Some(group) = self.groups.get_mut(group) {
            group.owed.entry(number).or_default().nacks_told += 1;
        }
        self.durable_below = self.durable_below.max(mark.arrivals);
    }

    /// The server answered a consumer's request: it was heard of after it asked.
    pub(super) fn heard(&mut self, place: &Place, mark: Mark) {
        let (time, lease_ms, life) = (self.time, self.lease_ms, self.life);
        let taken = self.taken.entry(place.clone()).or_default();
        let was_silent = taken.sign.is_none_or(|sign| time.saturating_sub(sign) >= lease_ms);
        // A lease begins with the server.
        if was_silent || mark.life != life {
            taken.doubt += u64::from(was_silent);
        }
        taken.sign = Some(taken.sign.map_or(mark.at, |sign| sign.max(mark.at)));
    }

    /// The server ended: what was given may not be known to the next.
    pub(super) fn server_ended(&mut self) {
        self.life += 1;
        let durable_below = self.durable_below;
        self.count_again(|_, key| key.acked != Acked::Told && key.arrival >= durable_below, false);
    }

    /// A group is asked to begin again, or that was answered.
    pub(super) fn reset(&mut self, name: &GroupName, from_latest: bool) {
        self.counts.resets += 1;
        for (_, taken) in self.taken.iter_mut().filter(|(place, _)| place.of == *name) {
            taken.doubt += 1;
        }
        let numbers: Vec<(u64, u64)> = self.sent.iter().map(|(number, sent)| (*number, sent.asked)).collect();
        let Some(group) = self.groups.get_mut(name) else { return };
        // When it begins again nobody knows who only sees answers: from now on it is judged by what it may
        // not do in any case.
        group.is_loose = true;
        for (number, asked) in numbers {
            let owed = group.owed.entry(number).or_default();
            owed.forgiven |= from_latest;
            owed.extra += asked;
        }
    }

    /// Nobody knows whether a group began again, or will.
    pub(super) fn reset_lost(&mut self, name: &GroupName) {
        if let Some(group) = self.groups.get_mut(name) {
            group.is_loose = true;
        }
    }

    /// Every message under such a key may come again; under a key that was counted, only where `twice`.
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
        for (offset, key) in taken.keys.range_mut(..=last) {
            if key.acked != Acked::No {
                continue;
            }
            if *offset >= first {
                key.acked = Acked::Asked;
                self.counts.acknowledged += 1;
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

    /// The answer says that it is done.
    pub(super) fn acknowledged(&mut self, place: &Place, first: u64, last: u64, mark: Mark) {
        self.durable_below = self.durable_below.max(mark.arrivals);
        let Some(taken) = self.taken.get_mut(place) else { return };
        for (_, key) in taken.keys.range_mut(first..=last).filter(|(_, key)| key.acked == Acked::Asked) {
            if key.doubt == taken.doubt && !key.passed {
                key.acked = Acked::Told;
            }
        }
    }

    /// An acknowledgement failed: the client asks again, and what it names may have gone on meanwhile.
    pub(super) fn acknowledge_failed(&mut self, place: &Place, first: u64, last: u64) {
        self.counts.failed += 1;
        self.count_again(|other, key| other == place && key.acked == Acked::Asked, false);
        let Some(taken) = self.taken.get_mut(place) else { return };
        taken.keys.range_mut(first..=last).for_each(|(_, key)| key.passed = true);
    }

    /// The messages that a group must have finished, and its state at the end.
    fn finished(&self, name: &GroupName) -> BTreeMap<u64, u64> {
        let mut finished: BTreeMap<u64, u64> = BTreeMap::new();
        for (_, taken) in self.taken.iter().filter(|(place, _)| place.of == *name) {
            for key in taken.keys.values().filter(|key| key.acked != Acked::No) {
                *finished.entry(key.number).or_default() += 1;
            }
        }
        finished
    }

    /// At the end, with nothing left to come: each group has had and finished all that was promised.
    pub(super) fn judge_the_end(&mut self) {
        let mut wrong = Vec::new();
        for (name, group) in self.groups.iter().filter(|(_, group)| !group.is_loose) {
            let finished = self.finished(name);
            for (number, sent) in self.sent.iter().filter(|(_, sent)| sent.subject == name.0) {
                let owed = group.owed.get(number).copied().unwrap_or_default();
                let passes = group.wants.is_none_or(|wants| sent.tag == Some(wants));
                let of_subject = if owed.forgiven || !passes { 0 } else { sent.told };
                let found = finished.get(number).copied().unwrap_or(0);
                if found < of_subject.saturating_add(owed.nacks_told) {
                    let places: Vec<_> = self.offsets_of(name, *number).into_iter().collect();
                    wrong
                        .push(format!("lost: message {number} in {name:?}: {owed:?}, {sent:?}, came under {places:?}"));
                }
            }
        }
        self.violations.extend(wrong);
    }

    fn offsets_of(&self, name: &GroupName, number: u64) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (place, taken) in self.taken.iter().filter(|(place, _)| place.of == *name) {
            for (offset, key) in taken.keys.iter().filter(|(_, key)| key.number == number) {
                found.insert(format!("{} {} {offset} {:?} {}", place.subject, place.consumer, key.acked, key.passed));
            }
        }
        found
    }
}
