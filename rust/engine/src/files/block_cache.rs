//! A cache of file blocks. A block is read for one payload and also holds those behind it, so that a backlog that is
//! read in the order of its writing costs one call for hundreds of payloads.
//!
//! Whatever was read of a file stays true: a complete record never changes. But a block may be older than the end of
//! its file, so a record that is incomplete in it is read from the file itself.

use std::collections::VecDeque;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::storage::{StorageFile, read_upto};
use delaymq_core::units::{Location, LocationFile};

/// Bytes of a block.
const BLOCK_BYTES: usize = 64 << 10;
/// The number of kept blocks: so many readers may walk through files at the same time without evicting each other's.
const BLOCKS_MAX: usize = 16;
/// Bytes between two payloads that are read together.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// A part of a file.
pub(crate) struct Block {
    file: LocationFile,
    start: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// Reads a block that begins there.
    /// Fails with `Storage`.
    pub(crate) fn read(file: &dyn StorageFile, location: Location) -> Result<Self> {
        let start = u64::from(location.offset());
        Ok(Self { file: location.file(), start, bytes: read_upto(file, start, BLOCK_BYTES)? })
    }

    /// The bytes from that location on, as far as the block reaches.
    pub(crate) fn bytes_from(&self, location: Location) -> &[u8] {
        let at = u64::from(location.offset()).checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    /// True if the payload there begins in this block.
    pub(crate) fn holds(&self, location: Location) -> bool {
        self.file == location.file() && !self.bytes_from(location).is_empty()
    }
}

/// Where a payload, or a block, was read last.
struct Walk {
    file: LocationFile,
    start: u64,
    end: u64,
}

/// The newest blocks.
#[derive(Default)]
pub(crate) struct Blocks {
    kept: VecDeque<Arc<Block>>,
    walks: VecDeque<Walk>,
}

impl Blocks {
    /// The block in which the payload at `location` begins.
    pub(crate) fn holding(&self, location: Location) -> Option<Arc<Block>> {
        self.kept.iter().rev().find(|block| block.holds(location)).map(Arc::clone)
    }

    /// Notes that a payload is read from a file. Returns true if the one before lay close by, so that reading ahead is
    /// worthwhile.
    pub(crate) fn is_walk(&mut self, location: Location) -> bool {
        let (file, start) = (location.file(), u64::from(location.offset()));
        let follows =
            |walk: &Walk| walk.file == file && walk.start < start && start <= walk.end.saturating_add(GAP_BYTES_MAX);
        let before = self.walks.iter().position(follows);
        if let Some(before) = before {
            self.walks.remove(before);
        } else if self.walks.len() >= BLOCKS_MAX {
            self.walks.pop_front();
        }
        let length = if before.is_some() { BLOCK_BYTES as u64 } else { 0 };
        self.walks.push_back(Walk { file, start, end: start.saturating_add(length) });
        before.is_some()
    }

    /// Adds a block.
    pub(crate) fn keep(&mut self, block: Arc<Block>) {
        if self.kept.len() >= BLOCKS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(block);
    }

    /// Forgets the blocks of a file that is going to be removed.
    pub(crate) fn forget(&mut self, is_removed: impl Fn(LocationFile) -> bool) {
        self.kept.retain(|block| !is_removed(block.file));
        self.walks.retain(|walk| !is_removed(walk.file));
    }
}
