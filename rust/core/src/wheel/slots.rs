//! A slot: entries in the order of their insertion, in chunks that are reused.

use crate::schedule_log::Entry;

/// Entries in a chunk: a chunk is about 1 KiB, so that a thousand slots in use cost a megabyte.
pub(super) const CHUNK_ENTRIES: usize = 28;
/// Spare chunks kept for later; more are given back.
const SPARE_CHUNKS_MAX: usize = 4_096;

type Chunk = Vec<Entry>;

/// Chunks that no slot uses.
#[derive(Debug, Default)]
pub(super) struct ChunkPool {
    spare: Vec<Chunk>,
}

impl ChunkPool {
    fn take(&mut self) -> Chunk {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_ENTRIES))
    }

    fn give_back(&mut self, mut chunk: Chunk) {
        if self.spare.len() < SPARE_CHUNKS_MAX {
            chunk.clear();
            self.spare.push(chunk);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.spare.len().saturating_mul(CHUNK_ENTRIES).saturating_mul(size_of::<Entry>());
        chunks.saturating_add(self.spare.capacity().saturating_mul(size_of::<Chunk>()))
    }
}

/// The entries of one slot: full chunks, and the chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct Slot {
    full: Vec<Chunk>,
    /// Empty only if the slot is empty.
    last: Chunk,
}

impl Slot {
    #[inline]
    pub(super) fn push(&mut self, entry: &Entry, pool: &mut ChunkPool) {
        if self.last.len() == self.last.capacity() {
            self.begin_chunk(pool);
        }
        self.last.push(*entry);
    }

    #[cold]
    fn begin_chunk(&mut self, pool: &mut ChunkPool) {
        let full = std::mem::replace(&mut self.last, pool.take());
        if !full.is_empty() {
            self.full.push(full);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.full.len().saturating_mul(CHUNK_ENTRIES).saturating_add(self.last.len())
    }

    /// The entry at this place in the order of insertion, from 0.
    #[inline]
    pub(super) fn get(&self, place: usize) -> Option<&Entry> {
        self.full.get(place / CHUNK_ENTRIES).unwrap_or(&self.last).get(place % CHUNK_ENTRIES)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Moves all entries to the end of `into`.
    pub(super) fn move_to(&mut self, into: &mut Vec<Entry>, pool: &mut ChunkPool) {
        into.reserve(self.len());
        for chunk in self.take_chunks() {
            into.extend_from_slice(&chunk);
            pool.give_back(chunk);
        }
    }

    /// Takes the entries out, chunk by chunk, and passes them to `visit`.
    pub(super) fn drain(&mut self, pool: &mut ChunkPool, mut visit: impl FnMut(&Entry, &mut ChunkPool)) {
        for chunk in self.take_chunks() {
            for entry in &chunk {
                visit(entry, pool);
            }
            pool.give_back(chunk);
        }
    }

    pub(super) fn clear(&mut self, pool: &mut ChunkPool) {
        for chunk in self.take_chunks() {
            pool.give_back(chunk);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.full.len().saturating_mul(CHUNK_ENTRIES).saturating_add(self.last.capacity());
        let list = self.full.capacity().saturating_mul(size_of::<Chunk>());
        chunks.saturating_mul(size_of::<Entry>()).saturating_add(list)
    }

    /// All chunks in order; the slot is empty and takes no memory afterwards.
    fn take_chunks(&mut self) -> impl Iterator<Item = Chunk> + use<> {
        let full = std::mem::take(&mut self.full);
        let last = std::mem::take(&mut self.last);
        full.into_iter().chain((!last.is_empty()).then_some(last))
    }
}
