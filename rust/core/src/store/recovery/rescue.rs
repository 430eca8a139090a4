//! Finds the entries of a damaged block of a schedule run in the log, as far as the log still has them. Entries that
//! are not found are reported as lost, by sequence. All other entries stay available.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::record::retry::Retry;
use crate::record::{Fact, decode};
use crate::run::{DamagedBlock, Row, RowKey, RowScan, Run, RunKind, ScanBuffer, ScheduleRow};
use crate::schedule_log::{Entry, EntryState};
use crate::storage::Storage;
use crate::store::query::log_lookup::{KeptLog, moves, root_of, visit_facts};
use crate::store::state::State;
use crate::units::{DueKey, Location, RunNumber, Sequence};

/// The result of the rescue of a damaged block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescue {
    /// The run.
    pub run: RunNumber,
    /// The block within the run.
    pub block: u32,
    /// What is wrong with the block.
    pub error: Error,
    /// The number of entries found again in the log.
    pub found: u64,
    /// Pending entries that were not found.
    pub lost: Vec<Sequence>,
}

/// Finds the entries of a damaged block and uses them in place of the block. Reads the whole run and the log of its
/// window, which is slow, but rarely needed.
///
/// # Errors
/// The errors of the storage, and `Corrupt` if the log itself is damaged.
pub(in crate::store) fn rescue(storage: &Arc<dyn Storage>, state: &mut State, damage: &DamagedBlock) -> Result<Rescue> {
    if matches!(damage.error, Error::Storage { .. }) {
        return Err(damage.error.clone());
    }
    let run = state.schedule.windows().iter().filter_map(|window| window.run()).find(|run| run.number() == damage.run);
    let Some(run) = run.cloned() else { return Err(damage.error.clone()) };
    let missing: BTreeSet<Sequence> = state.schedule.unreadable(damage.run)?.into_iter().collect();
    let entries = entries_from_log(&KeptFacts::of(storage, state), &missing)?;
    let (from, to) = bounds(&run, damage.block)?;
    let within =
        |key: DueKey| from.is_none_or(|from| RowKey::from(key) > from) && to.is_none_or(|to| RowKey::from(key) < to);
    let found: Vec<Entry> = entries.iter().filter(|entry| within(entry.key())).copied().collect();
    let in_log: BTreeSet<Sequence> = entries.iter().map(Entry::sequence).collect();
    // A moved entry is not counted here. If it is lost, the reader of its new key finds that out.
    let is_pending = |sequence: &Sequence| state.schedule.state(*sequence) == EntryState::Pending;
    let lost = missing.difference(&in_log).copied().filter(is_pending).collect();
    state.schedule.patch(damage.run, damage.block, &found);
    Ok(Rescue { run: damage.run, block: damage.block, error: damage.error.clone(), found: found.len() as u64, lost })
}

/// Returns the next row, or `Damaged`; an error if the block could not be read now.
fn peek(scan: &mut RowScan<'_, ScheduleRow>) -> Result<std::result::Result<Option<ScheduleRow>, Damaged>> {
    match scan.peek() {
        Ok(row) => Ok(Ok(row)),
        Err(damage) if matches!(damage.error, Error::Storage { .. }) => Err(damage.error),
        Err(_) => Ok(Err(Damaged)),
    }
}

/// The current block of a scan is damaged.
struct Damaged;

/// The keys of the nearest readable rows before and after a block.
fn bounds(run: &Run, block: u32) -> Result<(Option<RowKey>, Option<RowKey>)> {
    let mut buffer = ScanBuffer::<ScheduleRow>::default();
    let mut before = None;
    for earlier in (0..block).rev() {
        let mut scan = RowScan::from_block(run, earlier, None, &mut buffer);
        while let Ok(Some(row)) = peek(&mut scan)?
            && scan.block() == earlier
        {
            before = Some(row.key());
            scan.advance();
        }
        if before.is_some() {
            break;
        }
    }
    let mut scan = RowScan::from_block(run, block.saturating_add(1), None, &mut buffer);
    loop {
        match peek(&mut scan)? {
            Ok(row) => return Ok((before, row.map(|row| row.key()))),
            Err(Damaged) => scan.skip_block(),
        }
    }
}

/// The log and the schedule runs that are kept: all that may still have a fact, or the row that was made of it.
#[derive(Clone)]
pub(in crate::store) struct KeptFacts {
    pub(in crate::store) log: KeptLog,
    /// The newest first.
    pub(in crate::store) runs: Vec<Arc<Run>>,
}

impl std::fmt::Debug for KeptFacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KeptFacts").field("runs", &self.runs.len()).finish_non_exhaustive()
    }
}

impl KeptFacts {
    /// The facts that a state keeps.
    pub(in crate::store) fn of(storage: &Arc<dyn Storage>, state: &State) -> Self {
        let runs = state.runs.values().rev().map(|known| &known.run);
        let runs = runs.filter(|run| run.kind() == RunKind::Schedule).cloned().collect();
        Self { log: KeptLog::of(storage, state), runs }
    }
}

/// Reads the entries that the facts of these sequences made, as far as the log is kept: those of messages, of retries
/// and redrives, which point to the payload of an earlier message, and of moves.
pub(in crate::store) fn entries_from_log(kept: &KeptFacts, wanted: &BTreeSet<Sequence>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut again: Vec<(Sequence, Entry)> = Vec::new();
    let mut moved: Vec<Entry> = Vec::new();
    visit_facts(&kept.log, wanted, &mut |location, record| {
        let entry = |due, attempt, payload, location, subject| {
            Entry::new(DueKey { due, sequence: record.sequence }, attempt, payload, location, subject)
        };
        match decode(record) {
            Some(Fact::Message(message)) => {
                let size = u32::try_from(message.body.len()).ok();
                let entry = entry(message.due, 1, record.sequence, location, message.subject);
                entries.push(entry.with_size(size));
            }
            Some(Fact::Retry(Retry { due, attempt, target, payload_sequence, .. })) => {
                let attempt = u16::try_from(attempt).unwrap_or(u16::MAX);
                again.push((payload_sequence, entry(due, attempt, payload_sequence, Location::NOWHERE, target)));
            }
            Some(Fact::Redrive(redrive)) => {
                let payload = redrive.payload_sequence;
                again.push((payload, entry(redrive.due, 1, payload, Location::NOWHERE, redrive.target)));
            }
            fact => {
                let one = fact.and_then(|fact| fact.as_move());
                moved.extend(one.map(|one| entry(one.due, 1, record.sequence, Location::NOWHERE, one.subject)));
            }
        }
    })?;
    let payloads: BTreeSet<Sequence> = again.iter().map(|(payload, _)| *payload).collect();
    let mut places: BTreeMap<Sequence, Location> = BTreeMap::new();
    visit_facts(&kept.log, &payloads, &mut |location, record| {
        if matches!(decode(record), Some(Fact::Message(_))) {
            places.insert(record.sequence, location);
        }
    })?;
    for (payload, entry) in again {
        let place = match places.get(&payload) {
            Some(place) => Some(*place),
            None => copied_row(&kept.runs, payload)?.map(|row| row.location()),
        };
        entries.extend(place.map(|place| entry.with_location(place)));
    }
    entries.extend(moved_from_log(kept, &moved)?);
    entries.sort_unstable_by_key(Entry::sequence);
    Ok(entries)
}

/// Returns the entries that moves made, each with the payload of the message that was moved first.
fn moved_from_log(kept: &KeptFacts, moved: &[Entry]) -> Result<Vec<Entry>> {
    if moved.is_empty() {
        return Ok(Vec::new());
    }
    let targets = moves(&kept.log)?;
    let roots: Vec<(Sequence, Entry)> =
        moved.iter().map(|entry| (root_of(&targets, entry.sequence()), *entry)).collect();
    // A root is never a move that the log has, so this recursion ends here.
    let wanted = roots.iter().zip(moved).filter(|((root, _), entry)| *root != entry.sequence());
    let wanted: BTreeSet<Sequence> = wanted.map(|((root, _), _)| *root).collect();
    let in_log: BTreeMap<Sequence, Entry> =
        entries_from_log(kept, &wanted)?.into_iter().map(|entry| (entry.sequence(), entry)).collect();
    let mut found = Vec::new();
    for (root, entry) in roots {
        let origin = match in_log.get(&root) {
            Some(origin) => Some(*origin),
            None => copied_row(&kept.runs, root)?,
        };
        found.extend(origin.map(|origin| entry.with_payload_of(Some(origin))));
    }
    Ok(found)
}

/// Returns the row of this sequence from any run. The row of a message says where its payload was copied to.
fn copied_row(runs: &[Arc<Run>], sequence: Sequence) -> Result<Option<Entry>> {
    for run in runs.iter().filter(|run| run.first_sequence() <= sequence && sequence <= run.last_sequence()) {
        let mut buffer = ScanBuffer::<ScheduleRow>::default();
        let mut scan = RowScan::from_block(run, 0, None, &mut buffer);
        loop {
            match peek(&mut scan)? {
                Ok(Some(row)) if row.key.sequence == sequence => {
                    let entry = Entry::new(row.key, row.attempt, row.payload_sequence, row.location, row.subject);
                    return Ok(Some(entry.with_size(row.size)));
                }
                Ok(Some(_)) => scan.advance(),
                Ok(None) => break,
                Err(Damaged) => scan.skip_block(),
            }
        }
    }
    Ok(None)
}
