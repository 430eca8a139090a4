//! A block of a schedule run cannot be read: its entries come from the log where that is still
//! kept, and what is not found there is given up by name. All others flow.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::State;
use crate::error::{Error, Result};
use crate::message_log::BatchReader;
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::record::{Fact, Records, decode};
use crate::run::{DamagedBlock, Row, RowKey, RowScan, Run, ScanBuffer, ScheduleRow};
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::units::{DueKey, Location, RunNumber, Sequence};

/// What became of the entries of a damaged block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescue {
    /// The run.
    pub run: RunNumber,
    /// The block in it.
    pub block: u32,
    /// What is wrong with it.
    pub error: Error,
    /// Entries found again in the log.
    pub found: u64,
    /// Pending entries that are nowhere to be found.
    pub lost: Vec<Sequence>,
}

/// Finds the entries of a damaged block again and lets them stand in for it. Reads the whole run
/// and the log of its window: slow, and rare.
///
/// # Errors
/// Those of the storage, and `Corrupt` where the log itself is damaged.
pub(super) fn rescue(storage: &Arc<dyn Storage>, state: &mut State, damage: &DamagedBlock) -> Result<Rescue> {
    if matches!(damage.error, Error::Storage { .. }) {
        return Err(damage.error.clone());
    }
    let run = state.schedule.windows().iter().filter_map(|window| window.run()).find(|run| run.number() == damage.run);
    let Some(run) = run.cloned() else { return Err(damage.error.clone()) };
    let missing: BTreeSet<Sequence> = state.schedule.unreadable(damage.run).into_iter().collect();
    let entries = entries_from_log(storage, state, &missing)?;
    let (from, to) = bounds(&run, damage.block);
    let within =
        |key: DueKey| from.is_none_or(|from| RowKey::from(key) > from) && to.is_none_or(|to| RowKey::from(key) < to);
    let found: Vec<Entry> = entries.iter().filter(|entry| within(entry.key())).copied().collect();
    let in_log: BTreeSet<Sequence> = entries.iter().map(Entry::sequence).collect();
    let lost = missing.difference(&in_log).copied().collect();
    state.schedule.patch(damage.run, damage.block, &found);
    Ok(Rescue { run: damage.run, block: damage.block, error: damage.error.clone(), found: found.len() as u64, lost })
}

/// The keys of the nearest readable rows before and behind a block.
fn bounds(run: &Run, block: u32) -> (Option<RowKey>, Option<RowKey>) {
    let mut buffer = ScanBuffer::<ScheduleRow>::default();
    let mut before = None;
    for earlier in (0..block).rev() {
        let mut scan = RowScan::from_block(run, earlier, None, &mut buffer);
        if let Ok(Some(row)) = scan.peek() {
            before = last_key_before(&mut scan, block).or(Some(row.key()));
            break;
        }
    }
    let mut scan = RowScan::from_block(run, block.saturating_add(1), None, &mut buffer);
    loop {
        match scan.peek() {
            Ok(row) => return (before, row.map(|row| row.key())),
            Err(_) => scan.skip_block(),
        }
    }
}

fn last_key_before(scan: &mut RowScan<'_, ScheduleRow>, block: u32) -> Option<RowKey> {
    let mut last = None;
    while let Ok(Some(row)) = scan.peek() {
        if scan.block() >= block {
            break;
        }
        last = Some(row.key());
        scan.advance();
    }
    last
}

/// The entries that messages of these sequences made, read from the log where it is kept.
pub(super) fn entries_from_log(
    storage: &Arc<dyn Storage>,
    state: &State,
    wanted: &BTreeSet<Sequence>,
) -> Result<Vec<Entry>> {
    let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
    let starts = state.segments.iter();
    let before = starts.clone().take_while(|start| start.position.next_sequence <= *first).last();
    let Some(start) = before.or_else(|| starts.clone().next()) else { return Ok(Vec::new()) };
    let mut reader = BatchReader::new(Arc::clone(storage), state.stream, start.position.end, state.position.end);
    let mut entries = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        let base = Sequence(batch.header.base_sequence.get());
        if base > *last {
            break;
        }
        let records = batch.start.0.saturating_add(BATCH_HEADER_BYTES as u64);
        for (at, record) in Records::new(batch.records(), base).flatten() {
            if !wanted.contains(&record.sequence) {
                continue;
            }
            if let Some(Fact::Message(message)) = decode(&record) {
                let key = DueKey { due: message.due, sequence: record.sequence };
                let location = Location(records.saturating_add(at as u64));
                entries.push(Entry::new(key, 1, record.sequence, location, message.subject));
            }
        }
        reader.recycle(batch.bytes);
    }
    Ok(entries)
}
