//! Which facts made which messages ready, told by what became of each sequence in the end.

use std::collections::HashMap;

use delaymq_core::error::Error;
use delaymq_core::message_log::Find;
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::command::Move;
use delaymq_core::record::header::{RawRecord, Records};
use delaymq_core::record::message::Message;
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::record::terms::{ByKey, KeyCommand};
use delaymq_core::record::{Fact, decode};
use delaymq_core::schedule_log::{EntryState, Window};
use delaymq_core::store::State;
use delaymq_core::units::{DueKey, Epoch, Location, Millis, Sequence, SubjectNumber};

/// A message became ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// The fact that made it so.
    pub(crate) fact: Sequence,
    pub(crate) location: Location,
    pub(crate) epoch: Option<Epoch>,
    pub(crate) trusted: Option<Millis>,
    pub(crate) key: DueKey,
    pub(crate) subject: SubjectNumber,
    /// `None` where the log does not say it any more.
    pub(crate) message: Option<Sequence>,
    pub(crate) number: Option<u64>,
}

/// What a judge says.
pub(crate) enum Seen {
    Ready(Event),
    Damage(Error),
}

/// One way through the log, from its beginning to its end.
pub(crate) struct Judge {
    ready: Marks,
    /// The messages of entries that moves, retries and redrives made.
    messages: HashMap<Sequence, Option<Sequence>>,
    first: Sequence,
    next: Sequence,
    /// Sequences whose facts could not be read.
    lost: Vec<(Sequence, Sequence)>,
}

/// The fact that is being judged.
#[derive(Clone, Copy)]
struct At {
    fact: Sequence,
    location: Location,
    epoch: Option<Epoch>,
    trusted: Option<Millis>,
    /// What is due by then is ready by its own fact; `None` where it was held, or that is not known.
    ready_by: Option<Millis>,
}

/// An entry that a fact makes, where it does.
struct Begun {
    due: Millis,
    subject: SubjectNumber,
    message: Option<Sequence>,
    is_at_once: bool,
}

impl Judge {
    /// A judge of the log from a sequence on, by the state at its end.
    pub(crate) fn new(state: &State, first: Sequence) -> Self {
        let windows = state.schedule.windows().first().map(Window::first);
        let ready = Marks { first: windows.unwrap_or(first).min(first), words: Vec::new() };
        Self { ready, messages: HashMap::new(), first, next: first, lost: Vec::new() }
    }

    /// Takes in what was found next.
    pub(crate) fn take(&mut self, state: &State, find: Find<'_>, path: &str, show: &mut dyn FnMut(Seen)) {
        match find {
            Find::Damage(error) => show(Seen::Damage(error)),
            Find::Record { record, location, trusted } => {
                let at = At { fact: record.sequence, location, epoch: None, trusted, ready_by: None };
                self.record(state, &record, at, path, show);
            }
            Find::Batch { header, start, records } => {
                let trusted = Some(Millis(header.trusted_ms.get()));
                let (epoch, ready_by) = (Some(Epoch(header.epoch.get())), trusted.filter(|_| !header.is_held()));
                let first = start.0.saturating_add(BATCH_HEADER_BYTES as u64);
                for found in Records::new(records, Sequence(header.base_sequence.get())) {
                    match found {
                        Ok((at, record)) => {
                            let location = Location(first.saturating_add(at as u64));
                            let at = At { fact: record.sequence, location, epoch, trusted, ready_by };
                            self.record(state, &record, at, path, show);
                        }
                        Err(fault) => {
                            let offset = u64::from(start.offset());
                            let found = format!("{fault:?}");
                            show(Seen::Damage(Error::corrupt(path, offset, "a whole batch", found)));
                        }
                    }
                }
            }
        }
    }

    fn record(&mut self, state: &State, record: &RawRecord<'_>, at: At, path: &str, show: &mut dyn FnMut(Seen)) {
        let fact = decode(record).filter(|fact| matches!(fact, Fact::Message(_)) || record.payload_is_whole());
        let Some(fact) = fact else {
            let (offset, found) = (u64::from(at.location.offset()), format!("kind {}", record.header.kind));
            show(Seen::Damage(Error::corrupt(path, offset, "a whole record of a known kind", found)));
            return;
        };
        if at.fact > self.next {
            self.lost.push((self.next, at.fact));
        }
        self.next = at.fact.next();
        match fact {
            Fact::Ready(list) => {
                for (key, subject) in list.entries() {
                    if self.becomes_ready(state, key.sequence) {
                        show(Seen::Ready(self.event(at, key, subject)));
                    }
                }
            }
            other => {
                if let Some(begun) = self.begun(&other, at.fact) {
                    self.begins(state, at, &begun, show);
                }
            }
        }
    }

    /// The entry that a fact makes under its own sequence, where it takes effect.
    fn begun(&self, fact: &Fact<'_>, sequence: Sequence) -> Option<Begun> {
        let moved = |target: DueKey, due, subject| {
            Some(Begun { due, subject, message: self.message_of(target.sequence), is_at_once: false })
        };
        match *fact {
            Fact::Message(Message { due, subject, .. }) => {
                Some(Begun { due, subject, message: Some(sequence), is_at_once: false })
            }
            Fact::Move(Move { target, due, subject, .. }) => moved(target, due, subject),
            Fact::ByKey(ByKey { command: KeyCommand::Move { due, .. }, target, subject, .. }) => {
                moved(target?, due, subject)
            }
            Fact::Retry(Retry { due, target, payload_sequence, destination, .. }) => {
                let is_at_once = matches!(destination, Destination::DeadLetter { .. });
                Some(Begun { due, subject: target, message: payload_sequence, is_at_once })
            }
            Fact::Redrive(Redrive { due, target, payload_sequence, .. }) => {
                Some(Begun { due, subject: target, message: Some(payload_sequence), is_at_once: false })
            }
            _ => None,
        }
    }

    fn begins(&mut self, state: &State, at: At, begun: &Begun, show: &mut dyn FnMut(Seen)) {
        let key = DueKey { due: begun.due, sequence: at.fact };
        if begun.message != Some(at.fact) {
            self.messages.insert(at.fact, begun.message);
        }
        if (begun.is_at_once || at.ready_by.is_some_and(|by| begun.due <= by)) && self.becomes_ready(state, at.fact) {
            show(Seen::Ready(self.event(at, key, begun.subject)));
        }
    }

    /// False for an entry that does not become ready, or did before.
    fn becomes_ready(&mut self, state: &State, entry: Sequence) -> bool {
        state.schedule.state(entry) == EntryState::Dispatched && self.ready.mark(entry)
    }

    fn event(&mut self, at: At, key: DueKey, subject: SubjectNumber) -> Event {
        let message = self.message_of(key.sequence);
        self.messages.remove(&key.sequence);
        let At { fact, location, epoch, trusted, .. } = at;
        Event { fact, location, epoch, trusted, key, subject, message, number: None }
    }

    /// The message of an entry: itself, unless another fact made the entry.
    fn message_of(&self, entry: Sequence) -> Option<Sequence> {
        if let Some(message) = self.messages.get(&entry) {
            return *message;
        }
        let before = self.lost.partition_point(|(first, _)| *first <= entry);
        let gap = before.checked_sub(1).and_then(|at| self.lost.get(at));
        let is_lost = gap.is_some_and(|(_, end)| entry < *end);
        (entry >= self.first && !is_lost).then_some(entry)
    }
}

/// A bit for each sequence.
struct Marks {
    first: Sequence,
    words: Vec<u64>,
}

impl Marks {
    /// Marks a sequence; false where it was before, or is below the first.
    fn mark(&mut self, sequence: Sequence) -> bool {
        let Some(place) = sequence.0.checked_sub(self.first.0) else { return false };
        let Ok(word) = usize::try_from(place / 64) else { return false };
        if self.words.len() <= word {
            self.words.resize(word.saturating_add(1), 0);
        }
        let bit = 1_u64 << (place % 64);
        self.words.get_mut(word).is_some_and(|word| std::mem::replace(word, *word | bit) & bit == 0)
    }
}
