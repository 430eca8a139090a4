//! Entries that no checkpoint has moved out of memory yet, in the order of sequences.

use super::reserve::reserved;
use crate::schedule_log::entry::Entry;
use crate::units::Sequence;

/// Entries in the first chunk. Chunks are never moved, so growing costs no copying.
const FIRST_ENTRIES: usize = 2_048;
/// Entries in each later chunk.
const CHUNK_ENTRIES: usize = reserved::<Entry>(1 << 18);

/// The chunk of a place, and the index in the chunk.
#[inline]
const fn split(place: usize) -> (usize, usize) {
    match place.checked_sub(FIRST_ENTRIES) {
        None => (0, place),
        Some(later) => (1 + later / CHUNK_ENTRIES, later % CHUNK_ENTRIES),
    }
}

/// Entries in the order of sequences, found by place or by sequence.
#[derive(Debug, Default)]
pub struct Recent {
    chunks: Vec<Vec<Entry>>,
    length: u32,
}

impl Recent {
    /// Adds an entry after all others. Returns its place. `None` if the places are used up: there are four
    /// thousand million.
    #[inline]
    pub fn push(&mut self, entry: Entry) -> Option<u32> {
        let place = self.length;
        self.length = self.length.checked_add(1)?;
        let (chunk, at) = split(place as usize);
        if at == 0 {
            self.chunks.push(Vec::with_capacity(if chunk == 0 { FIRST_ENTRIES } else { CHUNK_ENTRIES }));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(entry);
        }
        Some(place)
    }

    /// The entry at a place.
    #[inline]
    pub fn get(&self, place: u32) -> Option<Entry> {
        let (chunk, at) = split(place as usize);
        self.chunks.get(chunk)?.get(at).copied()
    }

    /// The entry with this sequence. Sequences are dense except for facts that are not messages, so the place
    /// is nearly known.
    pub fn find(&self, sequence: Sequence) -> Option<Entry> {
        let begins = |chunk: &Vec<Entry>| chunk.first().is_some_and(|entry| entry.sequence() <= sequence);
        let chunk = self.chunks.get(self.chunks.partition_point(begins).checked_sub(1)?)?;
        let first = chunk.first()?.sequence();
        let at_most = usize::try_from(sequence.since(first)).unwrap_or(usize::MAX).min(chunk.len().saturating_sub(1));
        let guess = chunk.get(at_most)?;
        if guess.sequence() == sequence {
            return Some(*guess);
        }
        let before = chunk.get(..=at_most)?;
        let found = before.binary_search_by(|entry| entry.sequence().cmp(&sequence)).ok()?;
        before.get(found).copied()
    }

    /// The number of entries.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All entries, in the order of sequences.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Bytes of memory. Reserved memory that was not written takes none.
    pub fn memory_bytes(&self) -> usize {
        let entries = self.chunks.iter().map(|chunk| chunk.len().saturating_mul(size_of::<Entry>()));
        entries.sum::<usize>().saturating_add(self.chunks.capacity().saturating_mul(size_of::<Vec<Entry>>()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::{DueKey, Location, Millis, SubjectNumber};

    proptest! {
        #[test]
        fn each_entry_is_found_and_no_other(gaps in prop::collection::vec(1_u64..4, 0..400), repeat in 1_u64..30) {
            let mut recent = Recent::default();
            let mut sequences = std::collections::BTreeSet::new();
            let mut sequence = 5;
            for gap in gaps.iter().cycle().take(gaps.len() * repeat as usize) {
                sequence += gap;
                let key = DueKey { due: Millis(sequence % 7), sequence: Sequence(sequence) };
                let entry = Entry::new(key, 1, Sequence(sequence), Location(0), SubjectNumber(1));
                let place = recent.push(entry).unwrap();
                prop_assert_eq!(recent.get(place), Some(entry));
                sequences.insert(sequence);
            }
            for sequence in 0..sequence + 5 {
                let found = recent.find(Sequence(sequence)).map(|entry| entry.sequence().0);
                prop_assert_eq!(found, sequences.get(&sequence).copied());
            }
            prop_assert_eq!(recent.iter().count(), recent.len() as usize);
        }
    }
}
