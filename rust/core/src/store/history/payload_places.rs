//! The payloads of entries that became ready by a later fact than the one that made them.
//!
//! Most were made a short time before, so the reader remembers the entries that it passed. Older ones are in a schedule
//! run, whose rows are sorted by due time as the ready facts are. All others are searched in the log, which is slow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ready_facts::{NamedEntry, PayloadOf};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::schedule_log::{Entry, RowLookups};
use crate::store::recovery::rescue::{KeptFacts, entries_from_log};
use crate::units::{DueKey, Location, Sequence, SubjectNumber};

/// So many entries are remembered, 64 bytes each. The oldest one is forgotten first.
const PASSED_MAX: usize = 1 << 17;

/// The payload of an entry: its sequence, its place, and the bytes of its body.
type Payload = (Sequence, Location, Option<u32>);

/// The entries that a reader passed, which became ready later or never.
#[derive(Debug, Default)]
pub(super) struct Passed {
    entries: BTreeMap<Sequence, Entry>,
    lookups: RowLookups,
    /// Where the reader began, if it did not look at the facts before that place. It does when an entry is missing.
    pub(super) begun: Option<Location>,
}

impl Passed {
    /// The entries of a reader that begins at this place: none.
    pub(super) fn from(begun: Location) -> Self {
        Self { begun: Some(begun), ..Self::default() }
    }

    /// Adds the entries of an earlier reader.
    pub(super) fn join(&mut self, before: Self) {
        self.entries.extend(before.entries);
        while self.entries.len() > PASSED_MAX {
            self.entries.pop_first();
        }
    }

    /// Notes an entry that waits.
    pub(super) fn note(&mut self, named: &NamedEntry, subject: SubjectNumber) {
        let (sequence, attempt) = (named.key.sequence, named.attempt);
        let entry = match named.payload {
            PayloadOf::Fact(location, size) => {
                Some(Entry::new(named.key, attempt, sequence, location, subject).with_size(size))
            }
            // The move may have come too late: its target stays.
            PayloadOf::Moved(target) => self.entries.get(&target.sequence).map(|entry| entry.moved_to(named.key)),
            PayloadOf::Entry | PayloadOf::Message(_) => None,
        };
        self.entries.extend(entry.map(|entry| (sequence, entry)));
        if self.entries.len() > PASSED_MAX {
            self.entries.pop_first();
        }
    }

    /// The entry that a fact made ready, with its payload, if the reader passed the fact that made the payload.
    pub(super) fn take(&mut self, named: &NamedEntry, subject: SubjectNumber) -> Option<Entry> {
        match named.payload {
            PayloadOf::Fact(location, size) => {
                Some(Entry::new(named.key, named.attempt, named.key.sequence, location, subject).with_size(size))
            }
            PayloadOf::Entry => self.entries.remove(&named.key.sequence),
            PayloadOf::Moved(target) => self.entries.get(&target.sequence).map(|entry| entry.moved_to(named.key)),
            PayloadOf::Message(_) => None,
        }
    }
}

/// Finds the entries whose facts the reader did not pass: first the rows of runs, then the facts in the log. An entry
/// that cannot be found has no place: it is voided when its payload is read.
///
/// # Errors
/// `Storage`.
pub(super) fn resolve(
    unresolved: &[(usize, NamedEntry)],
    found: &mut [Entry],
    passed: &mut Passed,
    kept: &KeptFacts,
) -> Result<()> {
    let mut missing: BTreeMap<Sequence, usize> = BTreeMap::new();
    for (place, named) in unresolved {
        let wanted = match named.payload {
            PayloadOf::Entry => Some(named.key),
            PayloadOf::Moved(target) => Some(target),
            PayloadOf::Fact(..) | PayloadOf::Message(_) => None,
        };
        let row = match wanted {
            Some(key) => row_of(&kept.runs, &mut passed.lookups, key)?,
            None => None,
        };
        match row.zip(found.get_mut(*place)) {
            Some((row, entry)) => *entry = with_payload(entry, (row.payload_sequence(), row.location(), row.size())),
            None => drop(missing.insert(named.key.sequence, *place)),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<Sequence> = missing.keys().copied().collect();
    let in_log = match entries_from_log(kept, &wanted) {
        Err(error @ Error::Storage { .. }) => return Err(error),
        // The log is damaged as well.
        Err(_) => Vec::new(),
        Ok(entries) => entries,
    };
    for made in in_log {
        if let Some(entry) = missing.get(&made.sequence()).and_then(|place| found.get_mut(*place)) {
            *entry = with_payload(entry, (made.payload_sequence(), made.location(), made.size()));
        }
    }
    Ok(())
}

fn with_payload(entry: &Entry, (sequence, location, size): Payload) -> Entry {
    Entry::new(entry.key(), entry.attempt(), sequence, location, entry.subject()).with_size(size)
}

/// The row with this key in any of these runs. A block that cannot be read has none.
fn row_of(runs: &[Arc<Run>], lookups: &mut RowLookups, key: DueKey) -> Result<Option<Entry>> {
    let covers = |run: &&Arc<Run>| run.first_sequence() <= key.sequence && key.sequence <= run.last_sequence();
    for run in runs.iter().filter(covers) {
        match lookups.find_unpatched(run, key) {
            Ok(Some(entry)) => return Ok(Some(entry)),
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}
