//! The entries of a slot that has few for its span. They are sorted at once, and do not move down level by level:
//! most milliseconds of such a slot are empty, and a slot of the lowest level costs as much for one entry as for
//! twenty.

use super::slots::{ChunkPool, Slot};
use crate::schedule_log::{Entry, sort_by_key};

/// A slot of the second or third level with more entries than this moves them to lower levels.
pub(super) const SPARSE_ENTRIES_MAX: [usize; 2] = [1_024, 1 << PLACE_BITS];
/// The bits of a place in the slot, and as many bits of the due time: a slot of the third level spans no more.
const PLACE_BITS: u32 = 16;

/// The entries of one slot, in order, and how many of them were taken.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    entries: Vec<Entry>,
    taken: usize,
}

impl Sparse {
    /// Takes over a slot's entries; the entries of the last slot must be taken.
    pub(super) fn load(&mut self, slot: &mut Slot, pool: &mut ChunkPool) {
        self.taken = 0;
        self.entries.clear();
        // One number for each entry: the due time above its place, so that sorting keeps the insertion order within
        // a millisecond.
        let numbers = (0_u32..).zip(slot.iter());
        let mut numbers: Vec<u32> =
            numbers.map(|(place, entry)| due_bits(entry) << PLACE_BITS | place & PLACE_MASK).collect();
        numbers.sort_unstable();
        self.entries.reserve(numbers.len());
        let in_order = numbers.iter().filter_map(|number| slot.get((number & PLACE_MASK) as usize));
        self.entries.extend(in_order);
        slot.clear(pool);
        // Nearly always the insertion order is the order of sequences.
        if !self.entries.is_sorted_by_key(Entry::key) {
            sort_by_key(&mut self.entries);
        }
    }

    /// The entries that were not taken.
    #[inline]
    pub(super) fn rest(&self) -> &[Entry] {
        self.entries.get(self.taken..).unwrap_or_default()
    }

    /// The first entry.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.get(self.taken)
    }

    /// The number of entries, at most `room`, that are due at `now` or before.
    #[inline]
    pub(super) fn due_until(&self, now: u64, room: usize) -> usize {
        self.rest().iter().take(room).take_while(|entry| entry.due().0 <= now).count()
    }

    /// Moves the first `count` entries to the end of `into`.
    pub(super) fn move_to(&mut self, count: usize, into: &mut Vec<Entry>) {
        into.extend_from_slice(self.rest().get(..count).unwrap_or_default());
        self.taken = self.taken.saturating_add(count);
    }

    /// Takes all entries.
    pub(super) fn unload(&mut self) -> Vec<Entry> {
        let mut left = std::mem::take(&mut self.entries);
        left.drain(..self.taken.min(left.len()));
        self.taken = 0;
        left
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity().saturating_mul(size_of::<Entry>())
    }
}

const PLACE_MASK: u32 = (1 << PLACE_BITS) - 1;

/// The bits of the due time in which the entries of one slot differ.
#[inline]
fn due_bits(entry: &Entry) -> u32 {
    (entry.due().0 & u64::from(PLACE_MASK)) as u32
}
