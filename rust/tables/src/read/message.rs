//! The table `message`: every message in the log, whatever its fate.

use std::ops::Range;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Find;
use delaymq_core::record::adopt::{KIND_ADOPT, sequences_of};
use delaymq_core::record::header::RawRecord;
use delaymq_core::record::message::{KIND_MESSAGE, decode_message};
use delaymq_core::record::terms::{KIND_TERMS, MessageTerms, NameHash, decode_terms};
use delaymq_core::units::{Epoch, Sequence, SubjectNumber};

use crate::read::log_walk::{At, Walked, each_record};
use crate::rows::content::Content;
use crate::rows::message_row::MessageRow;
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::column::Column;
use crate::schema::filter::{Filter, Names};

/// So many rows are taken in together: few enough to be in the processor's nearest cache until they are.
const TOGETHER: usize = 128;

/// Makes rows of what is found in a piece of the log.
pub(crate) struct MessageRows<'a> {
    filter: &'a Filter,
    names: &'a Names,
    path: &'a str,
    reads_payload: bool,
    reads_keys: bool,
    /// The subject that was named last: a stretch of messages is often of one.
    named: Option<(SubjectNumber, Option<&'a str>)>,
    terms: KeyTerms,
    /// Sequences of messages that facts have loaded, and the epochs of these.
    pub(crate) adopted: Vec<(Range<Sequence>, Option<Epoch>)>,
}

impl<'a> MessageRows<'a> {
    /// `path` is that of the piece's segment.
    pub(crate) fn new(filter: &'a Filter, names: &'a Names, choice: &Choice, path: &'a str) -> Self {
        Self {
            filter,
            names,
            path,
            reads_payload: choice.reads_payload(),
            reads_keys: choice.has(Column::Key),
            named: None,
            terms: KeyTerms::default(),
            adopted: Vec::new(),
        }
    }

    /// Takes in what was found next.
    pub(crate) fn take(&mut self, find: Find<'_>, sink: &mut Gathered) {
        let mut expected = 1;
        if let Find::Batch { header, .. } = &find {
            self.terms = KeyTerms::default();
            expected = header.record_count.get() as usize;
        }
        let (path, filter) = (self.path, self.filter);
        let mut rows = Vec::with_capacity(expected.min(TOGETHER));
        each_record(
            find,
            path,
            |time| filter.takes_published(time),
            |walked| {
                match walked {
                    Walked::Damage(error) => sink.damage(error),
                    Walked::Record(record, at) => {
                        if let Err(error) = self.record(&record, &at, &mut rows) {
                            sink.damage(error);
                        }
                    }
                }
                if rows.len() == TOGETHER {
                    sink.stretch(&rows);
                    rows.clear();
                }
            },
        );
        sink.stretch(&rows);
    }

    fn record<'r>(&mut self, record: &RawRecord<'r>, at: &At, rows: &mut Vec<MessageRow<'r>>) -> Result<()>
    where
        'a: 'r,
    {
        self.terms.forget_before(record.sequence);
        match record.header.kind {
            KIND_MESSAGE => return self.row(record, at, rows),
            KIND_TERMS if self.reads_keys => self.terms.note(record),
            KIND_ADOPT => {
                let end = record.sequence.plus(sequences_of(record));
                self.adopted.push((record.sequence..end, at.epoch));
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds the row of a message, where it is asked for.
    #[inline]
    fn row<'r>(&mut self, record: &RawRecord<'r>, at: &At, rows: &mut Vec<MessageRow<'r>>) -> Result<()>
    where
        'a: 'r,
    {
        let offset = at.location.offset();
        let Some(message) = decode_message(record) else {
            return Err(Error::corrupt(self.path, u64::from(offset), "a message", "another fixed part"));
        };
        let subject = self.name_of(message.subject);
        let is_other = subject.is_none() && self.filter.only_named;
        if is_other || !self.filter.takes(record.sequence, message.due) {
            return Ok(());
        }
        let mut content = None;
        if self.reads_payload {
            check_payload(record, self.path, offset)?;
            let read = Content::of(&message);
            let malformed = || Error::corrupt(self.path, u64::from(offset), "id, tags and attributes", "other bytes");
            content = Some(read.ok_or_else(malformed)?);
        }
        rows.push(MessageRow {
            sequence: record.sequence,
            epoch: at.epoch,
            subject,
            key: self.terms.key_of(record.sequence),
            content,
            published: at.trusted,
            due: message.due,
            file: self.path,
            offset,
            payload_check: Some(record.header.payload_check.get()),
            published_sequence: record.sequence,
        });
        Ok(())
    }

    fn name_of(&mut self, subject: SubjectNumber) -> Option<&'a str> {
        match self.named {
            Some((named, name)) if named == subject => name,
            _ => {
                let name = self.names.get(&subject).map(String::as_str);
                self.named = Some((subject, name));
                name
            }
        }
    }
}

/// Checks the payload of a message.
pub(crate) fn check_payload(record: &RawRecord<'_>, path: &str, offset: u32) -> Result<()> {
    if record.payload_is_whole() {
        return Ok(());
    }
    let (expected, sequence) = (record.header.payload_check.get(), record.sequence.0);
    let found = crc32fast::hash(record.payload);
    Err(Error::DamagedPayload {
        sequence,
        path: path.to_owned(),
        offset: u64::from(offset),
        expected: format!("payload check {expected:08x}"),
        found: format!("{found:08x}"),
    })
}

/// The terms that stand in front of the messages that come next, for their keys.
#[derive(Default)]
struct KeyTerms {
    first: Sequence,
    end: Sequence,
    rows: Vec<MessageTerms>,
    next: usize,
}

impl KeyTerms {
    fn note(&mut self, record: &RawRecord<'_>) {
        let Some(terms) = decode_terms(record).filter(|_| record.payload_is_whole()) else { return };
        let first = record.sequence.next();
        *self = Self { first, end: first.plus(u64::from(terms.messages)), rows: terms.rows().collect(), next: 0 };
    }

    /// Where records are found singly, those of another batch may come next.
    fn forget_before(&mut self, sequence: Sequence) {
        if sequence >= self.end {
            self.rows.clear();
        }
    }

    fn key_of(&mut self, sequence: Sequence) -> Option<NameHash> {
        if sequence < self.first || sequence >= self.end {
            return None;
        }
        let place = sequence.since(self.first);
        while self.rows.get(self.next).is_some_and(|row| u64::from(row.place) < place) {
            self.next = self.next.saturating_add(1);
        }
        self.rows.get(self.next).filter(|row| u64::from(row.place) == place)?.key
    }
}
