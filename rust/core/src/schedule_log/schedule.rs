//! The schedule: all pending entries, and the states of the others.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::count::ended::Ended;
use super::entry::{Entry, sort_by_key};
use super::feed::due_index::DueIndex;
use super::feed::recent::Recent;
use super::window::bits::{EntryState, TwoBits};
use super::window::lookup::{Found, Lookups};
use super::window::part::FrozenPart;
use super::window::{Body, Window, row_of};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::run::{Run, ScanBuffer};
use crate::units::{DueKey, LocationFile, Millis, RunNumber, Sequence, SubjectNumber};

/// Closed windows, oldest first, and the open one that takes new entries.
#[derive(Debug)]
pub struct Schedule {
    pub(super) windows: Vec<Window>,
    pub(super) open: Recent,
    pub(super) open_index: DueIndex,
    pub(super) open_bits: TwoBits,
    open_pending: u64,
    pub(super) pending: u64,
    lookups: Lookups,
    /// Runs that no merge reads, because one of their blocks is damaged.
    pub(super) unmerged: BTreeSet<RunNumber>,
    /// The files with the payloads of entries that left frozen parts since the last freeze, moved or ready.
    pub(super) left_files: BTreeSet<LocationFile>,
}

impl Schedule {
    /// An empty schedule whose next sequence is `next`. The index of due times is finest around `now`.
    pub fn new(next: Sequence, now: Millis) -> Self {
        Self::restored(Vec::new(), next, now)
    }

    /// A schedule as restored from a checkpoint: its windows in order, each after the previous one, and the
    /// next sequence.
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
            lookups: Lookups::default(),
            unmerged: BTreeSet::new(),
            left_files: BTreeSet::new(),
        }
    }

    /// The next sequence.
    pub fn next_sequence(&self) -> Sequence {
        self.open_bits.end()
    }

    /// The number of pending entries.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Adds a pending entry. Its sequence is [`Self::next_sequence`] or above. Sequences that are left out
    /// become `Nothing`.
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

    /// Adds the sequence of a fact that makes no entry.
    #[inline]
    pub fn skip(&mut self, sequence: Sequence) {
        if self.reach(sequence) {
            self.open_bits.push(EntryState::Nothing);
        }
    }

    /// Adds the `count` sequences of a fact that makes no entry.
    pub fn skip_many(&mut self, first: Sequence, count: u64) {
        if self.reach(first) {
            self.open_bits.fill_to(first.plus(count));
        }
    }

    /// Adds the sequence of an entry that its own fact made ready, so that it was never pending.
    #[inline]
    pub fn note_dispatched_at_once(&mut self, sequence: Sequence) {
        if self.reach(sequence) {
            let fault = is_on(Planted::AtOnceLeftPending);
            self.open_bits.push(if fault { EntryState::Pending } else { EntryState::Dispatched });
        }
    }

    /// The state of a sequence. `Nothing` for a sequence that is unknown or no longer known.
    #[inline]
    pub fn state(&self, sequence: Sequence) -> EntryState {
        if sequence >= self.open_bits.first() {
            return self.open_bits.get(sequence);
        }
        self.window_of(sequence).map_or(EntryState::Nothing, |window| window.bits.get(sequence))
    }

    /// Changes the state of a sequence and returns the previous one. An unknown sequence is ignored.
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

    /// Notes the subject, minute and size of an entry that is no longer pending, so that the cells of its run
    /// do not count it. Call this together with [`Self::set`].
    #[inline]
    pub fn note_ended(&mut self, key: DueKey, subject: SubjectNumber, size: u32) {
        if let Some(window) = self.closed_window(key.sequence)
            && !(is_on(Planted::EndedMeanwhileLost) && window.is_in_memory())
        {
            let rows = window.rows();
            window.ended.note(subject, key.due.minute(), size, rows);
        }
    }

    /// Like [`Self::note_ended`], if the due time of the entry is unknown.
    pub fn forget_ended(&mut self, sequence: Sequence) {
        if let Some(window) = self.closed_window(sequence) {
            window.ended.forget();
        }
    }

    /// Notes that no entry at or below this key is pending. Counts of ended entries before its minute are
    /// dropped.
    pub fn prune_ended(&mut self, floor: DueKey) {
        for window in &mut self.windows {
            window.ended.prune(floor.due.minute());
        }
    }

    fn closed_window(&mut self, sequence: Sequence) -> Option<&mut Window> {
        if sequence >= self.open_bits.first() {
            return None;
        }
        let at = self.window_at(sequence)?;
        self.windows.get_mut(at)
    }

    /// The pending entry with this key, with the current location of its payload. `None` if there is none.
    /// Calls in key order read each block of a run once.
    ///
    /// # Errors
    /// The block of a run that cannot be read; see [`Self::patch`].
    pub fn find(&mut self, key: DueKey) -> Found {
        if self.state(key.sequence) == EntryState::Pending { self.row(key) } else { Ok(None) }
    }

    /// The entry of this sequence if it is in memory, whatever its state.
    pub fn entry_in_memory(&self, sequence: Sequence) -> Option<Entry> {
        if sequence >= self.open_bits.first() {
            return self.open.find(sequence);
        }
        match self.window_of(sequence).map(|window| &window.body) {
            Some(Body::Memory { entries, .. }) => entries.find(sequence),
            Some(Body::Run { .. } | Body::Empty) | None => None,
        }
    }

    /// Like [`Self::find`], for an entry in any state. `None` if its row is no longer kept.
    ///
    /// # Errors
    /// Like [`Self::find`].
    pub fn row(&mut self, key: DueKey) -> Found {
        let found = self.raw_row(key)?;
        found.map(|entry| self.resolved(entry)).transpose()
    }

    /// Like [`Self::row`], but the entry may be unresolved.
    pub(super) fn raw_row(&mut self, key: DueKey) -> Found {
        let with_due = |entry: Option<Entry>| entry.filter(|entry| entry.due() == key.due);
        if key.sequence >= self.open_bits.first() {
            return Ok(with_due(self.open.find(key.sequence)));
        }
        match self.window_at(key.sequence).and_then(|at| self.windows.get(at)).map(|window| &window.body) {
            Some(Body::Memory { entries, .. }) => Ok(with_due(entries.find(key.sequence))),
            Some(Body::Run { run, patches }) => self.lookups.find(run, patches, key),
            Some(Body::Empty) | None => Ok(None),
        }
    }

    /// Closes the open window, so that it takes no later entries, and returns all windows whose entries are
    /// in no run: this one, and those whose writing failed before. Later changes of state are marked in the
    /// windows, not in the returned parts.
    pub fn freeze(&mut self, now: Millis) -> Vec<FrozenPart> {
        self.left_files.clear();
        self.close_open(now);
        for window in &mut self.windows {
            let rows = window.rows();
            window.ended.freeze(rows);
        }
        for window in self.windows.iter_mut().filter(|window| window.pending == 0) {
            if window.is_in_memory() || is_on(Planted::MoveLosesPayload) {
                window.body = Body::Empty;
            }
        }
        let origins = Arc::new(self.origins());
        let part = |window: &Window| match &window.body {
            Body::Memory { entries, .. } => {
                let (entries, origins) = (Arc::clone(entries), Arc::clone(&origins));
                Some(FrozenPart::new(entries, window.bits.clone(), window.pending, origins))
            }
            _ => None,
        };
        self.windows.iter().filter_map(part).collect()
    }

    /// Closes the open window, with its entries in memory, and begins another one after it.
    pub(super) fn close_open(&mut self, now: Millis) {
        let end = self.open_bits.end();
        if self.open_bits.is_empty() {
            return;
        }
        let bits = std::mem::replace(&mut self.open_bits, TwoBits::new(end));
        let index = std::mem::replace(&mut self.open_index, DueIndex::new(now));
        let entries = Arc::new(std::mem::take(&mut self.open));
        let pending = std::mem::take(&mut self.open_pending);
        let body = Body::Memory { entries, index };
        self.windows.push(Window { bits, pending, body, origin_until: Sequence(0), ended: Ended::none() });
    }

    /// Notes that the part which begins at `first` is written and durable. Its entries leave memory.
    ///
    /// # Errors
    /// `InvalidArgument` if no such part is in memory.
    pub fn install(&mut self, first: Sequence, run: Arc<Run>) -> Result<()> {
        let window = self.window_at(first).and_then(|at| self.windows.get_mut(at));
        match window {
            Some(window) if window.first() == first && window.is_in_memory() => {
                window.body = Body::Run { run, patches: std::collections::BTreeMap::new() };
                window.ended.written();
                Ok(())
            }
            _ => Err(Error::InvalidArgument {
                argument: "first",
                expected: "the first sequence of a part in memory".to_owned(),
                found: first.to_string(),
            }),
        }
    }

    /// The closed windows, oldest first. After [`Self::freeze`] these are all windows.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Removes and returns the oldest windows that end at `floor` or below, have no pending entries, and hold
    /// no origin of an entry in memory. Their states are forgotten. If the next window is empty and extends
    /// over the floor, which repeated merging causes, only its pages below the floor are removed.
    pub fn retire(&mut self, floor: Sequence) -> Vec<Window> {
        let keep = |window: &Window| window.end() > floor || self.is_needed(window);
        let count = self.windows.iter().position(keep).unwrap_or(self.windows.len());
        let gone = self.windows.drain(..count).collect();
        let is_over = |window: &&mut Window| window.end() > floor && matches!(window.body, Body::Empty);
        if let Some(first) = self.windows.first_mut().filter(is_over) {
            first.bits.forget_below(floor);
        }
        gone
    }

    /// Releases a run that has no pending entries and no origin of an entry in memory. The states of its
    /// sequences stay known.
    pub fn release(&mut self, number: RunNumber) -> Option<Arc<Run>> {
        let at = self.windows.iter().position(|window| holds(window, number) && !self.is_needed(window))?;
        self.lookups.remove(number);
        let window = self.windows.get_mut(at)?;
        match std::mem::replace(&mut window.body, Body::Empty) {
            Body::Run { run, .. } => Some(run),
            Body::Empty | Body::Memory { .. } => None,
        }
    }

    /// Forgets the blocks that were read of these runs.
    pub(super) fn forget_lookups(&mut self, runs: impl Iterator<Item = RunNumber>) {
        for run in runs {
            self.lookups.remove(run);
        }
    }

    /// Replaces the rows of an unreadable block by these entries, which were found again in the log; none if
    /// they were abandoned. False if no window has the run.
    pub fn patch(&mut self, number: RunNumber, block: u32, entries: &[Entry]) -> bool {
        let mut sorted = entries.to_vec();
        sort_by_key(&mut sorted);
        self.lookups.remove(number);
        let body = self.windows.iter_mut().find(|window| holds(window, number)).map(|window| &mut window.body);
        let Some(Body::Run { patches, .. }) = body else { return false };
        patches.insert(block, sorted.iter().map(row_of).collect());
        true
    }

    /// The sequences of a run's window that have no readable row, and are pending or the origin of a moved
    /// entry: the loss caused by damaged blocks. Reads the whole run, a bounded piece at a time.
    ///
    /// # Errors
    /// `Storage` if a block could not be read now: its rows are not lost.
    pub fn unreadable(&self, number: RunNumber) -> Result<Vec<Sequence>> {
        let Some(window) = self.windows.iter().find(|window| holds(window, number)) else { return Ok(Vec::new()) };
        let Body::Run { run, patches } = &window.body else { return Ok(Vec::new()) };
        let mut missing = window.bits.clone();
        for origin in self.unresolved().into_keys() {
            missing.set(origin, EntryState::Pending);
        }
        let mut buffer = ScanBuffer::default();
        let mut scan = crate::run::RowScan::from_block(run, 0, Some(patches), &mut buffer);
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

    /// The number of entries that are in memory because no run has them yet.
    pub fn recent_entries(&self) -> u64 {
        // Called for each applied batch. Windows in memory come after all runs, of which there may be many.
        let frozen = self.windows.iter().rev().take_while(|window| window.run().is_none());
        let frozen = frozen.map(|window| u64::from(window.entries_in_memory()));
        frozen.fold(u64::from(self.open.len()), u64::saturating_add)
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let windows: usize = self.windows.iter().map(Window::memory_bytes).sum();
        let open = self.open.memory_bytes().saturating_add(self.open_index.memory_bytes());
        let lookups = self.lookups.memory_bytes();
        windows.saturating_add(open).saturating_add(self.open_bits.memory_bytes()).saturating_add(lookups)
    }

    /// Makes `sequence` the next one. False if it is known already.
    #[inline]
    fn reach(&mut self, sequence: Sequence) -> bool {
        let next = self.open_bits.end();
        debug_assert!(sequence >= next, "sequence {sequence} was taken in before {next}");
        if sequence > next {
            self.open_bits.fill_to(sequence);
        }
        sequence >= next
    }

    pub(super) fn window_at(&self, sequence: Sequence) -> Option<usize> {
        self.windows.partition_point(|window| window.first() <= sequence).checked_sub(1)
    }

    pub(super) fn window_of(&self, sequence: Sequence) -> Option<&Window> {
        self.windows.get(self.window_at(sequence)?)
    }
}

fn holds(window: &Window, number: RunNumber) -> bool {
    window.run().is_some_and(|run| run.number() == number)
}
