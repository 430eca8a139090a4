//! Where the messages of one segment are, by their sequences: 1.4 bytes a message in large batches, and up to 24 bytes in
//! batches of one message.

use std::sync::Arc;

use super::ready_facts::{NamedEntry, PayloadOf, each_entry};
use crate::error::{Error, Result};
use crate::message_log::{BatchReader, Hole, ScannedBatch};
use crate::record::adopt::KIND_ADOPT;
use crate::store::apply::placement::BatchTime;
use crate::store::query::log_lookup::KeptLog;
use crate::store::state::SegmentStart;
use crate::units::{Location, SegmentNumber, Sequence, SubjectNumber, padded};

/// So many records share one place in full.
const STRETCH_RECORDS: u8 = 64;
/// Records begin at multiples of so many bytes.
const UNIT_BYTES: u64 = 8;

/// Records of one batch, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: Sequence,
    /// The place of the first one.
    location: Location,
    /// Where their lengths begin.
    lengths: u32,
    count: u8,
}

/// Where the messages of a segment are, up to a place in it.
#[derive(Debug)]
pub(super) struct SegmentIndex {
    segment: SegmentNumber,
    holes: Vec<Hole>,
    stretches: Vec<Stretch>,
    /// The length of each record but the last one of its stretch, in units of eight bytes.
    lengths: Vec<u8>,
    /// The entries of the subject whose payload is that of another one, by ascending sequence.
    others: Vec<(Sequence, PayloadOf)>,
    /// All facts before this place are in the index.
    next: Location,
    next_sequence: Sequence,
    end: Location,
    /// When it was used last, for its user.
    pub(super) used: u64,
}

impl SegmentIndex {
    /// An empty index of a segment that ends at this place.
    pub(super) fn of(log: &KeptLog, start: &SegmentStart, end: Location) -> Self {
        Self {
            segment: start.segment,
            holes: log.holes.in_segment(start.segment).to_vec(),
            stretches: Vec::new(),
            lengths: Vec::new(),
            others: Vec::new(),
            next: start.position.end,
            next_sequence: start.position.next_sequence,
            end,
            used: 0,
        }
    }

    /// False if the segment was removed since, or batches of it became a hole.
    pub(super) fn is_current(&self, log: &KeptLog) -> bool {
        let is_kept = log.segments.binary_search_by_key(&self.segment, |start| start.segment).is_ok();
        is_kept && self.holes == log.holes.in_segment(self.segment)
    }

    pub(super) fn bytes(&self) -> usize {
        let (stretches, others) = (size_of::<Stretch>(), size_of::<(Sequence, PayloadOf)>());
        let bytes = self.stretches.capacity().saturating_mul(stretches).saturating_add(self.lengths.capacity());
        bytes.saturating_add(self.others.capacity().saturating_mul(others))
    }

    /// True if the index has the place of this sequence, or knows that the segment has none.
    pub(super) fn reaches(&self, sequence: Sequence) -> bool {
        sequence < self.next_sequence || self.next >= self.end
    }

    /// Reads on until the index reaches a sequence. It stops at batches that cannot be read.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn read_to(
        &mut self,
        log: &KeptLog,
        (sequence, end): (Sequence, Location),
        subject: SubjectNumber,
    ) -> Result<()> {
        self.end = self.end.max(end);
        if self.reaches(sequence) {
            return Ok(());
        }
        let reader = BatchReader::new(Arc::clone(&log.storage), log.stream, self.next, self.end);
        let mut reader = reader.past(log.holes.clone());
        while !self.reaches(sequence) {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    self.add(&batch, subject);
                    reader.recycle(batch.bytes);
                    self.next = reader.position();
                }
                Err(error @ Error::Storage { .. }) => return Err(error),
                Ok(None) | Err(_) => self.next = self.end,
            }
        }
        Ok(())
    }

    fn add(&mut self, batch: &ScannedBatch, subject: SubjectNumber) {
        let time = BatchTime::of(&batch.header);
        let mut open: Option<Stretch> = None;
        // The first sequence of an adoption is that of a message, whose payload is in a run.
        for (location, record) in batch.facts().filter(|(_, record)| record.header.kind != KIND_ADOPT) {
            let mut stretch = open.take().unwrap_or(Stretch {
                first: record.sequence,
                location,
                lengths: u32::try_from(self.lengths.len()).unwrap_or(u32::MAX),
                count: 0,
            });
            stretch.count = stretch.count.saturating_add(1);
            let units = padded(record.header.length.get() as usize) as u64 / UNIT_BYTES;
            match u8::try_from(units) {
                Ok(units) if stretch.count < STRETCH_RECORDS => {
                    self.lengths.push(units);
                    open = Some(stretch);
                }
                _ => self.stretches.push(stretch),
            }
            each_entry((&record, location), time, |of| of == subject, &mut |NamedEntry { payload, .. }| {
                if matches!(payload, PayloadOf::Moved(_) | PayloadOf::Message(_)) {
                    self.others.push((record.sequence, payload));
                }
            });
        }
        self.stretches.extend(open);
        let count = u64::from(batch.header.count.get());
        self.next_sequence = Sequence(batch.header.base_sequence.get()).plus(count);
    }

    /// The payload of an entry of the subject. `None` if the segment does not have the fact that made the entry.
    pub(super) fn payload_of(&self, sequence: Sequence) -> Option<PayloadOf> {
        if let Ok(place) = self.others.binary_search_by_key(&sequence, |(other, _)| *other) {
            return self.others.get(place).map(|(_, payload)| *payload);
        }
        let behind = self.stretches.partition_point(|stretch| stretch.first <= sequence);
        let stretch = self.stretches.get(behind.checked_sub(1)?)?;
        let before = usize::try_from(sequence.0.checked_sub(stretch.first.0)?).ok()?;
        if before >= usize::from(stretch.count) {
            return None;
        }
        let from = stretch.lengths as usize;
        let units: u64 = self.lengths.get(from..from.checked_add(before)?)?.iter().map(|units| u64::from(*units)).sum();
        Some(PayloadOf::Fact(Location(stretch.location.0.saturating_add(units.saturating_mul(UNIT_BYTES))), None))
    }
}
