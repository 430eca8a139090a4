//! The entries of a slot that holds few for its span: put in order at once, instead of being taken
//! apart level by level. Most of the milliseconds of such a slot are empty, and a slot of the lowest
//! level costs as much for one entry as for twenty.

use super::slots::{ChunkPool, Slot};
use crate::schedule_log::{Entry, sort_by_key};

/// A slot of the second and third level with more entries than this is taken apart.
pub(super) const SPARSE_ENTRIES_MAX: [usize; 2] = [1_024, 1 << PLACE_BITS];
/// How many bits a place in the slot takes, beside as many of the due time: a slot of the third
/// level spans no more.
const PLACE_BITS: u32 = 16;

/// The entries of one slot, in order, and how many of them were taken.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    entries: Vec<Entry>,
    taken: usize,
}

impl Sparse {
    /// Takes a slot's entries over; nothing may be left of the last one's.
    pub(super) fn load(&mut self, slot: &mut Slot, pool: &mut ChunkPool) {
        self.taken = 0;
        self.entries.clear();
        // One number for each: when it is due, below that its place, so that sorting keeps the
        // order in which those of one millisecond came.
        let numbers = (0_u32..).zip(slot.iter());
        let mut numbers: Vec<u32> =
            numbers.map(|(place, entry)| due_bits(entry) << PLACE_BITS | place & PLACE_MASK).collect();
        numbers.sort_unstable();
        self.entries.reserve(numbers.len());
        let in_order = numbers.iter().filter_map(|number| slot.get((number & PLACE_MASK) as usize));
        self.entries.extend(in_order);
        slot.clear(pool);
        // And nearly always that is the order of their sequences.
        if !self.entries.is_sorted_by_key(Entry::key) {
            sort_by_key(&mut self.entries);
        }
    }

    /// What was not taken yet.
    #[inline]
    pub(super) fn rest(&self) -> &[Entry] {
        self.entries.get(self.taken..).unwrap_or_default()
    }

    /// The first entry.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.get(self.taken)
    }

    /// How many entries are due at `now` or before, and at most `room`.
    #[inline]
    pub(super) fn due_until(&self, now: u64, room: usize) -> usize {
        self.rest().iter().take(room).take_while(|entry| entry.due().0 <= now).count()
    }

    /// Moves the first `count` entries to the end of `into`.
    pub(super) fn move_to(&mut self, count: usize, into: &mut Vec<Entry>) {
        into.extend_from_slice(self.rest().get(..count).unwrap_or_default());
        self.taken = self.taken.saturating_add(count);
    }

    /// Takes everything out.
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
