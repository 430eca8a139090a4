//! Dead letters: listed, and redriven.

use std::collections::BTreeSet;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::retry::{Redrive, encode_redrive};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{
    DeadLetterQueue, DeadLetterReasons, LogReading, Outcome, ReadyCursor, ReadyPiece, retry_subject,
};
use delaymq_core::units::{Millis, ReadyNumber, Sequence};

use crate::consume::delivery::Payload;
use crate::names::Subject;
use crate::store::Store;

/// The most dead letters that are redriven with one wait.
const REDRIVE_MAX: usize = 1_024;
/// The most bytes that one redrive takes in the log.
const REDRIVE_BYTES: usize = 64;

/// A dead letter: a message that a consumer gave up.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its number among the dead letters of its group, from 0.
    pub number: ReadyNumber,
    /// The sequence of the message itself.
    pub sequence: Sequence,
    /// When it died.
    pub died: Millis,
    /// How often it had been delivered.
    pub attempt: u32,
    /// Why it died.
    pub reason: String,
    /// When the message was received.
    pub published: Option<Millis>,
    /// Its meta and body.
    pub payload: Option<Payload>,
    /// The part that cannot be read, and why. Such a field is empty above.
    pub damage: Option<String>,
}

impl Store {
    /// The dead letters of a group, the oldest first, at most `limit`. Changes nothing. It is slow, since it reads the
    /// log where they died.
    ///
    /// # Errors
    /// `InvalidArgument` naming `group` if it does not exist; `Storage`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn dead_letters(&self, subject: &str, group: &str, limit: usize) -> Result<Vec<DeadLetter>> {
        self.dead_letters_from(subject, group, ReadyNumber(0), limit)
    }

    /// As [`Self::dead_letters`], from this number on.
    pub fn dead_letters_from(
        &self,
        subject: &str,
        group: &str,
        first: ReadyNumber,
        limit: usize,
    ) -> Result<Vec<DeadLetter>> {
        self.checked(subject, group)?;
        self.group_number(subject, group)?;
        let Some(queue) = self.look(|state| Ok(state.dead_letter_queue(subject, group)))? else {
            return Ok(Vec::new());
        };
        let numbers = self.look(|state| Ok(state.unfinished_numbers(queue.group, first, limit)))?;
        let found = self.postings(queue, &numbers)?;
        let log = self.shared.lock_owner()?.get()?.owner.log_reading();
        let (reasons, damage) = reasons_of(&log, &found);
        let told = found.iter().zip(&numbers).map(|(entry, number)| self.tell(*number, entry.as_ref(), &reasons));
        let mut told: Vec<DeadLetter> = told.collect();
        if let Some(damage) = damage {
            for one in told.iter_mut().filter(|one| one.damage.is_some()) {
                one.damage = one.damage.take().map(|words| format!("{words} ({damage})"));
            }
        }
        Ok(told)
    }

    fn tell(&self, number: ReadyNumber, entry: Option<&Entry>, reasons: &DeadLetterReasons) -> DeadLetter {
        let mut letter = DeadLetter {
            number,
            sequence: Sequence(0),
            died: Millis(0),
            attempt: 0,
            reason: String::new(),
            published: None,
            payload: None,
            damage: None,
        };
        let Some(entry) = entry else {
            letter.damage = Some("its row is damaged".to_owned());
            return letter;
        };
        letter.sequence = entry.payload_sequence();
        letter.died = entry.due();
        letter.attempt = u32::from(entry.attempt());
        match reasons.get(&entry.sequence()) {
            Some(reason) => letter.reason.clone_from(reason),
            None => letter.damage = Some("its reason cannot be read".to_owned()),
        }
        match self.shared.read_whole(&mut self.shared.payloads.reader(), entry, true) {
            Ok(stored) => (letter.published, letter.payload) = (Some(stored.published), Some(stored.payload)),
            Err(error) => letter.damage = Some(error.to_string()),
        }
        letter
    }

    /// The entries of these numbers, in order; `None` for one whose row is damaged.
    fn postings(&self, queue: DeadLetterQueue, numbers: &[ReadyNumber]) -> Result<Vec<Option<Entry>>> {
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(Vec::new()) };
        let mut cursor = ReadyCursor::new(queue.subject, *first, last.next());
        let mut entries = std::collections::BTreeMap::new();
        loop {
            let piece = self.shared.lock_owner()?.get()?.owner.look_at_ready(&mut cursor);
            match piece {
                ReadyPiece::Entries(found) => entries.extend(found),
                ReadyPiece::Load(load) => entries.extend(load.read()?.entries),
                ReadyPiece::End => break,
            }
        }
        Ok(numbers.iter().map(|number| entries.get(number).copied()).collect())
    }

    /// Redrives dead letters of a group, the oldest first, at most `limit`: the group gets them again now, and their
    /// attempts count from 1. Returns how many, when it is durable. After an error, some may have been redriven, none
    /// of them twice.
    ///
    /// # Errors
    /// As [`Self::dead_letters`]; `DiskFull` if the name of the retry subject finds no room.
    pub fn redrive(&self, subject: &str, group: &str, limit: Option<usize>) -> Result<u64> {
        let shared = self.checked(subject, group)?;
        self.group_number(subject, group)?;
        let target = shared.names.subject(&retry_subject(subject, group))?;
        let mut left = limit.unwrap_or(usize::MAX);
        let (mut from, mut moved) = (ReadyNumber(0), 0_u64);
        let facts_max = REDRIVE_MAX.min(shared.submission_bytes_max() / REDRIVE_BYTES / 2).max(1);
        while left > 0 {
            let count = left.min(facts_max);
            let Some(queue) = self.look(|state| Ok(state.dead_letter_queue(subject, group)))? else { break };
            let numbers = self.look(|state| Ok(state.unfinished_numbers(queue.group, from, count)))?;
            let Some(last) = numbers.last() else { break };
            from = last.next();
            left = left.saturating_sub(numbers.len());
            moved = moved.saturating_add(self.redrive_some(queue, &target, &numbers)?);
        }
        Ok(moved)
    }

    fn redrive_some(&self, queue: DeadLetterQueue, target: &Subject, numbers: &[ReadyNumber]) -> Result<u64> {
        let shared = &self.shared;
        let entries = self.postings(queue, numbers)?;
        let (now, _) = shared.now();
        let mut records = Vec::new();
        if target.needs_fact {
            encode_subject(&mut records, target.number, &target.name);
        }
        for (number, entry) in numbers.iter().zip(entries) {
            let payload_sequence = entry.map_or(Sequence(0), |entry| entry.payload_sequence());
            let redrive =
                Redrive { group: queue.group, target: target.number, number: *number, due: now, payload_sequence };
            encode_redrive(&mut records, &redrive);
        }
        let count = numbers.len().saturating_add(usize::from(target.needs_fact));
        let outcomes = shared.ask(&records, count, Class::Finishing, false)?;
        let moved = outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Done)).count() as u64;
        shared.metrics.redriven.add(moved);
        Ok(moved)
    }
}

/// The reasons that can be read, and the errors of the others.
fn reasons_of(log: &LogReading, found: &[Option<Entry>]) -> (DeadLetterReasons, Option<Error>) {
    let wanted: BTreeSet<Sequence> = found.iter().flatten().map(Entry::sequence).collect();
    match log.reasons(&wanted) {
        Ok(reasons) => (reasons, None),
        Err(error) => (DeadLetterReasons::new(), Some(error)),
    }
}
