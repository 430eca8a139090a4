//! A slot: entries in the order they came, in chunks that are used again.

use crate::schedule_log::Entry;

/// Entries in a chunk: a chunk is about 1 KiB, so that a thousand slots in use cost a megabyte.
pub(super) const CHUNK_ENTRIES: usize = 28;
/// Spare chunks kept for later; more are given back.
const SPARE_CHUNKS_MAX: usize = 4_096;

type Chunk = Vec<Entry>;

/// Chunks that no slot uses at the moment.
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

/// The entries of one slot.
#[derive(Debug, Default)]
pub(super) struct Slot {
    chunks: Vec<Chunk>,
}

impl Slot {
    #[inline]
    pub(super) fn push(&mut self, entry: Entry, pool: &mut ChunkPool) {
        if let Some(chunk) = self.chunks.last_mut()
            && chunk.len() < CHUNK_ENTRIES
        {
            chunk.push(entry);
            return;
        }
        self.push_chunk(entry, pool);
    }

    #[cold]
    fn push_chunk(&mut self, entry: Entry, pool: &mut ChunkPool) {
        let mut chunk = pool.take();
        chunk.push(entry);
        self.chunks.push(chunk);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1).saturating_mul(CHUNK_ENTRIES);
        self.chunks.last().map_or(0, |last| full.saturating_add(last.len()))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Moves all entries to the end of `into`.
    pub(super) fn move_to(&mut self, into: &mut Vec<Entry>, pool: &mut ChunkPool) {
        into.reserve(self.len());
        for chunk in self.chunks.drain(..) {
            into.extend_from_slice(&chunk);
            pool.give_back(chunk);
        }
        self.trim();
    }

    /// Takes the entries out, chunk by chunk, into `visit`.
    pub(super) fn drain(&mut self, pool: &mut ChunkPool, mut visit: impl FnMut(Entry, &mut ChunkPool)) {
        for chunk in std::mem::take(&mut self.chunks) {
            for entry in &chunk {
                visit(*entry, pool);
            }
            pool.give_back(chunk);
        }
    }

    pub(super) fn clear(&mut self, pool: &mut ChunkPool) {
        for chunk in self.chunks.drain(..) {
            pool.give_back(chunk);
        }
        self.trim();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.len().saturating_mul(CHUNK_ENTRIES).saturating_mul(size_of::<Entry>());
        chunks.saturating_add(self.chunks.capacity().saturating_mul(size_of::<Chunk>()))
    }

    /// Gives back the list of chunks where a burst made it long.
    fn trim(&mut self) {
        if self.chunks.capacity() > 64 {
            self.chunks = Vec::new();
        }
    }
}
