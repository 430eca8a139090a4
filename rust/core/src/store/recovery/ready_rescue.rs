//! Finds ready messages in the kept log if their rows in a dispatch run are damaged.
//!
//! The ready number of a message is its place among all messages that became ready in its subject, and the log has
//! these in order. The end of the log is known, so numbers are counted backwards from there. The result is trusted
//! only if it agrees with readable rows of the run, or reaches back to the first number of the subject.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::rescue::{KeptFacts, entries_from_log};
use crate::dispatch_log::{Posting, read_postings};
use crate::error::{Error, Result};
use crate::schedule_log::{Entry, EntryState};
use crate::storage::Storage;
use crate::store::apply::placement::BatchTime;
use crate::store::history::ready_facts::each_entry;
use crate::store::query::log_lookup::KeptLog;
use crate::store::state::State;
use crate::units::{DueKey, ReadyNumber, Sequence, SubjectNumber};

/// Rows to read on each side of a damaged row, to find readable ones.
const NEIGHBOUR_ROWS: u64 = 256;

/// Finds ready messages of a subject in the log, and uses them in place of their damaged rows. `known` are readable
/// rows of the same run. A wanted message that is not in the result was not found. Reads the whole kept log, which is
/// slow, but rarely needed.
///
/// # Errors
/// `Storage` if the log could not be read now; a later try may succeed.
pub(in crate::store) fn rescue_ready(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    subject: SubjectNumber,
    wanted: &[ReadyNumber],
    known: &[(ReadyNumber, Entry)],
) -> Result<Vec<(ReadyNumber, Entry)>> {
    let found = match find_again(storage, state, subject, wanted, known) {
        Err(error @ Error::Storage { .. }) => return Err(error),
        // The log is also damaged.
        Err(_) => Vec::new(),
        Ok(found) => found,
    };
    state.dispatch.patch(subject, &found);
    Ok(found)
}

/// As [`rescue_ready`], for one message with a damaged row.
///
/// # Errors
/// `Storage`.
pub(in crate::store) fn rescue_one_ready(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    subject: SubjectNumber,
    number: ReadyNumber,
) -> Result<Option<Entry>> {
    let Posting::InRun { run, .. } = state.dispatch.posting(subject, number) else { return Ok(None) };
    let first = ReadyNumber(number.0.saturating_sub(NEIGHBOUR_ROWS));
    let range = run.subjects().iter().find(|range| range.subject == subject);
    let first = range.map_or(number, |range| range.first.max(first));
    let end = range.map_or(number, |range| range.last.min(number.plus(NEIGHBOUR_ROWS))).next();
    let rows = read_postings(&run, subject, first, end.since(first))?;
    let found = rescue_ready(storage, state, subject, &[number], &rows.entries)?;
    Ok(found.first().map(|(_, entry)| *entry))
}

fn find_again(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    subject: SubjectNumber,
    wanted: &[ReadyNumber],
    known: &[(ReadyNumber, Entry)],
) -> Result<Vec<(ReadyNumber, Entry)>> {
    let keys = ready_keys(storage, state, subject)?;
    let next = state.dispatch.next_number(subject);
    let Some(first) = next.0.checked_sub(keys.len() as u64) else { return Ok(Vec::new()) };
    let key_of = |number: ReadyNumber| {
        let place = number.0.checked_sub(first).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| keys.get(place)).copied()
    };
    let mut agreeing = known.iter().filter_map(|(number, entry)| Some((key_of(*number)?, entry.key()))).peekable();
    let is_proven = first == 0 || agreeing.peek().is_some();
    if !is_proven || agreeing.any(|(counted, read)| counted != read) {
        return Ok(Vec::new());
    }
    let numbers: BTreeMap<ReadyNumber, DueKey> =
        wanted.iter().filter_map(|number| Some((*number, key_of(*number)?))).collect();
    let sequences: BTreeSet<Sequence> = numbers.values().map(|key| key.sequence).collect();
    let in_log: BTreeMap<Sequence, Entry> = entries_from_log(&KeptFacts::of(storage, state), &sequences)?
        .into_iter()
        .map(|entry| (entry.sequence(), entry))
        .collect();
    let mut found = Vec::new();
    for (number, key) in numbers {
        let entry = match in_log.get(&key.sequence) {
            Some(entry) => Some(*entry),
            None => copied_row(state, key)?,
        };
        found.extend(entry.map(|entry| (number, entry)));
    }
    Ok(found)
}

/// Returns the schedule row of a message, if readable: a message whose segment is gone was copied into a schedule
/// run.
fn copied_row(state: &mut State, key: DueKey) -> Result<Option<Entry>> {
    match state.schedule.row(key) {
        Ok(entry) => Ok(entry),
        Err(damage) if matches!(damage.error, Error::Storage { .. }) => Err(damage.error),
        Err(_) => Ok(None),
    }
}

/// Returns the keys of the messages that became ready in the subject, in order, as far as the kept log shows them.
fn ready_keys(storage: &Arc<dyn Storage>, state: &State, subject: SubjectNumber) -> Result<Vec<DueKey>> {
    let Some(start) = state.segments.first() else { return Ok(Vec::new()) };
    let mut reader = KeptLog::of(storage, state).from(start);
    let mut keys = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        if batch.behind_hole {
            // The log does not show which messages became ready in the hole, so earlier keys cannot be counted from
            // the end.
            keys.clear();
        }
        let time = BatchTime::of(&batch.header);
        for (location, record) in batch.facts() {
            each_entry((&record, location), time, |of| of == subject, &mut |named| {
                if named.is_ready && state.schedule.state(named.key.sequence) == EntryState::Dispatched {
                    keys.push(named.key);
                }
            });
        }
        reader.recycle(batch.bytes);
    }
    Ok(keys)
}
