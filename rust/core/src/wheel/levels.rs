//! The four levels of the wheel, and the entries beyond them.

use super::slots::{ChunkPool, Slot};
use super::sparse::{SPARSE_ENTRIES_MAX, Sparse};
use crate::schedule_log::{Entry, sort_by_key};
use crate::units::DueKey;

const LEVELS: usize = 4;
const SLOTS: usize = 256;
const SLOT_BITS: u32 = 8;
/// The bits of a due time that the levels cover.
const COVERED_BITS: u32 = SLOT_BITS * 4;

#[derive(Debug)]
struct Level {
    slots: Vec<Slot>,
    /// One bit for each slot in use.
    occupied: [u64; SLOTS / 64],
}

impl Level {
    fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| Slot::default()).collect(), occupied: [0; SLOTS / 64] }
    }

    #[inline]
    fn push(&mut self, at: usize, entry: &Entry, pool: &mut ChunkPool) {
        if let Some(slot) = self.slots.get_mut(at) {
            slot.push(entry, pool);
        }
        if let Some(word) = self.occupied.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    fn mark_empty(&mut self, at: usize) {
        if let Some(word) = self.occupied.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    /// Takes a slot's entries out of the level.
    fn take(&mut self, at: usize) -> Slot {
        self.mark_empty(at);
        self.slots.get_mut(at).map(std::mem::take).unwrap_or_default()
    }

    /// The first slot in use.
    fn first(&self) -> Option<usize> {
        let found = self.occupied.iter().zip(0_usize..).find(|(word, _)| **word != 0);
        found.map(|(word, at)| at * 64 + word.trailing_zeros() as usize)
    }

    /// The last slot in use.
    fn last(&self) -> Option<usize> {
        let found = self.occupied.iter().enumerate().rev().find(|(_, word)| **word != 0);
        found.map(|(at, word)| at * 64 + 63 - word.leading_zeros() as usize)
    }
}

#[derive(Debug)]
pub(super) struct Levels {
    stack: [Level; LEVELS],
    /// The sparse entries: those of a slot of the second or third level that `base` is in, if they are few.
    sparse: Sparse,
    /// Entries whose due time differs from `base` above the levels.
    beyond: Slot,
    length: usize,
}

impl Levels {
    pub(super) fn new() -> Self {
        let stack = std::array::from_fn(|_| Level::new());
        Self { stack, sparse: Sparse::default(), beyond: Slot::default(), length: 0 }
    }

    /// Adds an entry that is due at `base` or later.
    #[inline]
    pub(super) fn insert(&mut self, base: u64, entry: &Entry, pool: &mut ChunkPool) {
        self.length = self.length.saturating_add(1);
        self.place(base, entry, pool);
    }

    #[inline]
    fn place(&mut self, base: u64, entry: &Entry, pool: &mut ChunkPool) {
        let due = entry.due().0;
        let level = level_of(due ^ base);
        match self.stack.get_mut(level) {
            Some(target) => target.push(slot_of(due, level), entry, pool),
            None => self.beyond.push(entry, pool),
        }
    }

    /// The first millisecond at which an entry that is not sparse may be due: exact if it is in the lowest level,
    /// otherwise the start of the first slot in use.
    pub(super) fn next_slot(&self, base: u64) -> Option<u64> {
        for (number, level) in (0_u32..).zip(&self.stack) {
            if let Some(at) = level.first() {
                let shift = number * SLOT_BITS;
                let above = base >> shift >> SLOT_BITS << SLOT_BITS << shift;
                return Some(above | (at as u64) << shift);
            }
        }
        if self.beyond.is_empty() {
            return None;
        }
        Some((base >> COVERED_BITS).saturating_add(1) << COVERED_BITS)
    }

    /// Moves `base` from `from` to `to`, which is no later than the next slot in use. The entries of the slots that
    /// it enters move to lower levels, from the top down.
    pub(super) fn enter(&mut self, from: u64, to: u64, pool: &mut ChunkPool) {
        if from >> SLOT_BITS == to >> SLOT_BITS {
            return;
        }
        if from >> COVERED_BITS != to >> COVERED_BITS && !self.beyond.is_empty() {
            let mut slot = std::mem::take(&mut self.beyond);
            slot.drain(pool, |entry, pool| self.place(to, entry, pool));
        }
        for level in (1..LEVELS).rev() {
            let mut slot = match self.stack.get_mut(level) {
                Some(entered) => entered.take(slot_of(to, level)),
                None => continue,
            };
            let sparse_max = SPARSE_ENTRIES_MAX.get(level - 1).copied().unwrap_or_default();
            if slot.len() <= sparse_max && self.sparse.first().is_none() {
                self.sparse.load(&mut slot, pool);
                continue;
            }
            slot.drain(pool, |entry, pool| self.place(to, entry, pool));
        }
    }

    /// True if an entry is due in the millisecond `tick`, which `base` has reached.
    pub(super) fn is_in_use(&self, tick: u64) -> bool {
        let [lowest, ..] = &self.stack;
        let at = slot_of(tick, 0);
        self.sparse.first().is_some_and(|entry| entry.due().0 == tick)
            || lowest.occupied.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    /// The number of entries due in the millisecond `tick`, which `base` has reached.
    pub(super) fn tick_len(&self, tick: u64) -> usize {
        let [lowest, ..] = &self.stack;
        let sparse = self.sparse.due_until(tick, usize::MAX);
        lowest.slots.get(slot_of(tick, 0)).map_or(0, Slot::len).saturating_add(sparse)
    }

    /// The due time of the first sparse entry; `u64::MAX` if there is none.
    #[inline]
    pub(super) fn first_sparse(&self) -> u64 {
        self.sparse.first().map_or(u64::MAX, |entry| entry.due().0)
    }

    /// Moves up to `room` sparse entries that are due at `now` to `into`; returns how many.
    #[inline]
    pub(super) fn take_sparse(&mut self, now: u64, room: usize, into: &mut Vec<Entry>) -> usize {
        let count = self.sparse.due_until(now, room);
        self.sparse.move_to(count, into);
        self.length = self.length.saturating_sub(count);
        count
    }

    /// Moves the entries of the millisecond `tick`, which `base` has reached, to `into`.
    pub(super) fn take_tick(&mut self, tick: u64, into: &mut Vec<Entry>, pool: &mut ChunkPool) {
        self.take_sparse(tick, usize::MAX, into);
        let [lowest, ..] = &mut self.stack;
        let at = slot_of(tick, 0);
        if let Some(slot) = lowest.slots.get_mut(at) {
            self.length = self.length.saturating_sub(slot.len());
            slot.move_to(into, pool);
        }
        lowest.mark_empty(at);
    }

    /// Removes the latest entries until `keep` remain; returns the greatest key kept. `keep` is not zero, and less
    /// than the current number.
    pub(super) fn shed(&mut self, base: u64, keep: usize, pool: &mut ChunkPool) -> DueKey {
        self.unload_sparse(base, pool);
        while self.length > keep {
            let excess = self.length.saturating_sub(keep);
            let Some(slot) = self.last_slot() else { break };
            let before = slot.len();
            if before <= excess {
                slot.clear(pool);
            } else {
                let mut entries = Vec::new();
                slot.move_to(&mut entries, pool);
                sort_by_key(&mut entries);
                entries.truncate(before.saturating_sub(excess));
                for entry in entries {
                    slot.push(&entry, pool);
                }
            }
            self.length = self.length.saturating_sub(before.min(excess));
            self.mark_last_slot();
        }
        self.last_slot().and_then(|slot| slot.iter().map(Entry::key).max()).unwrap_or_default()
    }

    /// Removes every entry above `key`; returns how many are left.
    pub(super) fn remove_above(&mut self, base: u64, key: DueKey, pool: &mut ChunkPool) -> usize {
        self.unload_sparse(base, pool);
        let mut entries = Vec::new();
        let slots = self.stack.iter_mut().flat_map(|level| level.slots.iter_mut());
        for slot in slots.chain(std::iter::once(&mut self.beyond)) {
            if slot.iter().all(|entry| entry.key() <= key) {
                continue;
            }
            slot.move_to(&mut entries, pool);
            for entry in entries.drain(..).filter(|entry| entry.key() <= key) {
                slot.push(&entry, pool);
            }
        }
        // There are no sparse entries here.
        self.length = self.iter().count();
        self.mark_all();
        self.length
    }

    /// Moves all entries to the end of `into`.
    pub(super) fn move_to(&mut self, into: &mut Vec<Entry>, pool: &mut ChunkPool) {
        into.extend(self.sparse.unload());
        let slots = self.stack.iter_mut().flat_map(|level| level.slots.iter_mut());
        for slot in slots.chain(std::iter::once(&mut self.beyond)) {
            slot.move_to(into, pool);
        }
        self.length = 0;
        self.mark_all();
    }

    pub(super) fn clear(&mut self, pool: &mut ChunkPool) {
        for slot in self.stack.iter_mut().flat_map(|level| level.slots.iter_mut()) {
            slot.clear(pool);
        }
        self.beyond.clear(pool);
        self.sparse = Sparse::default();
        self.length = 0;
        self.mark_all();
    }

    /// The least key.
    pub(super) fn lowest(&self) -> Option<DueKey> {
        let first = self.stack.iter().find_map(|level| level.slots.get(level.first()?));
        let first = first.unwrap_or(&self.beyond).iter().map(Entry::key).min();
        self.sparse.first().map(Entry::key).into_iter().chain(first).min()
    }

    /// Moves the sparse entries back into slots.
    fn unload_sparse(&mut self, base: u64, pool: &mut ChunkPool) {
        for entry in self.sparse.unload() {
            self.place(base, &entry, pool);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.stack.iter().flat_map(|level| &level.slots).chain(std::iter::once(&self.beyond));
        let slots: usize = slots.map(|slot| slot.memory_bytes().saturating_add(size_of::<Slot>())).sum();
        slots.saturating_add(self.sparse.memory_bytes())
    }

    /// All entries, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let slots = self.stack.iter().flat_map(|level| &level.slots).chain(std::iter::once(&self.beyond));
        slots.flat_map(Slot::iter).chain(self.sparse.rest())
    }

    /// The slot with the latest entries.
    fn last_slot(&mut self) -> Option<&mut Slot> {
        if !self.beyond.is_empty() {
            return Some(&mut self.beyond);
        }
        let level = self.stack.iter_mut().rev().find(|level| level.last().is_some())?;
        let at = level.last()?;
        level.slots.get_mut(at)
    }

    /// Corrects the bit of the slot that [`Self::last_slot`] returned.
    fn mark_last_slot(&mut self) {
        if let Some(level) = self.stack.iter_mut().rev().find(|level| level.last().is_some())
            && let Some(at) = level.last()
            && level.slots.get(at).is_some_and(Slot::is_empty)
        {
            level.mark_empty(at);
        }
    }

    fn mark_all(&mut self) {
        for level in &mut self.stack {
            for at in 0..SLOTS {
                if level.slots.get(at).is_some_and(Slot::is_empty) {
                    level.mark_empty(at);
                }
            }
        }
    }
}

/// The level for a due time that differs from `base` in these bits; 4 and more mean beyond the levels.
#[inline]
fn level_of(different: u64) -> usize {
    ((different | 1).ilog2() / SLOT_BITS) as usize
}

#[inline]
fn slot_of(due: u64, level: usize) -> usize {
    ((due >> (level as u64 * u64::from(SLOT_BITS))) & 0xFF) as usize
}
