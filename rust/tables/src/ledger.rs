//! Messages of some sequences and what their groups were given of them, fact by fact.
//!
//! What an entry came to is judged by the state at the end, as in `judge`; what consumers were given and how that
//! ended is followed here, since no state keeps it. A retry goes on in the delivery that it ends.

use std::collections::{HashMap, HashSet, VecDeque};

use delaymq_core::record::message::Message;
use delaymq_core::record::queue::{Acknowledge, Assign};
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::schedule_log::EntryState;
use delaymq_core::store::State;
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, PullOffset, Sequence, SubjectNumber};

use crate::facts::At;
use crate::judge::Event;
use crate::ledger_index::{Index, Numbers, Target};
use crate::parties::Parties;

/// A time that may not be known, in eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Time(u64);

impl Time {
    pub(crate) const NONE: Self = Self(u64::MAX);

    pub(crate) fn of(time: Option<Millis>) -> Self {
        time.map_or(Self::NONE, |time| Self(time.0))
    }

    pub(crate) fn get(self) -> Option<Millis> {
        (self != Self::NONE).then_some(Millis(self.0))
    }
}

/// Why a ready message is finished for all groups that do not have it, those to come included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    No,
    Expired,
    Voided,
}

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// `None` where it is not known of which message the entry is.
    pub(crate) sequence: Option<Sequence>,
    /// The entry that it has now.
    pub(crate) entry: Sequence,
    pub(crate) due: Time,
    pub(crate) published: Time,
    pub(crate) ready: Time,
    pub(crate) number: Option<u64>,
    /// When it was cancelled, given up or expired.
    pub(crate) ended: Time,
    pub(crate) subject: SubjectNumber,
    pub(crate) first_delivery: Option<u32>,
    /// Where its id is, among all.
    pub(crate) id: (u32, u32),
    pub(crate) gone: Gone,
    pub(crate) is_ready: bool,
    /// Nobody but a command speaks of it, which may have come too late.
    pub(crate) is_doubtful: bool,
}

/// What became of a message for a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// Nobody has it.
    Waits,
    Held(ConsumerNumber, PullOffset),
    Acknowledged,
    DeadLetter,
    Expired,
    Voided,
    Cancelled,
}

/// A message and a group that was given it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) next: Option<u32>,
    pub(crate) group: GroupNumber,
    pub(crate) attempts: u32,
    pub(crate) delivered: Time,
    pub(crate) ended: Time,
    /// The entry that came of giving it back last, and its subject, where it was.
    pub(crate) retry: Option<(Sequence, SubjectNumber)>,
    /// The number that this entry got.
    retry_number: Option<u64>,
    pub(crate) word: Word,
}

/// A command that would end a pending entry, or a fact that gives it up.
#[derive(Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) entry: Sequence,
    pub(crate) due: Option<Millis>,
    pub(crate) subject: SubjectNumber,
    pub(crate) is_void: bool,
}

/// See the module.
pub(crate) struct Ledger {
    pub(crate) first: Sequence,
    pub(crate) end: Sequence,
    /// The first sequence of the log.
    pub(crate) log_first: Sequence,
    pub(crate) known_from: Sequence,
    pub(crate) slots: Vec<Slot>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) ids: String,
    /// When a group ended.
    pub(crate) ended_groups: HashMap<GroupNumber, Time>,
    /// Groups that have surely ended: facts behind that change nothing.
    gone_groups: HashSet<GroupNumber>,
    /// When facts that end groups were written.
    pub(crate) ending_facts: HashMap<Sequence, Time>,
    index: Index,
    /// Entries that moves, retries and redrives made.
    entries: HashMap<Sequence, Target>,
    numbers: HashMap<SubjectNumber, Numbers>,
    held: HashMap<ConsumerNumber, VecDeque<(PullOffset, u32)>>,
}

impl Ledger {
    /// A ledger of the sequences from `first` on and below `end`, of a log whose first one is `log_first`; what became
    /// of those below `known_from` is not known any more.
    pub(crate) fn new(first: Sequence, end: Sequence, log_first: Sequence, known_from: Sequence) -> Self {
        Self {
            first,
            end,
            log_first,
            known_from,
            slots: Vec::new(),
            deliveries: Vec::new(),
            ids: String::new(),
            ended_groups: HashMap::new(),
            gone_groups: HashSet::new(),
            ending_facts: HashMap::new(),
            index: if end <= log_first { Index::scattered() } else { Index::dense(first) },
            entries: HashMap::new(),
            numbers: HashMap::new(),
            held: HashMap::new(),
        }
    }

    /// Whether a sequence is one of the ledger's.
    pub(crate) fn has(&self, sequence: Sequence) -> bool {
        self.first <= sequence && sequence < self.end
    }

    fn is_older(&self, sequence: Sequence) -> bool {
        sequence < self.log_first && self.has(sequence)
    }

    /// A message that was published.
    pub(crate) fn publish(&mut self, message: &Message<'_>, at: At, id: &str) {
        let from = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        self.ids.push_str(id);
        let id = (from, u32::try_from(id.len()).unwrap_or_default());
        let slot = Slot { published: Time::of(at.trusted), id, ..slot_of(message.subject, at.fact) };
        self.add(at.fact, Slot { sequence: Some(at.fact), due: Time::of(Some(message.due)), ..slot });
    }

    /// A message of which only its entry is known, by the sequence under which it is found.
    pub(crate) fn add_older(&mut self, key: Sequence, message: Sequence, entry: DueKey, subject: SubjectNumber) {
        let due = Time::of(Some(entry.due));
        match self.index.get(key).and_then(|place| self.slot_mut(place)) {
            Some(slot) => slot.sequence = Some(message),
            None => {
                self.add(key, Slot { sequence: Some(message), due, ..slot_of(subject, entry.sequence) });
            }
        }
    }

    /// One that is ready since before the log begins.
    pub(crate) fn add_older_ready(&mut self, message: Sequence, entry: DueKey, subject: SubjectNumber, number: u64) {
        self.add_older(message, message, entry, subject);
        if let Some(place) = self.index.get(message) {
            self.take_number(Target::Slot(place), subject, Some(number));
            if let Some(slot) = self.slot_mut(place) {
                slot.is_ready = true;
            }
        }
    }

    fn add(&mut self, key: Sequence, slot: Slot) -> Option<u32> {
        let place = u32::try_from(self.slots.len()).ok()?;
        self.index.put(key, place);
        self.slots.push(slot);
        Some(place)
    }

    fn slot_mut(&mut self, place: u32) -> Option<&mut Slot> {
        self.slots.get_mut(place as usize)
    }

    /// Who has an entry now.
    fn owner(&self, entry: Sequence) -> Option<Target> {
        if let Some(target) = self.entries.get(&entry).filter(|_| !self.entries.is_empty()) {
            return Some(*target);
        }
        let place = self.index.get(entry)?;
        self.slots.get(place as usize).filter(|slot| slot.entry == entry).map(|_| Target::Slot(place))
    }

    /// An entry became ready.
    pub(crate) fn ready(&mut self, event: &Event, number: Option<u64>) {
        let entry = event.key.sequence;
        let target = self.owner(entry).or_else(|| {
            let due = Time::of(Some(event.key.due));
            let slot = || Slot { due, ..slot_of(event.subject, entry) };
            let place = if self.is_older(entry) { self.add(entry, slot()) } else { None };
            place.map(Target::Slot)
        });
        let Some(target) = target else { return };
        if let Target::Slot(place) = target
            && let Some(slot) = self.slot_mut(place)
        {
            (slot.is_ready, slot.is_doubtful, slot.ready) = (true, false, Time::of(event.at.trusted));
        }
        self.take_number(target, event.subject, number);
    }

    fn take_number(&mut self, target: Target, subject: SubjectNumber, number: Option<u64>) {
        let Some(number) = number else { return };
        self.numbers.entry(subject).or_default().push(number, target);
        match target {
            Target::Slot(place) => {
                if let Some(slot) = self.slot_mut(place) {
                    slot.number = Some(number);
                }
            }
            Target::Delivery(place) => {
                if let Some(delivery) = self.deliveries.get_mut(place as usize) {
                    delivery.retry_number = Some(number);
                }
            }
        }
    }

    /// A command would move an entry.
    pub(crate) fn moved(&mut self, state: &State, target: DueKey, due: Millis, subject: SubjectNumber, at: At) {
        let entry = target.sequence;
        if entry >= self.known_from && state.schedule.state(entry) != EntryState::Nothing {
            return;
        }
        let owner = self.owner(entry).or_else(|| {
            // Whether it was in time is seen by what becomes of the new entry.
            let slot = Slot { is_doubtful: true, ..slot_of(subject, entry) };
            if self.is_older(entry) { self.add(entry, slot).map(Target::Slot) } else { None }
        });
        let Some(owner) = owner else { return };
        self.entries.remove(&entry);
        self.entries.insert(at.fact, owner);
        match owner {
            Target::Slot(place) => {
                if let Some(slot) = self.slot_mut(place) {
                    (slot.entry, slot.due) = (at.fact, Time::of(Some(due)));
                }
            }
            Target::Delivery(place) => {
                if let Some(delivery) = self.deliveries.get_mut(place as usize) {
                    delivery.goes_on(at.fact, subject);
                }
            }
        }
    }

    /// A command would end an entry.
    pub(crate) fn cancelled(&mut self, state: &State, command: Ending, at: At) {
        let Ending { entry, due, subject, is_void } = command;
        if state.schedule.state(entry) != EntryState::Cancelled {
            return;
        }
        let owner = self.owner(entry).or_else(|| {
            let slot = Slot { due: Time::of(due), ..slot_of(subject, entry) };
            if self.is_older(entry) { self.add(entry, slot).map(Target::Slot) } else { None }
        });
        let time = Time::of(at.trusted);
        match owner {
            Some(Target::Slot(place)) => {
                if let Some(slot) = self.slot_mut(place).filter(|slot| slot.ended == Time::NONE) {
                    slot.ended = time;
                    slot.gone = if is_void { Gone::Voided } else { Gone::No };
                }
            }
            Some(Target::Delivery(place)) => {
                let word = if is_void { Word::Voided } else { Word::Cancelled };
                if let Some(delivery) = self.deliveries.get_mut(place as usize).filter(|one| one.word == Word::Waits) {
                    delivery.ends(word, time);
                }
            }
            None => {}
        }
    }

    /// A consumer was given numbers.
    pub(crate) fn assign(&mut self, parties: &Parties, assign: &Assign<'_>, at: At) {
        let Some((subject, name)) = parties.groups.get(&assign.group) else { return };
        let Some(numbers) = self.numbers.get(subject) else { return };
        if self.gone_groups.contains(&assign.group) {
            return;
        }
        let (slots, deliveries) = (&mut self.slots, &mut self.deliveries);
        let held = self.held.entry(assign.consumer).or_default();
        let mut offset = assign.first_offset;
        for range in assign.numbers.iter() {
            for (number, target) in numbers.between(range.first, range.first.saturating_add(range.count)) {
                let under = offset.plus(number.saturating_sub(range.first));
                let Some(place) = given(slots, deliveries, parties, target, (assign.group, name)) else { continue };
                let Some(delivery) = deliveries.get_mut(place as usize) else { continue };
                if delivery.word != Word::Waits || !delivery.is_under(target, number) {
                    continue;
                }
                if delivery.attempts == 0 {
                    delivery.delivered = Time::of(at.trusted);
                }
                delivery.attempts = delivery.attempts.saturating_add(1);
                delivery.word = Word::Held(assign.consumer, under);
                held.push_back((under, place));
            }
            offset = offset.plus(range.count);
        }
    }

    /// A consumer has finished offsets.
    pub(crate) fn acknowledge(&mut self, acknowledge: &Acknowledge<'_>, at: At) {
        let consumer = acknowledge.consumer;
        let Some(held) = self.held.get_mut(&consumer).filter(|_| !self.gone_groups.contains(&acknowledge.group)) else {
            return;
        };
        let deliveries = &mut self.deliveries;
        for range in acknowledge.offsets.iter() {
            let end = PullOffset(range.first.saturating_add(range.count));
            let from = held.partition_point(|(offset, _)| offset.0 < range.first);
            for (offset, place) in held.range(from..).take_while(|(offset, _)| *offset < end) {
                if let Some(delivery) = deliveries.get_mut(*place as usize)
                    && delivery.word == Word::Held(consumer, *offset)
                {
                    delivery.ends(Word::Acknowledged, Time::of(at.trusted));
                }
            }
        }
        let is_held = |(offset, place): &(PullOffset, u32)| {
            deliveries.get(*place as usize).is_some_and(|delivery| delivery.word == Word::Held(consumer, *offset))
        };
        while held.front().is_some_and(|front| !is_held(front)) {
            held.pop_front();
        }
    }

    /// A consumer gave a message back, or put it away. `is_older` says that its number is of before the log.
    pub(crate) fn retry(&mut self, parties: &Parties, retry: &Retry<'_>, at: At, is_older: bool) {
        let place = self.held_under(retry.consumer, retry.offset).or_else(|| {
            let message = retry.payload_sequence.filter(|message| is_older && self.is_older(*message))?;
            let (subject, _) = parties.groups.get(&retry.group)?;
            self.given_before(message, *subject, retry.number.0, retry.group)
        });
        let Some((place, delivery)) = place.and_then(|at| Some((at, self.deliveries.get_mut(at as usize)?))) else {
            return;
        };
        match retry.destination {
            Destination::Again => {
                delivery.goes_on(at.fact, retry.target);
                self.entries.insert(at.fact, Target::Delivery(place));
            }
            Destination::DeadLetter { .. } => delivery.ends(Word::DeadLetter, Time::of(at.trusted)),
        }
    }

    fn held_under(&self, consumer: ConsumerNumber, offset: PullOffset) -> Option<u32> {
        let held = self.held.get(&consumer)?;
        let place = held.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        let (_, delivery) = held.get(place)?;
        let is_held = self.deliveries.get(*delivery as usize)?.word == Word::Held(consumer, offset);
        is_held.then_some(*delivery)
    }

    /// The delivery of a message that was given before the log begins.
    fn given_before(
        &mut self,
        message: Sequence,
        subject: SubjectNumber,
        number: u64,
        group: GroupNumber,
    ) -> Option<u32> {
        if self.index.get(message).is_none() {
            self.add(message, Slot { sequence: Some(message), ..slot_of(subject, Sequence(0)) });
        }
        let place = self.index.get(message)?;
        let slot = self.slots.get_mut(place as usize)?;
        (slot.is_ready, slot.number) = (true, Some(number));
        Some(delivery_to(slot, &mut self.deliveries, group))
    }

    /// A dead letter was brought back.
    pub(crate) fn redrive(&mut self, state: &State, parties: &Parties, redrive: &Redrive, at: At) {
        let Some((_, name)) = parties.groups.get(&redrive.group) else { return };
        let slot = self.index.get(redrive.payload_sequence).and_then(|place| self.slots.get(place as usize));
        let mut next = slot.and_then(|slot| slot.first_delivery);
        while let Some((place, delivery)) = next.and_then(|at| Some((at, self.deliveries.get_mut(at as usize)?))) {
            let is_of = parties.groups.get(&delivery.group).is_some_and(|(_, of)| of == name);
            if is_of && delivery.word == Word::DeadLetter {
                self.entries.insert(at.fact, Target::Delivery(place));
                // One that is nothing in the end came too late, unless it was moved.
                if state.schedule.state(at.fact) != EntryState::Nothing {
                    delivery.goes_on(at.fact, redrive.target);
                }
                return;
            }
            next = delivery.next;
        }
    }

    /// Ready messages are finished for all who do not have them; or one is given up for all.
    pub(crate) fn finish(&mut self, subject: SubjectNumber, first: u64, end: u64, why: Gone, at: At) {
        let Some(numbers) = self.numbers.get(&subject) else { return };
        let (slots, deliveries, time) = (&mut self.slots, &mut self.deliveries, Time::of(at.trusted));
        let word = if why == Gone::Voided { Word::Voided } else { Word::Expired };
        for (number, target) in numbers.between(first, end) {
            let mut next = match target {
                Target::Delivery(place) => Some(place),
                Target::Slot(place) => slots.get_mut(place as usize).and_then(|slot| {
                    if slot.gone == Gone::No {
                        (slot.gone, slot.ended) = (why, time);
                    }
                    slot.first_delivery
                }),
            };
            while let Some(delivery) = next.and_then(|at| deliveries.get_mut(at as usize)) {
                let has = matches!(delivery.word, Word::Held(..)) && why == Gone::Voided;
                if delivery.is_under(target, number) && (delivery.word == Word::Waits || has) {
                    delivery.ends(word, time);
                }
                next = delivery.next.filter(|_| matches!(target, Target::Slot(_)));
            }
        }
    }

    /// A consumer ended: what it has is its group's again.
    pub(crate) fn consumer_ended(&mut self, consumer: ConsumerNumber) {
        for (offset, place) in self.held.remove(&consumer).unwrap_or_default() {
            if let Some(delivery) = self.deliveries.get_mut(place as usize)
                && delivery.word == Word::Held(consumer, offset)
            {
                delivery.word = Word::Waits;
            }
        }
    }

    /// A fact would end a group, which is refused while somebody consumes unless `is_certain`.
    pub(crate) fn group_ended(&mut self, state: &State, group: GroupNumber, at: At, is_certain: bool) {
        let time = Time::of(at.trusted);
        self.ending_facts.insert(at.fact, time);
        if state.groups.contains_key(&group) || self.gone_groups.contains(&group) {
            return;
        }
        self.ended_groups.insert(group, time);
        if is_certain {
            self.gone_groups.insert(group);
        }
    }
}

impl Delivery {
    /// Whether a number that was found for it is that of its entry now.
    fn is_under(&self, target: Target, number: u64) -> bool {
        match target {
            Target::Slot(_) => self.retry.is_none(),
            Target::Delivery(_) => self.retry_number == Some(number),
        }
    }

    fn ends(&mut self, word: Word, time: Time) {
        (self.word, self.ended) = (word, time);
    }

    /// It waits again, under another entry.
    fn goes_on(&mut self, entry: Sequence, subject: SubjectNumber) {
        (self.word, self.ended) = (Word::Waits, Time::NONE);
        (self.retry, self.retry_number) = (Some((entry, subject)), None);
    }
}

fn slot_of(subject: SubjectNumber, entry: Sequence) -> Slot {
    Slot {
        sequence: None,
        entry,
        due: Time::NONE,
        published: Time::NONE,
        ready: Time::NONE,
        number: None,
        ended: Time::NONE,
        subject,
        first_delivery: None,
        id: (0, 0),
        gone: Gone::No,
        is_ready: false,
        is_doubtful: false,
    }
}

/// The delivery that a number of a group's subject is; `None` where the group gets nothing of it. What was given
/// back is not what it was: its number in the subject is finished.
fn given(
    slots: &mut [Slot],
    deliveries: &mut Vec<Delivery>,
    parties: &Parties,
    target: Target,
    (group, name): (GroupNumber, &str),
) -> Option<u32> {
    match target {
        // Another group that reads a retry subject is none of the message's.
        Target::Delivery(place) => {
            let of = parties.groups.get(&deliveries.get(place as usize)?.group);
            of.is_some_and(|(_, of)| of == name).then_some(place)
        }
        Target::Slot(place) => {
            let slot = slots.get_mut(place as usize)?;
            let there = found(slot, deliveries, group);
            // What is gone is finished for a group that has not had it.
            if there.is_none() && slot.gone != Gone::No { None } else { Some(delivery_to(slot, deliveries, group)) }
        }
    }
}

fn found(slot: &Slot, deliveries: &[Delivery], group: GroupNumber) -> Option<u32> {
    let mut next = slot.first_delivery;
    while let Some(place) = next {
        let delivery = deliveries.get(place as usize)?;
        if delivery.group == group {
            return Some(place);
        }
        next = delivery.next;
    }
    None
}

/// The delivery of a message to a group, made where there is none.
fn delivery_to(slot: &mut Slot, deliveries: &mut Vec<Delivery>, group: GroupNumber) -> u32 {
    if let Some(there) = found(slot, deliveries, group) {
        return there;
    }
    let place = u32::try_from(deliveries.len()).unwrap_or(u32::MAX);
    deliveries.push(Delivery {
        next: slot.first_delivery,
        group,
        attempts: 0,
        delivered: Time::NONE,
        ended: Time::NONE,
        retry: None,
        retry_number: None,
        word: Word::Waits,
    });
    slot.first_delivery = Some(place);
    place
}
