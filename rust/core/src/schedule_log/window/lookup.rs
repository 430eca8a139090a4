//! Looks up rows of runs by their keys. A sorted list of keys takes one pass.

use std::collections::HashMap;

use super::entry_of;
use crate::run::{DamagedBlock, Patches, Run, ScanBuffer, ScheduleRow};
use crate::schedule_log::entry::Entry;
use crate::units::{DueKey, RunNumber};

/// An entry, or the block of a run that cannot be read.
pub(crate) type Found = std::result::Result<Option<Entry>, Box<DamagedBlock>>;

/// Runs whose last group of blocks is kept decoded, about 12 KiB for each.
const RUNS_MAX: usize = 256;

/// The group of blocks of one run that was read last.
#[derive(Debug, Default)]
struct Lookup {
    group: Option<u32>,
    entries: Vec<Entry>,
    /// The place after the last found entry, where the next one of a sorted list is likely to be.
    likely: usize,
    used: u64,
}

/// The groups of blocks that were read last, by run.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    runs: HashMap<RunNumber, Lookup>,
    uses: u64,
    buffer: ScanBuffer<ScheduleRow>,
    rows: Vec<ScheduleRow>,
}

impl Lookups {
    /// The entry with this key in a run, whatever its state.
    pub(in crate::schedule_log) fn find(&mut self, run: &Run, patches: &Patches<ScheduleRow>, key: DueKey) -> Found {
        self.uses = self.uses.saturating_add(1);
        if self.runs.len() >= RUNS_MAX && !self.runs.contains_key(&run.number()) {
            let oldest = self.runs.iter().min_by_key(|(_, lookup)| lookup.used).map(|(number, _)| *number);
            oldest.and_then(|number| self.runs.remove(&number));
        }
        let lookup = self.runs.entry(run.number()).or_default();
        lookup.used = self.uses;
        if lookup.group != Some(run.group(key.into())) {
            lookup.group = None;
            let group = run.read_group(key.into(), Some(patches), &mut self.buffer, &mut self.rows)?;
            lookup.entries.clear();
            lookup.entries.extend(self.rows.iter().map(entry_of));
            lookup.group = Some(group);
        }
        let is_likely = lookup.entries.get(lookup.likely).is_some_and(|entry| entry.key() == key);
        let found = if is_likely {
            Some(lookup.likely)
        } else {
            lookup.entries.binary_search_by(|entry| entry.key().cmp(&key)).ok()
        };
        lookup.likely = found.map_or(lookup.likely, |at| at.saturating_add(1));
        Ok(found.and_then(|at| lookup.entries.get(at)).copied())
    }

    /// Like [`Self::find`], for a run whose blocks are read as they are.
    pub(crate) fn find_unpatched(&mut self, run: &Run, key: DueKey) -> Found {
        self.find(run, &Patches::default(), key)
    }

    /// Forgets the blocks that were read of a run.
    pub(in crate::schedule_log) fn remove(&mut self, number: RunNumber) {
        self.runs.remove(&number);
    }

    /// Bytes of memory.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        self.runs.values().map(|lookup| lookup.entries.capacity().saturating_mul(size_of::<Entry>())).sum()
    }
}
