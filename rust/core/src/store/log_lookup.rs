//! Finding facts in the log by their sequences, long after they were applied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::SegmentStart;
use crate::error::Result;
use crate::message_log::{BatchReader, Stream};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::{RawRecord, Records, decode};
use crate::storage::Storage;
use crate::units::{Location, Sequence};

/// Reads the log, of which `segments` are kept up to `end`, and shows `visit` the record of each
/// wanted sequence that can be read, with its place. Segments without one are not read. Slow.
pub(super) fn visit_facts(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    segments: &[SegmentStart],
    end: Location,
    wanted: &BTreeSet<Sequence>,
    visit: &mut dyn FnMut(Location, &RawRecord<'_>),
) -> Result<()> {
    for (place, start) in segments.iter().enumerate() {
        let next = segments.get(place + 1).map_or(Sequence(u64::MAX), |next| next.position.next_sequence);
        let within: BTreeSet<Sequence> = wanted.range(start.position.next_sequence..next).copied().collect();
        let Some(last) = within.last().copied() else { continue };
        let mut reader = BatchReader::new(Arc::clone(storage), stream, start.position.end, end);
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
pub(super) fn moves(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    segments: &[SegmentStart],
    end: Location,
) -> Result<BTreeMap<Sequence, Sequence>> {
    let mut targets = BTreeMap::new();
    let Some(start) = segments.first() else { return Ok(targets) };
    let mut reader = BatchReader::new(Arc::clone(storage), stream, start.position.end, end);
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
pub(super) fn root_of(targets: &BTreeMap<Sequence, Sequence>, sequence: Sequence) -> Sequence {
    let mut root = sequence;
    // A move names what came before it, so this ends.
    while let Some(target) = targets.get(&root).filter(|target| **target < root) {
        root = *target;
    }
    root
}
