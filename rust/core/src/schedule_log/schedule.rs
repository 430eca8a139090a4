//! All that is pending, and what became of the rest.

use std::collections::HashMap;
use std::sync::Arc;

use super::bits::{EntryState, TwoBits};
use super::due_index::DueIndex;
use super::entry::{Entry, sort_by_key};
use super::part::FrozenPart;
use super::recent::Recent;
use super::window::{Body, Window, entry_of, row_of};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::run::{DamagedBlock, Run, ScanBuffer, ScheduleRow};
use crate::units::{DueKey, Millis, RunNumber, Sequence};

/// A pending entry, or the block of a run that cannot be read.
type Found = std::result::Result<Option<Entry>, Box<DamagedBlock>>;

/// Runs whose last group of blocks is kept decoded, about 12 KiB each.
const LOOKUPS_MAX: usize = 256;

/// The group of blocks of one run that was read last, so that a sorted list of keys is one pass.
#[derive(Debug, Default)]
struct Lookup {
    group: Option<u32>,
    entries: Vec<Entry>,
    /// The place after the one found last, where the next of a sorted list is likely to be.
    likely: usize,
    used: u64,
}

/// Windows, oldest first, and the open one that takes what is new.
#[derive(Debug)]
pub struct Schedule {
    pub(super) windows: Vec<Window>,
    pub(super) open: Recent,
    pub(super) open_index: DueIndex,
    pub(super) open_bits: TwoBits,
    open_pending: u64,
    pending: u64,
    lookups: HashMap<RunNumber, Lookup>,
    uses: u64,
    buffer: ScanBuffer<ScheduleRow>,
    rows: Vec<ScheduleRow>,
}

impl Schedule {
    /// An empty schedule whose next sequence is `next`. `now` is where due times are expected.
    pub fn new(next: Sequence, now: Millis) -> Self {
        Self::restored(Vec::new(), next, now)
    }

    /// A schedule as a checkpoint has it: its windows in order, each where the one before ends,
    /// and the sequence that comes next.
    pub fn restored(windows: Vec<Window>, next: Sequence, now: Millis) -> Self {
        debug_assert!(windows.windows(2).all(|pair| matches!(pair, [left, right] if left.end() <= right.first())));
        debug_assert!(windows.last().is_none_or(|last| last.end() <= next));
        let pending = windows.iter().map(Window::pending).fold(0, u64::saturating_add);
        Self {
            windows,
            open: Recent::default(),
            open_index: DueIndex::new(now),
            open_bits: TwoBits::new(next),
            open_pending: 0,
            pending,
            lookups: HashMap::new(),
            uses: 0,
            buffer: ScanBuffer::default(),
            rows: Vec::new(),
        }
    }

    /// The sequence that comes next.
    pub fn next_sequence(&self) -> Sequence {
        self.open_bits.end()
    }

    /// How many entries are pending.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Takes in a pending entry. Its sequence is [`Self::next_sequence`] or above; what is left
    /// out becomes `Nothing`.
    #[inline]
    pub fn insert(&mut self, entry: Entry) {
        if !self.reach(entry.sequence()) {
            return;
        }
        let Some(place) = self.open.push(entry) else { return };
        self.open_index.insert(entry.due(), place);
        self.open_bits.push(EntryState::Pending);
        self.open_pending = self.open_pending.saturating_add(1);
        self.pending = self.pending.saturating_add(1);
    }

    /// Takes in a fact that makes no entry.
    #[inline]
    pub fn skip(&mut self, sequence: Sequence) {
        if self.reach(sequence) {
            self.open_bits.push(EntryState::Nothing);
        }
    }

    /// Takes in an entry that was ready by its own fact and so never waited.
    #[inline]
    pub fn note_dispatched_at_once(&mut self, sequence: Sequence) {
        if self.reach(sequence) {
            let fault = is_on(Planted::AtOnceLeftPending);
            self.open_bits.push(if fault { EntryState::Pending } else { EntryState::Dispatched });
        }
    }

    /// What became of a sequence; `Nothing` for one that is not known, or not any more.
    #[inline]
    pub fn state(&self, sequence: Sequence) -> EntryState {
        if sequence >= self.open_bits.first() {
            return self.open_bits.get(sequence);
        }
        self.window_of(sequence).map_or(EntryState::Nothing, |window| window.bits.get(sequence))
    }

    /// Changes what became of a sequence and returns what it was; nothing happens to a sequence
    /// that is not known.
    pub fn set(&mut self, sequence: Sequence, state: EntryState) -> EntryState {
        let (bits, pending) = if sequence >= self.open_bits.first() {
            (&mut self.open_bits, &mut self.open_pending)
        } else {
            let Some(at) = self.window_at(sequence) else { return EntryState::Nothing };
            let Some(window) = self.windows.get_mut(at) else { return EntryState::Nothing };
            if window.is_in_memory() && is_on(Planted::DecidedMeanwhileLost) {
                return window.bits.get(sequence);
            }
            (&mut window.bits, &mut window.pending)
        };
        if !(bits.first()..bits.end()).contains(&sequence) {
            return EntryState::Nothing;
        }
        let before = bits.set(sequence, state);
        for count in [pending, &mut self.pending] {
            if before == EntryState::Pending {
                *count = count.saturating_sub(1);
            }
            if state == EntryState::Pending {
                *count = count.saturating_add(1);
            }
        }
        before
    }

    /// The pending entry with this key, with its payload's location as of now; `None` where there
    /// is none. Asking in the order of keys reads each block of a run once.
    ///
    /// # Errors
    /// The block of a run that cannot be read; see [`Self::patch`].
    pub fn find(&mut self, key: DueKey) -> Found {
        if self.state(key.sequence) == EntryState::Pending { self.row(key) } else { Ok(None) }
    }

    /// As [`Self::find`], whatever became of the entry; `None` where its row is not kept any more.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn row(&mut self, key: DueKey) -> Found {
        let with_due = |entry: Option<Entry>| entry.filter(|entry| entry.due() == key.due);
        if key.sequence >= self.open_bits.first() {
            return Ok(with_due(self.open.find(key.sequence)));
        }
        match self.window_at(key.sequence).and_then(|at| self.windows.get(at)).map(|window| &window.body) {
            Some(Body::Memory { entries, .. }) => Ok(with_due(entries.find(key.sequence))),
            Some(Body::Run { .. }) => self.find_in_run(key),
            Some(Body::Empty) | None => Ok(None),
        }
    }

    /// Closes the open window, so that what comes later is not part of it, and returns all
    /// windows whose entries no run holds: this one, and those whose writing failed before. What
    /// is decided from now on is marked in the windows, and not in the parts.
    pub fn freeze(&mut self, now: Millis) -> Vec<FrozenPart> {
        let end = self.open_bits.end();
        if !self.open_bits.is_empty() {
            let bits = std::mem::replace(&mut self.open_bits, TwoBits::new(end));
            let index = std::mem::replace(&mut self.open_index, DueIndex::new(now));
            let entries = Arc::new(std::mem::take(&mut self.open));
            let pending = std::mem::take(&mut self.open_pending);
            self.windows.push(Window { bits, pending, body: Body::Memory { entries, index } });
        }
        let mut parts = Vec::new();
        for window in &mut self.windows {
            if window.is_in_memory() && window.pending == 0 {
                window.body = Body::Empty;
            }
            if let Body::Memory { entries, .. } = &window.body {
                parts.push(FrozenPart::new(Arc::clone(entries), window.bits.clone(), window.pending));
            }
        }
        parts
    }

    /// The part that begins at `first` was written and is durable: its entries leave memory.
    ///
    /// # Errors
    /// `InvalidArgument` where no such part is in memory.
    pub fn install(&mut self, first: Sequence, run: Arc<Run>) -> Result<()> {
        let window = self.window_at(first).and_then(|at| self.windows.get_mut(at));
        match window {
            Some(window) if window.first() == first && window.is_in_memory() => {
                window.body = Body::Run { run, patches: std::collections::BTreeMap::new() };
                Ok(())
            }
            _ => Err(Error::InvalidArgument {
                argument: "first",
                expected: "the first sequence of a part in memory".to_owned(),
                found: first.to_string(),
            }),
        }
    }

    /// The closed windows, oldest first: after [`Self::freeze`] these are all.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// The oldest windows that end at `floor` or below and have nothing pending leave; what they
    /// knew is not known any more.
    pub fn retire(&mut self, floor: Sequence) -> Vec<Window> {
        let keep = |window: &Window| window.end() > floor || window.pending > 0;
        let count = self.windows.iter().position(keep).unwrap_or(self.windows.len());
        self.windows.drain(..count).collect()
    }

    /// Lets go of a run in which nothing is pending; what became of its sequences stays known.
    pub fn release(&mut self, number: RunNumber) -> Option<Arc<Run>> {
        let window = self.windows.iter_mut().find(|window| holds(window, number) && window.pending == 0)?;
        self.lookups.remove(&number);
        match std::mem::replace(&mut window.body, Body::Empty) {
            Body::Run { run, .. } => Some(run),
            Body::Empty | Body::Memory { .. } => None,
        }
    }

    /// From now on these entries stand in for the rows of a block that cannot be read: found
    /// again in the log, or none where they were given up. False where no window has the run.
    pub fn patch(&mut self, number: RunNumber, block: u32, entries: &[Entry]) -> bool {
        let mut sorted = entries.to_vec();
        sort_by_key(&mut sorted);
        self.lookups.remove(&number);
        let body = self.windows.iter_mut().find(|window| holds(window, number)).map(|window| &mut window.body);
        let Some(Body::Run { patches, .. }) = body else { return false };
        patches.insert(block, sorted.iter().map(row_of).collect());
        true
    }

    /// The pending sequences of a run's window for which no row can be read: what a damaged block
    /// has cost. Reads the whole run, a bounded piece at a time.
    ///
    /// # Errors
    /// `Storage` where a block could not be read now: its rows are not gone.
    pub fn unreadable(&mut self, number: RunNumber) -> Result<Vec<Sequence>> {
        let Some(window) = self.windows.iter().find(|window| holds(window, number)) else { return Ok(Vec::new()) };
        let Body::Run { run, patches } = &window.body else { return Ok(Vec::new()) };
        let mut missing = window.bits.clone();
        let mut scan = crate::run::RowScan::from_block(run, 0, Some(patches), &mut self.buffer);
        loop {
            match scan.next_row() {
                Ok(Some(row)) => {
                    missing.set(row.key.sequence, EntryState::Nothing);
                }
                Ok(None) => break,
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(_) => scan.skip_block(),
            }
        }
        Ok(missing.pending().collect())
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let windows: usize = self.windows.iter().map(Window::memory_bytes).sum();
        let open = self.open.memory_bytes().saturating_add(self.open_index.memory_bytes());
        let lookups: usize =
            self.lookups.values().map(|lookup| lookup.entries.capacity().saturating_mul(size_of::<Entry>())).sum();
        windows.saturating_add(open).saturating_add(self.open_bits.memory_bytes()).saturating_add(lookups)
    }

    /// Makes `sequence` the next one; false where it is known already.
    #[inline]
    fn reach(&mut self, sequence: Sequence) -> bool {
        let next = self.open_bits.end();
        debug_assert!(sequence >= next, "sequence {sequence} was taken in before {next}");
        if sequence > next {
            self.open_bits.fill_to(sequence);
        }
        sequence >= next
    }

    fn window_at(&self, sequence: Sequence) -> Option<usize> {
        self.windows.partition_point(|window| window.first() <= sequence).checked_sub(1)
    }

    fn window_of(&self, sequence: Sequence) -> Option<&Window> {
        self.windows.get(self.window_at(sequence)?)
    }

    fn find_in_run(&mut self, key: DueKey) -> Found {
        let window = self.window_at(key.sequence).and_then(|at| self.windows.get(at));
        let Some(Body::Run { run, patches }) = window.map(|window| &window.body) else { return Ok(None) };
        self.uses = self.uses.saturating_add(1);
        if self.lookups.len() >= LOOKUPS_MAX && !self.lookups.contains_key(&run.number()) {
            let oldest = self.lookups.iter().min_by_key(|(_, lookup)| lookup.used).map(|(number, _)| *number);
            oldest.and_then(|number| self.lookups.remove(&number));
        }
        let lookup = self.lookups.entry(run.number()).or_default();
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
}

fn holds(window: &Window, number: RunNumber) -> bool {
    window.run().is_some_and(|run| run.number() == number)
}
