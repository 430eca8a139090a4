//! The table `message`: every message in the log, whatever became of it.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Find, LogPiece, segment_path};
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::header::{RawRecord, RecordFault, Records};
use delaymq_core::record::message::{KIND_MESSAGE, decode_message};
use delaymq_core::record::terms::{KIND_TERMS, MessageTerms, NameHash, decode_terms};
use delaymq_core::units::{Epoch, Location, Millis, Sequence};

use crate::column::Column;
use crate::content::Content;
use crate::filter::{Filter, Names};
use crate::message_row::MessageRow;
use crate::rows::Sink;
use crate::schema::Choice;

/// Makes rows of what is found in a piece of the log.
pub(crate) struct MessageRows<'a> {
    pub(crate) filter: &'a Filter,
    pub(crate) names: &'a Names,
    pub(crate) choice: &'a Choice,
    path: String,
    terms: KeyTerms,
}

/// What the batch says of all its records.
#[derive(Clone, Copy)]
struct OfBatch {
    epoch: Option<Epoch>,
    trusted: Option<Millis>,
}

impl<'a> MessageRows<'a> {
    pub(crate) fn new(filter: &'a Filter, names: &'a Names, choice: &'a Choice, piece: &LogPiece) -> Self {
        Self { filter, names, choice, path: segment_path(piece.segment), terms: KeyTerms::default() }
    }

    /// Takes in what was found next.
    pub(crate) fn take(&mut self, find: Find<'_>, sink: &mut dyn Sink) {
        match find {
            Find::Damage(error) => sink.damage(error),
            Find::Record { record, location, trusted } => {
                self.terms.forget_before(record.sequence);
                self.record(&record, location, OfBatch { epoch: None, trusted }, sink);
            }
            Find::Batch { header, start, records } => {
                self.terms = KeyTerms::default();
                let trusted = Some(Millis(header.trusted_ms.get()));
                if !self.filter.takes_published(trusted) {
                    return;
                }
                let of_batch = OfBatch { epoch: Some(Epoch(header.epoch.get())), trusted };
                let first = start.0.saturating_add(BATCH_HEADER_BYTES as u64);
                for found in Records::new(records, Sequence(header.base_sequence.get())) {
                    match found {
                        Ok((at, record)) => {
                            let location = Location(first.saturating_add(at as u64));
                            self.record(&record, location, of_batch, sink);
                        }
                        Err(fault) => sink.damage(self.unreadable(start, fault)),
                    }
                }
            }
        }
    }

    fn record(&mut self, record: &RawRecord<'_>, location: Location, of_batch: OfBatch, sink: &mut dyn Sink) {
        if record.header.kind == KIND_TERMS && self.choice.has(Column::Key) {
            self.terms.note(record);
        }
        if record.header.kind == KIND_MESSAGE && self.filter.takes_published(of_batch.trusted) {
            match self.row(record, location, of_batch, sink) {
                Ok(()) => {}
                Err(error) => sink.damage(error),
            }
        }
    }

    fn row(
        &mut self,
        record: &RawRecord<'_>,
        location: Location,
        of_batch: OfBatch,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        let offset = location.offset();
        let Some(message) = decode_message(record) else {
            return Err(Error::corrupt(&self.path, u64::from(offset), "a message", "another fixed part"));
        };
        let subject = self.names.get(&message.subject).map(String::as_str);
        let is_other = subject.is_none() && self.filter.only_named;
        if is_other || !self.filter.takes(record.sequence, message.due) {
            return Ok(());
        }
        let mut content = None;
        if self.choice.reads_payload() {
            check_payload(record, &self.path, offset)?;
            let read = Content::of(&message);
            let malformed = || Error::corrupt(&self.path, u64::from(offset), "id, tags and attributes", "other bytes");
            content = Some(read.ok_or_else(malformed)?);
        }
        sink.row(&MessageRow {
            sequence: record.sequence,
            epoch: of_batch.epoch,
            subject,
            key: self.terms.key_of(record.sequence),
            content,
            published: of_batch.trusted,
            due: message.due,
            file: &self.path,
            offset,
            payload_check: Some(record.header.payload_check.get()),
            published_sequence: record.sequence,
        });
        Ok(())
    }

    fn unreadable(&self, start: Location, fault: RecordFault) -> Error {
        Error::corrupt(&self.path, u64::from(start.offset()), "a whole batch", format!("{fault:?}"))
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
