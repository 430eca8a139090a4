//! What operators do: reset and remove groups, list and redrive dead letters, expire messages.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::expire::encode_expire;
use delaymq_core::record::name::{GroupEnd, GroupStart, encode_group_end, encode_group_reset, encode_subject};
use delaymq_core::record::queue::ranges_of;
use delaymq_core::record::retry::{Redrive, encode_redrive};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{DeadLetterQueue, ReadyCursor, ReadyPiece, retry_subject};
use delaymq_core::units::{GroupNumber, Millis, ReadyNumber, Sequence, SubjectNumber};

use super::{Label, Node};

/// A dead letter as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenDeadLetter {
    /// Its number in the dead-letter subject.
    pub number: ReadyNumber,
    /// Its entry there.
    pub entry: Entry,
    /// Why it died; `None` where nothing says so.
    pub reason: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// An expiry that the log's queue has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedExpiry {
    /// The fact's sequence.
    pub fact: Sequence,
    /// What it names.
    pub entries: Vec<Entry>,
}

impl Node {
    /// Asks for a group to begin again elsewhere. The sequence is that of the fact, under which the
    /// answer is found; `None` where it must wait for room.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn reset_group(&mut self, group: GroupNumber, start: GroupStart) -> Result<Option<Sequence>> {
        let mut records = Vec::new();
        encode_group_reset(&mut records, group, start);
        Ok(self.submit(&records, 1, Class::Finishing, true)?.map(|range| range.start))
    }

    /// Asks for a group to be removed with all that it gave back.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn remove_group(&mut self, group: GroupNumber) -> Result<Option<Sequence>> {
        let mut records = Vec::new();
        encode_group_end(&mut records, group, GroupEnd::WithItsRetries);
        Ok(self.submit(&records, 1, Class::Finishing, true)?.map(|range| range.start))
    }

    /// Asks for the ready messages of a subject to expire that were due before this; `None` where
    /// there are none, or where it must wait for room.
    ///
    /// # Errors
    /// As [`Self::submit`]; `Storage` where a run could not be read.
    pub fn expire(&mut self, subject: SubjectNumber, due_before: Millis) -> Result<Option<AskedExpiry>> {
        let cursor = self.owner.ready_cursor(subject);
        let found = self.look_at_ready(cursor)?;
        let old: BTreeMap<ReadyNumber, Entry> =
            found.into_iter().filter(|(_, entry)| entry.due() < due_before).collect();
        if old.is_empty() {
            return Ok(None);
        }
        let ranges = ranges_of(old.keys().map(|number| number.0));
        let mut records = Vec::new();
        encode_expire(&mut records, subject, due_before, &ranges);
        let asked = self.submit(&records, 1, Class::Finishing, false)?;
        Ok(asked.map(|range| AskedExpiry { fact: range.start, entries: old.into_values().collect() }))
    }

    /// Gives a ready message up, as who finds it damaged does.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn void_ready(&mut self, subject: SubjectNumber, number: ReadyNumber) -> Result<()> {
        self.owner.void_ready(subject, number, &mut self.proposals);
        self.label(Label::Other);
        self.send().map(drop)
    }

    fn look_at_ready(&self, mut cursor: ReadyCursor) -> Result<BTreeMap<ReadyNumber, Entry>> {
        let mut found = BTreeMap::new();
        loop {
            match self.owner.look_at_ready(&mut cursor) {
                ReadyPiece::Entries(entries) => found.extend(entries),
                ReadyPiece::Load(load) => found.extend(load.read()?.entries),
                ReadyPiece::End => return Ok(found),
            }
        }
    }

    /// Where a group's dead letters are.
    pub fn dead_letter_queue(&self, subject: &str, group: &str) -> Option<DeadLetterQueue> {
        self.owner.state().dead_letter_queue(subject, group)
    }

    /// A group's dead letters, as applied.
    ///
    /// # Errors
    /// `Storage` where something could not be read, `DamagedPayload` where a body is not there.
    pub fn dead_letters(&self, queue: DeadLetterQueue) -> Result<Vec<SeenDeadLetter>> {
        let numbers = self.owner.state().unfinished_numbers(queue.group, ReadyNumber(0), usize::MAX);
        let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(Vec::new()) };
        let found = self.look_at_ready(ReadyCursor::new(queue.subject, *first, last.next()))?;
        let wanted: BTreeSet<Sequence> = found.values().map(Entry::sequence).collect();
        let mut reasons = self.owner.log_reading().reasons(&wanted)?;
        let mut seen = Vec::new();
        for number in numbers {
            let Some(entry) = found.get(&number).copied() else { continue };
            let (_, body) = self.read_payload(entry.location(), entry.payload_sequence())?;
            seen.push(SeenDeadLetter { number, entry, reason: reasons.remove(&entry.sequence()), body });
        }
        Ok(seen)
    }

    /// Asks for these dead letters to come again now, one fact each; the sequence is that of the
    /// first.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn redrive(
        &mut self,
        names: (&str, &str),
        group: GroupNumber,
        letters: &[SeenDeadLetter],
    ) -> Result<Option<Sequence>> {
        let name = retry_subject(names.0, names.1);
        let target = self.names.assign(&name)?;
        let due = self.reading.now;
        let mut records = Vec::new();
        let mut count = 0_u32;
        if target.needs_fact {
            encode_subject(&mut records, target.number, &name);
            count += 1;
        }
        let before = u64::from(count);
        for letter in letters {
            let (number, payload_sequence) = (letter.number, letter.entry.payload_sequence());
            encode_redrive(&mut records, &Redrive { group, target: target.number, number, due, payload_sequence });
            count = count.saturating_add(1);
        }
        Ok(self.submit(&records, count, Class::Finishing, false)?.map(|range| range.start.plus(before)))
    }
}
