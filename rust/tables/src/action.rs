//! The table `action`: every fact that is a command, or that changes what is pending or handed over, as it stands in
//! the log. Whether it changed anything is not in it: that is judged where it is applied.

use delaymq_core::error::Error;
use delaymq_core::message_log::{Find, LogPiece, segment_path};
use delaymq_core::record::attach::KIND_ATTACH;
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::command::{KIND_CANCEL, KIND_MOVE, KIND_VOID};
use delaymq_core::record::decode;
use delaymq_core::record::expire::KIND_EXPIRE;
use delaymq_core::record::header::{RawRecord, Records};
use delaymq_core::record::name::{KIND_CONSUMER, KIND_CONSUMER_END, KIND_GROUP, KIND_GROUP_END, KIND_GROUP_RESET};
use delaymq_core::record::queue::{KIND_ACKNOWLEDGE, KIND_ASSIGN};
use delaymq_core::record::recurring::KIND_RECUR;
use delaymq_core::record::retry::{KIND_REDRIVE, KIND_RETRY};
use delaymq_core::record::terms::KIND_BY_KEY;
use delaymq_core::units::{Epoch, Location, Millis, Sequence};

use crate::action_row::{ActionRow, Said};
use crate::range::Range;
use crate::rows::Sink;

/// Makes rows of what is found in a piece of the log.
pub(crate) struct ActionRows<'a> {
    range: &'a Range,
    path: String,
}

/// What the batch says of all its records.
#[derive(Clone, Copy)]
struct OfBatch {
    epoch: Option<Epoch>,
    trusted: Option<Millis>,
}

impl<'a> ActionRows<'a> {
    pub(crate) fn new(range: &'a Range, piece: &LogPiece) -> Self {
        Self { range, path: segment_path(piece.segment) }
    }

    /// Takes in what was found next.
    pub(crate) fn take(&self, find: Find<'_>, sink: &mut dyn Sink) {
        match find {
            Find::Damage(error) => sink.damage(error),
            Find::Record { record, location, trusted } => {
                self.record(&record, location, OfBatch { epoch: None, trusted }, sink);
            }
            Find::Batch { header, start, records } => {
                let of_batch =
                    OfBatch { epoch: Some(Epoch(header.epoch.get())), trusted: Some(Millis(header.trusted_ms.get())) };
                if !self.range.filter.takes_published(of_batch.trusted) {
                    return;
                }
                let first = start.0.saturating_add(BATCH_HEADER_BYTES as u64);
                for found in Records::new(records, Sequence(header.base_sequence.get())) {
                    match found {
                        Ok((at, record)) => {
                            self.record(&record, Location(first.saturating_add(at as u64)), of_batch, sink);
                        }
                        Err(fault) => {
                            let offset = u64::from(start.offset());
                            sink.damage(Error::corrupt(&self.path, offset, "a whole batch", format!("{fault:?}")));
                        }
                    }
                }
            }
        }
    }

    fn record(&self, record: &RawRecord<'_>, location: Location, of_batch: OfBatch, sink: &mut dyn Sink) {
        let (filter, parties) = (&self.range.filter, &self.range.parties);
        let may_be = is_action(record.header.kind)
            && filter.takes_sequence(record.sequence)
            && filter.takes_published(of_batch.trusted);
        if !may_be {
            return;
        }
        let fact = decode(record).filter(|_| record.payload_is_whole());
        let Some(said) = fact.as_ref().and_then(Said::of) else {
            let (offset, found) = (u64::from(location.offset()), format!("kind {}", record.header.kind));
            sink.damage(Error::corrupt(&self.path, offset, "a whole record of a known kind", found));
            return;
        };
        let group = said.group_number.and_then(|number| parties.groups.get(&number));
        let subject = said.subject.or(group.map(|(subject, _)| *subject));
        let is_asked = subject.is_some_and(|subject| self.range.names.contains_key(&subject));
        if (filter.only_named && !is_asked) || !filter.takes_due(said.due) {
            return;
        }
        let name = |number| self.range.names.get(&number).or_else(|| parties.subjects.get(&number));
        let consumer = said.consumer_number.and_then(|number| parties.consumers.get(&number));
        sink.row(&ActionRow {
            sequence: record.sequence,
            epoch: of_batch.epoch,
            time: of_batch.trusted,
            subject: subject.and_then(name).map(String::as_str),
            target_subject: said.target_subject.and_then(name).map(String::as_str),
            group: said.group.or(group.map(|(_, name)| name.as_str())),
            consumer: said.consumer.or(consumer.map(String::as_str)),
            file: &self.path,
            offset: location.offset(),
            said: &said,
        });
    }
}

/// True for a kind of fact that is in the table. Those that are in none say how messages behind them are to be
/// taken, give a number to a name, reserve, or begin an opening.
const fn is_action(kind: u8) -> bool {
    matches!(
        kind,
        KIND_CANCEL
            | KIND_MOVE
            | KIND_BY_KEY
            | KIND_GROUP
            | KIND_GROUP_END
            | KIND_GROUP_RESET
            | KIND_CONSUMER
            | KIND_CONSUMER_END
            | KIND_ATTACH
            | KIND_ASSIGN
            | KIND_ACKNOWLEDGE
            | KIND_RETRY
            | KIND_REDRIVE
            | KIND_EXPIRE
            | KIND_VOID
            | KIND_RECUR
    )
}
