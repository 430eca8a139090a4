//! The ledger: the facts of the log in plain maps and sets. It states the rules of `docs/guarantees.md` a second
//! time, so that the result of the core's `apply` is compared with code that shares only the decoding of records with
//! it.
//!
//! It keeps everything permanently, has no windows, runs, ranges or checkpoints, and reads no file.

mod differences;
mod expired;
mod floors;
mod group;
mod loads;
mod parts;
mod recurring;
mod terms;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::record::command::{Move, Void};
use delaymq_core::record::name::{GroupEnd, GroupStart};
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::record::{Fact, Records, decode};
use delaymq_core::schedule_log::DUE_MAX;
use delaymq_core::store::{Outcome, dead_letter_subject, retry_subject};
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, Sequence, SubjectNumber};

use self::group::Members;
pub use self::parts::StagedLine;
use self::parts::{Loads, Names, Series};
use crate::node::AppliedBatch;

/// The fate of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Waiting,
    Ready,
    Cancelled,
    Moved,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    subject: SubjectNumber,
    attempt: u32,
    fate: Fate,
    due: Millis,
    /// Bytes of the body.
    size: u32,
}

/// An entry that begins.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    subject: SubjectNumber,
    attempt: u32,
    due: Millis,
    size: u32,
}

#[derive(Clone, Debug, Default)]
struct Topic {
    name: String,
    /// Ready messages; the place of each is its number.
    ready: Vec<Sequence>,
    /// Numbers that no later group gets.
    gone: BTreeSet<u64>,
    /// Everything below is finished.
    floor: u64,
    /// Everything below was finished once.
    listed_from: u64,
    /// Messages that were given back before this are void.
    ended_before: Sequence,
    /// How many of its messages have expired.
    expired: u64,
}

/// The trusted time of a batch, where dispatch was not held.
type Time = Option<Millis>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    topics: BTreeMap<SubjectNumber, Topic>,
    lines: BTreeMap<Sequence, Line>,
    groups: BTreeMap<GroupNumber, Members>,
    /// Offsets that a group of this name has used.
    used_offsets: BTreeMap<(SubjectNumber, String), u64>,
    /// The outcome of each command.
    commands: BTreeMap<Sequence, Outcome>,
    /// The target of each cancel.
    targets: BTreeMap<Sequence, Sequence>,
    /// By the message that was moved: its key after the move, and the delay that was asked for.
    moves: BTreeMap<Sequence, (DueKey, Option<u64>)>,
    names: Names,
    series: Series,
    loads: Loads,
    groups_made: u32,
    consumers_made: u32,
    voided: u64,
}

impl Ledger {
    /// Takes in the next batch.
    pub fn apply(&mut self, batch: &AppliedBatch) {
        let header = &batch.header;
        let trusted = Millis(header.trusted_ms.get());
        self.names.begin_batch(trusted);
        self.series.standing = None;
        self.loads.now = trusted;
        let time = (!header.is_held()).then_some(trusted);
        let records = batch.visible().records;
        for (_, record) in Records::new(records, Sequence(header.base_sequence.get())).flatten() {
            if let Some(fact) = decode(&record) {
                self.take_in(record.sequence, time, &fact);
                self.raise_floors();
            }
        }
    }

    fn take_in(&mut self, at: Sequence, time: Time, fact: &Fact<'_>) {
        let outcome = match fact {
            Fact::Recur(recur) => Some(self.take_recur(at, recur)),
            Fact::Adopt(adopt) => Some(self.take_adopt(at, adopt)),
            Fact::ByKey(asked) => self.ask_by_key(at, time, asked),
            Fact::Cancel(cancel) => {
                self.targets.insert(at, cancel.target.sequence);
                Some(self.cancel(cancel.target.sequence))
            }
            Fact::Move(moved) => Some(self.move_to(at, time, moved)),
            other => return self.take_in_of_messages(at, time, other),
        };
        self.commands.extend(outcome.map(|outcome| (at, outcome)));
    }

    fn take_in_of_messages(&mut self, at: Sequence, time: Time, fact: &Fact<'_>) {
        match fact {
            Fact::Subject { number, name } => self.name(*number, name),
            Fact::Message(message) => self.publish(at, time, message),
            Fact::Terms(terms) => self.take_terms(at, terms),
            Fact::Occurrence(occurrence) => self.take_occurrence(at, *occurrence),
            Fact::Ready(list) => {
                for (key, _) in list.entries() {
                    if self.lines.get(&key.sequence).is_some_and(|line| line.fate == Fate::Waiting) {
                        self.make_ready(key.sequence);
                    }
                }
            }
            Fact::Retry(retry) => self.move_on(at, time, retry),
            Fact::Redrive(redrive) => self.bring_back(at, time, redrive),
            Fact::Expire(expire) => self.expire(expire),
            Fact::Void(Void::Pending { sequence, .. }) => {
                if self.cancel_waiting(*sequence) {
                    self.voided += 1;
                }
            }
            Fact::Void(Void::Ready { subject, number }) => {
                let topic = self.topics.get(subject);
                let is_there = topic.is_some_and(|topic| {
                    (topic.floor..topic.ready.len() as u64).contains(&number.0) && !topic.gone.contains(&number.0)
                });
                if is_there {
                    self.voided += 1;
                    self.give_up(*subject, number.0);
                }
            }
            Fact::EpochStart(_) => self.groups.values_mut().for_each(Members::begin_epoch),
            other => self.take_in_of_a_group(at, other),
        }
    }

    fn take_in_of_a_group(&mut self, at: Sequence, fact: &Fact<'_>) {
        match fact {
            Fact::Group { subject, start, name } if self.named(*subject, name).is_none() => {
                let start = self.place_of(*subject, *start);
                self.ensure_group(*subject, start, name);
            }
            Fact::GroupEnd { group, end } => self.end_group(at, *group, *end),
            Fact::GroupReset { group, start } => self.reset_group(*group, *start),
            Fact::Consumer { group, name } => {
                self.begin_consumer(*group, name, false);
            }
            Fact::Attach(attach) => {
                let start = self.place_of(attach.subject, attach.start);
                let Some(group) = self.ensure_group(attach.subject, start, attach.group) else { return };
                self.begin_consumer(group, attach.consumer, true);
                self.with(group, |members| members.see(attach));
            }
            Fact::ConsumerEnd { group, consumer } => self.with(*group, |members| members.end_consumer(*consumer)),
            Fact::Reserve(reserve) => self.with(reserve.group, |members| members.reserve(reserve)),
            Fact::Assign(assign) => self.with(assign.group, |members| members.assign(assign)),
            Fact::PassOver(passed_over) => self.pass_over(passed_over),
            Fact::Acknowledge(done) => self.with(done.group, |members| members.acknowledge(done)),
            _ => {}
        }
    }

    fn begin_consumer(&mut self, group: GroupNumber, name: &str, is_lasting: bool) {
        let Some(members) = self.groups.get_mut(&group) else { return };
        if members.begin_consumer(ConsumerNumber(self.consumers_made + 1), name, is_lasting) {
            self.consumers_made += 1;
        }
    }

    fn with(&mut self, group: GroupNumber, change: impl FnOnce(&mut Members)) {
        if let Some(members) = self.groups.get_mut(&group) {
            change(members);
        }
    }

    fn name(&mut self, number: SubjectNumber, name: &str) {
        let is_known = self.topics.values().any(|topic| topic.name == name);
        if number.0 > 0 && !is_known {
            self.topics.entry(number).or_insert_with(|| Topic { name: name.to_owned(), ..Topic::default() });
        }
    }

    fn named(&self, subject: SubjectNumber, name: &str) -> Option<GroupNumber> {
        let mut groups = self.groups.iter();
        groups.find(|(_, group)| group.subject == subject && group.name == name).map(|(number, _)| *number)
    }

    fn begin(&mut self, at: Sequence, begins: Beginning, is_due: bool) {
        let Beginning { subject, attempt, due, size } = begins;
        self.lines.insert(at, Line { subject, attempt, fate: Fate::Waiting, due, size });
        if is_due {
            self.make_ready(at);
        }
    }

    fn make_ready(&mut self, sequence: Sequence) {
        let Some(line) = self.lines.get_mut(&sequence) else { return };
        self.names.becomes_ready(sequence);
        line.fate = Fate::Ready;
        let subject = line.subject;
        let Some(topic) = self.topics.get_mut(&subject) else { return };
        let number = topic.ready.len() as u64;
        topic.ready.push(sequence);
        if sequence < topic.ended_before {
            self.give_up(subject, number);
        }
    }

    fn give_up(&mut self, subject: SubjectNumber, number: u64) {
        if let Some(topic) = self.topics.get_mut(&subject) {
            topic.gone.insert(number);
        }
        for group in self.groups.values_mut().filter(|group| group.subject == subject) {
            group.give_up(number);
        }
    }

    fn cancel(&mut self, target: Sequence) -> Outcome {
        if self.cancel_waiting(target) {
            return Outcome::Done;
        }
        match self.lines.get(&target).map(|line| line.fate) {
            Some(Fate::Ready) => Outcome::AlreadyDispatched,
            Some(Fate::Cancelled) => Outcome::Done,
            Some(Fate::Waiting | Fate::Moved) | None => Outcome::NotFound,
        }
    }

    fn move_to(&mut self, at: Sequence, time: Time, moved: &Move) -> Outcome {
        let target = moved.target.sequence;
        let is_owed = self.topics.get(&moved.subject).is_some_and(|topic| target >= topic.ended_before);
        let is_owed = is_owed && moved.due <= DUE_MAX;
        match self.lines.get_mut(&target) {
            Some(line) if line.fate == Fate::Waiting && is_owed => {
                line.fate = Fate::Moved;
                let begins =
                    Beginning { subject: line.subject, attempt: line.attempt, due: moved.due, size: line.size };
                let key = DueKey { due: moved.due, sequence: at };
                self.moves.insert(target, (key, moved.delay_ms));
                self.key_goes_along(target, key);
                self.begin(at, begins, time.is_some_and(|now| moved.due <= now));
                Outcome::Moved(key)
            }
            Some(Line { fate: Fate::Ready, .. }) => Outcome::AlreadyDispatched,
            Some(Line { fate: Fate::Moved, .. }) => match self.moves.get(&target) {
                Some((key, delay)) if *delay == moved.delay_ms && (delay.is_some() || key.due == moved.due) => {
                    Outcome::Moved(*key)
                }
                _ => Outcome::NotFound,
            },
            _ => Outcome::NotFound,
        }
    }

    fn move_on(&mut self, at: Sequence, time: Time, retry: &Retry<'_>) {
        if !self.topics.contains_key(&retry.target) {
            return;
        }
        let Some(group) = self.groups.get_mut(&retry.group) else { return };
        if !group.takes(retry.consumer, retry.offset.0, retry.number.0) {
            return;
        }
        let (name, subject) = (group.name.clone(), group.subject);
        let size = self.size_of(subject, retry.number.0);
        self.ensure_group(retry.target, self.place_of(retry.target, GroupStart::Unfinished), &name);
        let is_due = match retry.destination {
            Destination::Again => time.is_some_and(|now| retry.due <= now),
            Destination::DeadLetter { .. } => true,
            Destination::Expired { .. } => {
                self.count_expired(subject, 1);
                true
            }
        };
        let begins = Beginning { subject: retry.target, attempt: retry.attempt, due: retry.due, size };
        self.begin(at, begins, is_due);
    }

    fn bring_back(&mut self, at: Sequence, time: Time, redrive: &Redrive) {
        let Some(group) = self.groups.get_mut(&redrive.group) else { return };
        let ready = self.topics.get(&group.subject).map_or(0, |topic| topic.ready.len() as u64);
        let number = redrive.number.0;
        if !self.topics.contains_key(&redrive.target) || number >= ready || group.is_finished(number) {
            return;
        }
        group.give_up(number);
        let (name, subject) = (group.name.clone(), group.subject);
        let size = self.size_of(subject, number);
        self.ensure_group(redrive.target, self.place_of(redrive.target, GroupStart::Unfinished), &name);
        let begins = Beginning { subject: redrive.target, attempt: 1, due: redrive.due, size };
        self.begin(at, begins, time.is_some_and(|now| redrive.due <= now));
    }

    fn place_of(&self, subject: SubjectNumber, start: GroupStart) -> u64 {
        let topic = self.topics.get(&subject);
        match start {
            GroupStart::Unfinished => topic.map_or(0, |topic| topic.floor),
            GroupStart::Latest => topic.map_or(0, |topic| topic.ready.len() as u64),
            GroupStart::Number(number) => topic.map_or(0, |topic| topic.first_again(number.0)),
        }
    }

    fn ensure_group(&mut self, subject: SubjectNumber, start: u64, name: &str) -> Option<GroupNumber> {
        if let Some(there) = self.named(subject, name) {
            return Some(there);
        }
        let topic = self.topics.get_mut(&subject)?;
        if start < topic.floor {
            (topic.listed_from, topic.floor) = (topic.listed_from.max(topic.floor), start);
        }
        let used = self.used_offsets.get(&(subject, name.to_owned())).copied().unwrap_or_default();
        self.groups_made += 1;
        let number = GroupNumber(self.groups_made);
        self.groups.insert(number, Members::new(subject, name, start, used, &topic.gone));
        Some(number)
    }

    /// Removes a group. Its offsets are never used again.
    fn remove(&mut self, number: GroupNumber) -> Option<Members> {
        let group = self.groups.remove(&number)?;
        self.used_offsets.insert((group.subject, group.name.clone()), group.offsets_used());
        Some(group)
    }

    fn end_group(&mut self, at: Sequence, number: GroupNumber, end: GroupEnd) {
        let Some(group) = self.groups.get(&number) else { return };
        if end == GroupEnd::Alone {
            self.remove(number);
            return;
        }
        let name = group.name.clone();
        let own = self.topics.get(&group.subject).map(|topic| topic.name.clone()).unwrap_or_default();
        let derived: Vec<SubjectNumber> = [retry_subject(&own, &name), dead_letter_subject(&own, &name)]
            .iter()
            .filter_map(|subject| self.subject_named(subject))
            .collect();
        let mut ending = vec![number];
        ending.extend(derived.iter().filter_map(|subject| self.named(*subject, &name)));
        if ending.iter().filter_map(|group| self.groups.get(group)).any(Members::has_consumers) {
            return;
        }
        for subject in derived {
            if let Some(topic) = self.topics.get_mut(&subject) {
                topic.gone.extend(0..topic.ready.len() as u64);
                topic.ended_before = at;
            }
        }
        for group in ending {
            self.remove(group);
        }
    }

    fn reset_group(&mut self, number: GroupNumber, start: GroupStart) {
        let Some(group) = self.groups.get(&number).filter(|group| !group.has_consumers()) else { return };
        let subject = group.subject;
        let start = self.place_of(subject, start);
        let Some(before) = self.remove(number) else { return };
        if let Some(again) = self.ensure_group(subject, start, &before.name) {
            self.with(again, |members| members.go_on_from(&before));
        }
    }
}
