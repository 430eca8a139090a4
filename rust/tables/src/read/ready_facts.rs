//! The facts that made messages ready. The log says which entries a fact was to make ready, but not which of them were
//! still pending; the state at the end decides that for each sequence.

use std::collections::{BTreeSet, HashMap, HashSet};

use delaymq_core::record::Fact;
use delaymq_core::record::command::{Cancel, Void};
use delaymq_core::record::message::Message;
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::record::terms::ByKey;
use delaymq_core::schedule_log::{EntryState, Window};
use delaymq_core::store::State;
use delaymq_core::units::{DueKey, Millis, Sequence, SubjectNumber};

use crate::read::log_walk::At;

/// A fact made an entry ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) at: At,
    pub(crate) key: DueKey,
    pub(crate) subject: SubjectNumber,
}

/// Entries of ready facts that did not become ready by these, though nothing that is known in the end says so: the
/// sequence of the fact, and of the entry.
pub(crate) type Refused = BTreeSet<(Sequence, Sequence)>;

/// Judges facts, from any of them on.
pub(crate) struct Judge<'a> {
    /// What became of sequences below is not known any more.
    known_from: Sequence,
    refused: &'a Refused,
}

impl<'a> Judge<'a> {
    /// `first` is the first sequence of the log.
    pub(crate) fn new(state: &State, first: Sequence, refused: &'a Refused) -> Self {
        Self { known_from: known_from(state, first), refused }
    }

    /// Shows what a fact made ready.
    pub(crate) fn take(&self, state: &State, fact: &Fact<'_>, at: At, show: &mut impl FnMut(Event)) {
        each_proposed(fact, at, &mut |event| {
            let entry = event.key.sequence;
            let is_so = entry < self.known_from || state.schedule.state(entry) == EntryState::Dispatched;
            if is_so && !self.refused.contains(&(at.fact, entry)) {
                show(event);
            }
        });
    }
}

/// The first sequence of which it is known what became of it, but those of `first` and later ones anyway.
pub(crate) fn known_from(state: &State, first: Sequence) -> Sequence {
    state.schedule.windows().first().map_or(first, Window::first).min(first)
}

/// Judges all facts of a log, one after the other, and finds [`Refused`].
pub(crate) struct FirstJudge {
    known_from: Sequence,
    ready: Marks,
    /// Entries of which nothing is known in the end, and which a command has ended before they became ready.
    ended: HashSet<Sequence>,
    pub(crate) refused: Refused,
}

impl FirstJudge {
    /// `first` is the first sequence of the log.
    pub(crate) fn new(state: &State, first: Sequence) -> Self {
        let ended = HashSet::new();
        Self { known_from: known_from(state, first), ready: Marks::default(), ended, refused: Refused::new() }
    }

    /// Shows what a fact made ready.
    pub(crate) fn take(&mut self, state: &State, fact: &Fact<'_>, at: At, show: &mut impl FnMut(Event)) {
        if let Some(target) = ended_by(fact).filter(|target| *target < self.known_from) {
            self.ended.insert(target);
        }
        each_proposed(fact, at, &mut |event| {
            let entry = event.key.sequence;
            let is_known = entry >= self.known_from;
            if is_known && state.schedule.state(entry) != EntryState::Dispatched {
                return;
            }
            let is_ended = !is_known && self.ended.contains(&entry);
            if !is_ended && self.ready.mark(entry) {
                show(event);
            } else {
                self.refused.insert((at.fact, entry));
            }
        });
    }
}

/// The entry that a command is about.
fn ended_by(fact: &Fact<'_>) -> Option<Sequence> {
    match *fact {
        Fact::Cancel(Cancel { target, .. }) => Some(target.sequence),
        Fact::ByKey(ByKey { target, .. }) => target.map(|target| target.sequence),
        Fact::Void(Void::Pending { sequence, .. }) => Some(sequence),
        _ => fact.as_move().map(|moving| moving.target.sequence),
    }
}

/// The sequence of the fact behind this one.
fn behind(fact: &Fact<'_>, at: Sequence) -> Sequence {
    match fact {
        Fact::Adopt(adopt) => at.plus(u64::from(adopt.rows)),
        _ => at.next(),
    }
}

/// Shows the entries and messages that a fact is about.
pub(crate) fn each_named(fact: &Fact<'_>, show: &mut impl FnMut(Sequence)) {
    match fact {
        Fact::Ready(list) => list.entries().for_each(|(key, _)| show(key.sequence)),
        Fact::Retry(retry) => show(retry.payload_sequence),
        Fact::Redrive(redrive) => show(redrive.payload_sequence),
        _ => ended_by(fact).into_iter().for_each(show),
    }
}

/// What a fact makes ready where it is judged to.
fn each_proposed(fact: &Fact<'_>, at: At, show: &mut impl FnMut(Event)) {
    if let Fact::Ready(list) = fact {
        for (key, subject) in list.entries() {
            show(Event { at, key, subject });
        }
    } else if let Some(begun) = Begun::of(fact)
        && (begun.is_at_once || at.ready_by.is_some_and(|by| begun.due <= by))
    {
        let key = DueKey { due: begun.due, sequence: at.fact };
        show(Event { at, key, subject: begun.subject });
    }
}

/// An entry that a fact makes under its own sequence, where it takes effect.
pub(crate) struct Begun {
    pub(crate) due: Millis,
    pub(crate) subject: SubjectNumber,
    /// It waits for nothing.
    is_at_once: bool,
    of: Origin,
}

/// The message of an entry.
enum Origin {
    Itself,
    OfEntry(Sequence),
    Message(Sequence),
}

impl Begun {
    pub(crate) fn of(fact: &Fact<'_>) -> Option<Self> {
        let (due, subject, is_at_once, of) = match *fact {
            Fact::Message(Message { due, subject, .. }) => (due, subject, false, Origin::Itself),
            Fact::Retry(Retry { due, target, payload_sequence, destination, .. }) => {
                let is_at_once = destination != Destination::Again;
                (due, target, is_at_once, Origin::Message(payload_sequence))
            }
            Fact::Redrive(Redrive { due, target, payload_sequence, .. }) => {
                (due, target, false, Origin::Message(payload_sequence))
            }
            _ => {
                let moving = fact.as_move()?;
                (moving.due, moving.subject, false, Origin::OfEntry(moving.target.sequence))
            }
        };
        Some(Self { due, subject, is_at_once, of })
    }
}

/// Which message an entry is of, as far as the log says it.
#[derive(Default)]
pub(crate) struct Messages {
    /// Those of entries that moves, retries and redrives made; `None` if the log does not say it any more.
    of: HashMap<Sequence, Option<Sequence>>,
    first: Sequence,
    next: Sequence,
    /// Sequences whose facts could not be read.
    lost: Vec<(Sequence, Sequence)>,
}

impl Messages {
    /// Of a log from this sequence on.
    pub(crate) fn new(first: Sequence) -> Self {
        Self { first, next: first, ..Self::default() }
    }

    /// Takes in a fact.
    pub(crate) fn note(&mut self, fact: &Fact<'_>, at: At) {
        if at.fact > self.next {
            self.lost.push((self.next, at.fact));
        }
        self.next = behind(fact, at.fact);
        let message = match Begun::of(fact).map(|begun| begun.of) {
            None | Some(Origin::Itself) => return,
            Some(Origin::OfEntry(entry)) => self.get(entry),
            Some(Origin::Message(message)) => Some(message),
        };
        self.of.insert(at.fact, message);
    }

    /// The message of an entry that became ready, which is not asked again.
    pub(crate) fn take(&mut self, entry: Sequence) -> Option<Sequence> {
        let message = self.get(entry);
        self.of.remove(&entry);
        message
    }

    fn get(&self, entry: Sequence) -> Option<Sequence> {
        if let Some(message) = self.of.get(&entry) {
            return *message;
        }
        let before = self.lost.partition_point(|(first, _)| *first <= entry);
        let gap = before.checked_sub(1).and_then(|at| self.lost.get(at));
        let is_lost = gap.is_some_and(|(_, end)| entry < *end);
        (entry >= self.first && !is_lost).then_some(entry)
    }
}

/// A bit for each sequence, in pages of which there are only those that have one set.
#[derive(Default)]
struct Marks(HashMap<u64, [u64; 8]>);

impl Marks {
    /// Marks a sequence; false if it was before.
    fn mark(&mut self, sequence: Sequence) -> bool {
        let page = self.0.entry(sequence.0 / 512).or_default();
        let place = usize::try_from(sequence.0 / 64 % 8).unwrap_or_default();
        let bit = 1_u64 << (sequence.0 % 64);
        page.get_mut(place).is_some_and(|word| std::mem::replace(word, *word | bit) & bit == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_set_once() {
        let mut marks = Marks::default();
        for sequence in [0, 1, 63, 64, 511, 512, 513, u64::MAX] {
            assert!(marks.mark(Sequence(sequence)), "{sequence}");
            assert!(!marks.mark(Sequence(sequence)), "{sequence}");
        }
    }
}
