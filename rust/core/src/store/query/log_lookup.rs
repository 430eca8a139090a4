//! Finds facts in the log by their sequences, long after they were applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::Result;
use crate::message_log::{BatchReader, Holes, Stream};
use crate::record::{RawRecord, decode};
use crate::storage::Storage;
use crate::store::state::{SegmentStart, State};
use crate::units::{Location, Sequence};

/// The kept log, up to a position.
#[derive(Clone)]
pub(in crate::store) struct KeptLog {
    pub(in crate::store) storage: Arc<dyn Storage>,
    pub(in crate::store) stream: Stream,
    pub(in crate::store) segments: Vec<SegmentStart>,
    pub(in crate::store) holes: Holes,
    pub(in crate::store) end: Location,
}

impl KeptLog {
    /// The kept log of a state, up to the applied position.
    pub(in crate::store) fn of(storage: &Arc<dyn Storage>, state: &State) -> Self {
        Self {
            storage: Arc::clone(storage),
            stream: state.stream,
            segments: state.segments.clone(),
            holes: state.holes.clone(),
            end: state.position.end,
        }
    }

    /// Reads its batches from a segment on.
    pub(in crate::store) fn from(&self, start: &SegmentStart) -> BatchReader {
        let reader = BatchReader::new(Arc::clone(&self.storage), self.stream, start.position.end, self.end);
        reader.past(self.holes.clone())
    }
}

/// Reads the kept log, and calls `visit` with the location and the record of each wanted sequence that can be read.
/// Segments without a wanted sequence are not read. Slow.
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
            for (location, record) in batch.facts().filter(|(_, record)| within.contains(&record.sequence)) {
                visit(location, &record);
            }
            reader.recycle(batch.bytes);
        }
    }
    Ok(())
}

/// Reads the whole kept log. Returns the sequence that each move names as its target, by the move's own sequence,
/// whether the move was done or not. Slow.
pub(in crate::store) fn moves(log: &KeptLog) -> Result<BTreeMap<Sequence, Sequence>> {
    let mut targets = BTreeMap::new();
    let Some(start) = log.segments.first() else { return Ok(targets) };
    let mut reader = log.from(start);
    while let Some(batch) = reader.next_batch()? {
        for (_, record) in batch.facts() {
            if let Some(moved) = decode(&record).and_then(|fact| fact.as_move()) {
                targets.insert(record.sequence, moved.target.sequence);
            }
        }
        reader.recycle(batch.bytes);
    }
    Ok(targets)
}

/// Follows moves back from a sequence to the first sequence that is not a known move.
pub(in crate::store) fn root_of(targets: &BTreeMap<Sequence, Sequence>, sequence: Sequence) -> Sequence {
    let mut root = sequence;
    // A target is always lower than its move, so this ends.
    while let Some(target) = targets.get(&root).filter(|target| **target < root) {
        root = *target;
    }
    root
}
