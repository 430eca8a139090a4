//! Finding facts in the log by their sequences, long after they were applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::Result;
use crate::message_log::{BatchReader, Holes, Stream};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::{RawRecord, Records, decode};
use crate::storage::Storage;
use crate::store::state::{SegmentStart, State};
use crate::units::{Location, Sequence};

/// The log that is kept, up to somewhere.
#[derive(Clone)]
pub(in crate::store) struct KeptLog {
    pub(in crate::store) storage: Arc<dyn Storage>,
    pub(in crate::store) stream: Stream,
    pub(in crate::store) segments: Vec<SegmentStart>,
    pub(in crate::store) holes: Holes,
    pub(in crate::store) end: Location,
}

impl KeptLog {
    /// That of a state, up to what was applied.
    pub(in crate::store) fn of(storage: &Arc<dyn Storage>, state: &State) -> Self {
        Self {
            storage: Arc::clone(storage),
            stream: state.stream,
            segments: state.segments.clone(),
            holes: state.holes.clone(),
            end: state.position.end,
        }
    }

    /// Its batches from a segment on.
    pub(in crate::store) fn from(&self, start: &SegmentStart) -> BatchReader {
        let reader = BatchReader::new(Arc::clone(&self.storage), self.stream, start.position.end, self.end);
        reader.past(self.holes.clone())
    }
}

/// Reads the log that is kept, and shows `visit` the record of each
/// wanted sequence that can be read, with its place. Segments without one are not read. Slow.
pub(in crate::store) fn visit_facts(
    log: &KeptLog,
    wanted: &BTreeSet<Sequence>,
    visit: &mut dyn FnMut(Location, &RawRecord<'_>),
) -> Result<()> {
    for (place, start) in log.segments.iter().enumerate() {
        let next = log.segments.get(place + 1).map_or(Sequence(u64::MAX), |next| next.position.next_sequence);
        let within: BTreeSet<Sequence> = wanted.range(start.position.next_sequence..next).copied().collect();
        let Some(last) = within.last().copied() else { continue };
        let mut reader = log.from(start);
        while let Some(batch) = reader.next_batch()? {
            let base = Sequence(batch.header.base_sequence.get());
            if base > last {
                break;
            }
            let records = batch.start.0.saturating_add(BATCH_HEADER_BYTES as u64);
            for (at, record) in Records::new(batch.records(), base).flatten() {
                if within.contains(&record.sequence) {
                    visit(Location(records.saturating_add(at as u64)), &record);
                }
            }
            reader.recycle(batch.bytes);
        }
    }
    Ok(())
}

/// Reads all of the log that is kept: from which sequence to which each move goes, done or not. Slow.
pub(in crate::store) fn moves(log: &KeptLog) -> Result<BTreeMap<Sequence, Sequence>> {
    let mut targets = BTreeMap::new();
    let Some(start) = log.segments.first() else { return Ok(targets) };
    let mut reader = log.from(start);
    while let Some(batch) = reader.next_batch()? {
        for (_, record) in Records::new(batch.records(), Sequence(batch.header.base_sequence.get())).flatten() {
            if let Some(moved) = decode(&record).and_then(|fact| fact.as_move()) {
                targets.insert(record.sequence, moved.target.sequence);
            }
        }
        reader.recycle(batch.bytes);
    }
    Ok(targets)
}

/// Where a row of moves begins: the first in it that is no move, or one that is not known.
pub(in crate::store) fn root_of(targets: &BTreeMap<Sequence, Sequence>, sequence: Sequence) -> Sequence {
    let mut root = sequence;
    // A move names what came before it, so this ends.
    while let Some(target) = targets.get(&root).filter(|target| **target < root) {
        root = *target;
    }
    root
}
