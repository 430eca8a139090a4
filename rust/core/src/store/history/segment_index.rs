//! Where the messages of a part of a segment are, by their sequences: 1.5 bytes a message, and up to 24 bytes where
//! records are longer than 2 KiB.

use std::sync::Arc;

use super::ready_facts::{NamedEntry, PayloadOf, each_entry};
use crate::error::{Error, Result};
use crate::message_log::{BatchReader, Hole, ScannedBatch};
use crate::record::adopt::KIND_ADOPT;
use crate::record::message::KIND_MESSAGE;
use crate::store::apply::placement::BatchTime;
use crate::store::query::log_lookup::KeptLog;
use crate::store::state::SegmentStart;
use crate::units::{Location, SegmentNumber, Sequence, SubjectNumber};

/// So many records share one place in full.
const STRETCH_RECORDS: u8 = 64;
/// Records begin at multiples of so many bytes.
const UNIT_BYTES: u64 = 8;
/// An index that is read reads on for so many bytes: its reader gets about as many with the first of them.
const AHEAD_BYTES: u64 = 256 << 10;
/// A part of a segment ends behind the batch that fills so many bytes.
const PART_BYTES: u64 = 4 << 20;

/// Records of a segment with consecutive sequences, also of more than one batch.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    first: Sequence,
    /// The place of the first one.
    location: Location,
    /// Where their distances begin.
    distances: u32,
    count: u8,
}

/// Where the messages of a part of a segment are, as far as it was read.
#[derive(Debug)]
pub(super) struct SegmentIndex {
    segment: SegmentNumber,
    holes: Vec<Hole>,
    stretches: Vec<Stretch>,
    /// From each record of a stretch but the last to the next one, in units of eight bytes.
    distances: Vec<u8>,
    /// The entries of the subject whose payload is that of another one, by ascending sequence.
    others: Vec<(Sequence, PayloadOf)>,
    /// Where the part begins, and with which sequence.
    begin: (Location, Sequence),
    /// Where the next part begins, and with which sequence, once that is known.
    behind: Option<(Location, Sequence)>,
    /// All facts of the part before this place are in the index.
    next: Location,
    next_sequence: Sequence,
    /// The end of the segment, as far as it is known.
    end: Location,
    /// The last record that is in the index.
    last: Option<(Sequence, Location)>,
    /// When it was used last, for its user.
    pub(super) used: u64,
}

impl SegmentIndex {
    /// An empty index of the first part of a segment.
    pub(super) fn of(log: &KeptLog, start: &SegmentStart) -> Self {
        let holes = log.holes.in_segment(start.segment).to_vec();
        Self::from(start.segment, holes, (start.position.end, start.position.next_sequence))
    }

    fn from(segment: SegmentNumber, holes: Vec<Hole>, begin: (Location, Sequence)) -> Self {
        Self {
            segment,
            holes,
            stretches: Vec::new(),
            distances: Vec::new(),
            others: Vec::new(),
            begin,
            behind: None,
            next: begin.0,
            next_sequence: begin.1,
            end: begin.0,
            last: None,
            used: 0,
        }
    }

    /// An empty index of the part behind this one, if the sequence is not in this one.
    pub(super) fn following(&self, sequence: Sequence) -> Option<Self> {
        let begin = self.behind.filter(|(_, first)| *first <= sequence)?;
        Some(Self::from(self.segment, self.holes.clone(), begin))
    }

    /// Forgets what was read. It is read again where it is needed.
    pub(super) fn forget(&mut self) {
        let empty = Self::from(self.segment, std::mem::take(&mut self.holes), self.begin);
        *self = Self { behind: self.behind, end: self.end, ..empty };
    }

    /// The sequence that the part begins with.
    pub(super) fn first(&self) -> Sequence {
        self.begin.1
    }

    /// False if the segment was removed since, or batches of it became a hole.
    pub(super) fn is_current(&self, log: &KeptLog) -> bool {
        let is_kept = log.segments.binary_search_by_key(&self.segment, |start| start.segment).is_ok();
        is_kept && self.holes == log.holes.in_segment(self.segment)
    }

    pub(super) fn bytes(&self) -> usize {
        let (stretches, others) = (size_of::<Stretch>(), size_of::<(Sequence, PayloadOf)>());
        let bytes = self.stretches.capacity().saturating_mul(stretches).saturating_add(self.distances.capacity());
        bytes.saturating_add(self.others.capacity().saturating_mul(others))
    }

    /// True if the index has the place of this sequence, or knows that the part has none.
    pub(super) fn reaches(&self, sequence: Sequence) -> bool {
        sequence < self.next_sequence || self.is_whole()
    }

    /// True if the index has all of the part, as far as it is known.
    fn is_whole(&self) -> bool {
        self.next >= self.behind.map_or(self.end, |(place, _)| place)
    }

    /// Reads on until the index reaches a sequence, and a little further. It stops at batches that cannot be read.
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
        let ahead = Location(self.next.0.saturating_add(AHEAD_BYTES));
        while !self.reaches(sequence) || (self.next < ahead && !self.is_whole()) {
            match reader.next_batch() {
                Ok(Some(batch)) => {
                    self.add(&batch, subject);
                    reader.recycle(batch.bytes);
                }
                Err(error @ Error::Storage { .. }) => return Err(error),
                Ok(None) | Err(_) => self.next = self.end,
            }
        }
        Ok(())
    }

    /// True if this batch is the next one with facts in the part.
    pub(super) fn goes_on_with(&self, batch: &ScannedBatch) -> bool {
        let is_next = self.next_sequence.0 == batch.header.base_sequence.get() && self.next <= batch.start;
        is_next
            && self.behind.is_none_or(|(place, _)| batch.start < place)
            && self.begin.0.segment() == batch.start.segment()
    }

    /// Adds the batch behind those that are in the index.
    pub(super) fn add(&mut self, batch: &ScannedBatch, subject: SubjectNumber) {
        let time = BatchTime::of(&batch.header);
        // The first sequence of an adoption is that of a message, whose payload is in a run.
        for (location, record) in batch.facts().filter(|(_, record)| record.header.kind != KIND_ADOPT) {
            self.add_record(record.sequence, location);
            if record.header.kind == KIND_MESSAGE {
                continue;
            }
            each_entry((&record, location), time, |of| of == subject, &mut |NamedEntry { payload, .. }| {
                if matches!(payload, PayloadOf::Moved(_) | PayloadOf::Message(_)) {
                    self.others.push((record.sequence, payload));
                }
            });
        }
        self.next = batch.end().location;
        self.next_sequence = batch.header.next_sequence();
        if self.behind.is_none() && self.next.0.saturating_sub(self.begin.0.0) >= PART_BYTES {
            self.behind = Some((self.next, self.next_sequence));
        }
        if self.behind.is_some_and(|(place, _)| place <= self.next) {
            self.stretches.shrink_to_fit();
            self.distances.shrink_to_fit();
            self.others.shrink_to_fit();
        }
    }

    fn add_record(&mut self, sequence: Sequence, location: Location) {
        let last = self.last.replace((sequence, location)).filter(|(last, _)| last.next() == sequence);
        let units = last.and_then(|(_, last)| u8::try_from(location.0.saturating_sub(last.0) / UNIT_BYTES).ok());
        let stretch = self.stretches.last_mut().filter(|stretch| stretch.count < STRETCH_RECORDS);
        if let (Some(stretch), Some(units)) = (stretch, units) {
            stretch.count = stretch.count.saturating_add(1);
            self.distances.push(units);
        } else {
            let distances = u32::try_from(self.distances.len()).unwrap_or(u32::MAX);
            self.stretches.push(Stretch { first: sequence, location, distances, count: 1 });
        }
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
        let from = stretch.distances as usize;
        let units: u64 =
            self.distances.get(from..from.checked_add(before)?)?.iter().map(|units| u64::from(*units)).sum();
        Some(PayloadOf::Fact(Location(stretch.location.0.saturating_add(units.saturating_mul(UNIT_BYTES))), None))
    }
}
