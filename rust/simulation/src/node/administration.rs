//! Operator commands: reset and remove groups, list and redrive dead letters, expire messages.

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::Result;
use delaymq_core::message_log::Class;
use delaymq_core::record::expire::{ExpiredBy, encode_expire};
use delaymq_core::record::name::{GroupEnd, GroupStart, encode_group_end, encode_group_reset};
use delaymq_core::record::queue::ranges_of;
use delaymq_core::record::retry::{Redrive, encode_redrive};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{DeadLetterQueue, ReadyCursor, ReadyPiece, StartAt, retry_subject};
use delaymq_core::units::{GroupNumber, Millis, ReadyNumber, Sequence, SubjectNumber};

use super::draft::Draft;
use super::{Label, Node};

/// A dead letter as an operator sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenDeadLetter {
    /// Its number in the dead-letter subject.
    pub number: ReadyNumber,
    /// Its entry there.
    pub entry: Entry,
    /// The reason that its fact gives, if any.
    pub reason: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// An expiry that the log's queue has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedExpiry {
    /// The fact's sequence.
    pub fact: Sequence,
    /// The entries that it names.
    pub entries: Vec<Entry>,
}

impl Node {
    /// The start of a new group.
    pub(super) fn start_of(&self, subject: SubjectNumber, start: StartAt) -> Result<GroupStart> {
        let plan = self.owner.plan_starts(&[subject], start, self.owner.state().position.trusted)?;
        Ok(self.owner.finish_start(plan)?.of(subject))
    }

    /// The start of a group that is reset.
    pub(super) fn restart_of(&self, group: GroupNumber, start: StartAt) -> Result<GroupStart> {
        let subject = self.owner.state().groups.get(&group).map(|group| group.subject);
        subject.map_or(Ok(GroupStart::Unfinished), |subject| self.start_of(subject, start))
    }

    /// Submits the reset of a group.
    pub fn reset_group(&mut self, group: GroupNumber, start: StartAt) -> Result<Option<Sequence>> {
        let start = self.restart_of(group, start)?;
        self.submit_one(Class::Finishing, true, |records| encode_group_reset(records, group, start))
    }

    /// Submits the removal of a group with its retries and dead letters.
    pub fn remove_group(&mut self, group: GroupNumber) -> Result<Option<Sequence>> {
        let encode = |records: &mut Vec<u8>| encode_group_end(records, group, GroupEnd::WithItsRetries);
        self.submit_one(Class::Finishing, true, encode)
    }

    /// Submits the expiry of the ready messages of a subject that were due before this time. Also `None` if there are
    /// no such messages.
    pub fn expire(&mut self, subject: SubjectNumber, due_before: Millis) -> Result<Option<AskedExpiry>> {
        let cursor = self.owner.ready_cursor(subject);
        let found = self.look_at_ready(cursor)?;
        let old: BTreeMap<ReadyNumber, Entry> =
            found.into_iter().filter(|(_, entry)| entry.due() < due_before).collect();
        if old.is_empty() {
            return Ok(None);
        }
        let ranges = ranges_of(old.keys().map(|number| number.0));
        let encode =
            |records: &mut Vec<u8>| encode_expire(records, subject, ExpiredBy::Operator { due_before }, &ranges);
        let asked = self.submit_one(Class::Finishing, false, encode)?;
        Ok(asked.map(|fact| AskedExpiry { fact, entries: old.into_values().collect() }))
    }

    /// Voids a ready message, as a reader does that finds its payload damaged.
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

    /// The dead-letter queue of a group.
    pub fn dead_letter_queue(&self, subject: &str, group: &str) -> Option<DeadLetterQueue> {
        self.owner.state().dead_letter_queue(subject, group)
    }

    /// A group's dead letters, as applied. `DamagedPayload` if a body is missing.
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

    /// Submits one redrive for each of these dead letters, due now. Returns the sequence of the first redrive.
    pub fn redrive(
        &mut self,
        names: (&str, &str),
        group: GroupNumber,
        letters: &[SeenDeadLetter],
    ) -> Result<Option<Sequence>> {
        let mut draft = Draft::default();
        let target = self.subject_in(&mut draft, &retry_subject(names.0, names.1))?;
        let (due, before) = (self.reading.now, u64::from(draft.count));
        for letter in letters {
            let (number, payload_sequence) = (letter.number, letter.entry.payload_sequence());
            let redrive = Redrive { group, target, number, due, payload_sequence };
            draft.add(|records| encode_redrive(records, &redrive));
        }
        Ok(self.submit_draft(&draft, Class::Finishing, false)?.map(|range| range.start.plus(before)))
    }
}
