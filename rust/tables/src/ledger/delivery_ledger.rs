//! The messages of some sequences, and what their groups got of them, fact by fact.
//!
//! The state at the end decides the fate of an entry, as in `ready_facts`. What consumers got and how that ended is
//! followed here, since no state keeps it. A retry continues the delivery that it ends.

use std::collections::{HashMap, HashSet, VecDeque};

use delaymq_core::record::message::Message;
use delaymq_core::schedule_log::EntryState;
use delaymq_core::store::State;
use delaymq_core::units::{ConsumerNumber, DueKey, GroupNumber, Millis, PullOffset, Sequence, SubjectNumber};

use crate::ledger::index::{Index, Numbers, Target};
use crate::ledger::slots::{Delivery, Gone, Slot, Time, Word, slot_of};
use crate::read::log_walk::At;
use crate::read::ready_facts::Event;

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
    pub(crate) gone_groups: HashSet<GroupNumber>,
    /// The numbers of unfinished messages, by entries, if the log does not have all; `None` if it has.
    pub(crate) numbered: Option<HashMap<Sequence, u64>>,
    /// Some of that could not be read.
    pub(crate) is_doubtful: bool,
    /// When facts that end groups were written.
    pub(crate) ending_facts: HashMap<Sequence, Time>,
    pub(crate) index: Index,
    /// Entries that moves, retries and redrives made.
    pub(crate) entries: HashMap<Sequence, Target>,
    pub(crate) numbers: HashMap<SubjectNumber, Numbers>,
    pub(crate) held: HashMap<ConsumerNumber, VecDeque<(PullOffset, u32)>>,
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
            numbered: None,
            is_doubtful: false,
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

    pub(crate) fn is_older(&self, sequence: Sequence) -> bool {
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

    pub(crate) fn add(&mut self, key: Sequence, slot: Slot) -> Option<u32> {
        let place = u32::try_from(self.slots.len()).ok()?;
        self.index.put(key, place);
        self.slots.push(slot);
        Some(place)
    }

    fn slot_mut(&mut self, place: u32) -> Option<&mut Slot> {
        self.slots.get_mut(place as usize)
    }

    /// Who has an entry now.
    pub(crate) fn owner(&self, entry: Sequence) -> Option<Target> {
        if let Some(target) = self.entries.get(&entry).filter(|_| !self.entries.is_empty()) {
            return Some(*target);
        }
        let place = self.index.get(entry)?;
        self.slots.get(place as usize).filter(|slot| slot.entry == entry).map(|_| Target::Slot(place))
    }

    /// An entry became ready.
    pub(crate) fn ready(&mut self, event: &Event, number: Option<u64>) {
        let entry = event.key.sequence;
        let number = number.or_else(|| self.numbered.as_ref()?.get(&entry).copied());
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

    pub(crate) fn take_number(&mut self, target: Target, subject: SubjectNumber, number: Option<u64>) {
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
}
