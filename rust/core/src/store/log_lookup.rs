//! Finding facts in the log by their sequences, long after they were applied.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::SegmentStart;
use crate::error::Result;
use crate::message_log::{BatchReader, Stream};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::{RawRecord, Records};
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
