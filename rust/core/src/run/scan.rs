//! Reads rows in order, block by block, a bounded piece of the file at a time.

use std::collections::BTreeMap;

use super::block::{BLOCK_BYTES, decode_block};
use super::reader::{DamagedBlock, Run};
use super::rows::{Row, RowKey};
use crate::error::Error;

/// The most blocks of one read. A scan begins with one block and doubles.
const READ_BLOCKS_MAX: u32 = 16;

/// Rows that replace those of unreadable blocks, by block.
pub type Patches<R> = BTreeMap<u32, Vec<R>>;

/// Buffers for reading, reused from scan to scan.
#[derive(Debug)]
pub struct ScanBuffer<R> {
    bytes: Vec<u8>,
    rows: Vec<R>,
}

impl<R> Default for ScanBuffer<R> {
    fn default() -> Self {
        Self { bytes: Vec::new(), rows: Vec::new() }
    }
}

/// The rows of a run from a key on.
#[derive(Debug)]
pub struct RowScan<'a, R> {
    run: &'a Run,
    patches: Option<&'a Patches<R>>,
    buffer: &'a mut ScanBuffer<R>,
    /// The index of the next row in `buffer.rows`.
    at: usize,
    /// The block of the rows in `buffer.rows`.
    block: u32,
    next_block: u32,
    /// The first block in `buffer.bytes`.
    bytes_from: u32,
    read_blocks: u32,
    read_blocks_max: u32,
}

impl<'a, R: Row> RowScan<'a, R> {
    /// All rows from the block `block` on. `patches` replace the blocks in the file.
    pub fn from_block(
        run: &'a Run,
        block: u32,
        patches: Option<&'a Patches<R>>,
        buffer: &'a mut ScanBuffer<R>,
    ) -> Self {
        buffer.rows.clear();
        buffer.bytes.clear();
        Self {
            run,
            patches,
            buffer,
            at: 0,
            block,
            next_block: block,
            bytes_from: block,
            read_blocks: 1,
            read_blocks_max: READ_BLOCKS_MAX,
        }
    }

    /// Tells the scan how many blocks it will read, so that it reads them in as few pieces as possible.
    #[must_use]
    pub fn going_on_for(mut self, blocks: u32) -> Self {
        let pieces = blocks.div_ceil(READ_BLOCKS_MAX).max(1);
        self.read_blocks = blocks.div_ceil(pieces).max(1);
        self.read_blocks_max = self.read_blocks;
        self
    }

    /// All rows with this key or above.
    ///
    /// # Errors
    /// The first block on the way that cannot be read.
    pub fn from_key(
        run: &'a Run,
        key: RowKey,
        patches: Option<&'a Patches<R>>,
        buffer: &'a mut ScanBuffer<R>,
    ) -> Result<Self, Box<DamagedBlock>> {
        let block = run.block_of_group(run.group_of(key));
        let mut scan = Self::from_block(run, block, patches, buffer);
        while scan.peek()?.is_some_and(|row| row.key() < key) {
            scan.advance();
        }
        Ok(scan)
    }

    /// Returns the next row without moving on. `None` at the end of the run.
    ///
    /// # Errors
    /// A block that cannot be read, at each call until [`Self::skip_block`].
    #[inline]
    pub fn peek(&mut self) -> Result<Option<R>, Box<DamagedBlock>> {
        while self.at >= self.buffer.rows.len() {
            if self.next_block >= self.run.block_count() {
                return Ok(None);
            }
            self.fill()?;
        }
        Ok(self.buffer.rows.get(self.at).copied())
    }

    /// Moves past the row that [`Self::peek`] returned.
    #[inline]
    pub fn advance(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    /// Returns the next row and moves past it.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<R>, Box<DamagedBlock>> {
        let row = self.peek()?;
        self.advance();
        Ok(row)
    }

    /// Skips the block that could not be read.
    pub fn skip_block(&mut self) {
        self.buffer.rows.clear();
        self.at = 0;
        self.next_block = self.next_block.saturating_add(1);
    }

    /// The block of the last returned row.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Reads the rows of all blocks before `end`, in as few pieces as possible.
    fn read_up_to(mut self, end: u32, into: &mut Vec<R>) -> Result<(), Box<DamagedBlock>> {
        self.read_blocks = end.saturating_sub(self.next_block);
        into.clear();
        while self.next_block < end {
            self.fill()?;
            into.extend_from_slice(&self.buffer.rows);
        }
        Ok(())
    }

    /// Reads the rows of the next block.
    fn fill(&mut self) -> Result<(), Box<DamagedBlock>> {
        self.buffer.rows.clear();
        self.at = 0;
        let block = self.next_block;
        if let Some(rows) = self.patches.and_then(|patches| patches.get(&block)) {
            self.buffer.rows.extend_from_slice(rows);
        } else {
            self.read_ahead(block)?;
            let start = (block.saturating_sub(self.bytes_from) as usize).saturating_mul(BLOCK_BYTES);
            let bytes = self.buffer.bytes.get(start..).unwrap_or_default();
            let bytes = bytes.get(..BLOCK_BYTES).unwrap_or(bytes);
            let count = self.run.rows_in_block(block);
            let decoded = decode_block(bytes, self.run.file_number(), block, count, &mut self.buffer.rows);
            decoded.map_err(|fault| {
                let offset = Run::block_offset(block);
                self.run.damaged(block, Error::corrupt(self.run.file.path(), offset, fault.expected, fault.found))
            })?;
            if let Some(relation) = self.run.relation() {
                self.buffer.rows.iter_mut().for_each(|row| *row = row.adopted(relation));
            }
        }
        self.block = block;
        self.next_block = block.saturating_add(1);
        Ok(())
    }

    /// Reads `block` into `buffer.bytes`, or as much of it as the file has.
    fn read_ahead(&mut self, block: u32) -> Result<(), Box<DamagedBlock>> {
        let held = u32::try_from(self.buffer.bytes.len() / BLOCK_BYTES).unwrap_or(u32::MAX);
        if block >= self.bytes_from && block.saturating_sub(self.bytes_from) < held {
            return Ok(());
        }
        let count = self.read_blocks.min(self.run.block_count().saturating_sub(block));
        self.read_blocks = self.read_blocks.saturating_mul(2).min(self.read_blocks_max);
        self.buffer.bytes.clear();
        self.buffer.bytes.resize((count as usize).saturating_mul(BLOCK_BYTES), 0);
        let offset = Run::block_offset(block);
        let read = self.run.file.read_at(offset, &mut self.buffer.bytes);
        let read = read.map_err(|error| {
            self.buffer.bytes.clear();
            self.run.damaged(block, error)
        })?;
        self.buffer.bytes.truncate(read);
        self.bytes_from = block;
        Ok(())
    }
}

impl Run {
    /// Reads all rows of the group of blocks that would have `key`, and returns the group. A look-up of
    /// sorted keys calls this once for each group.
    pub fn read_group<R: Row>(
        &self,
        key: RowKey,
        patches: Option<&Patches<R>>,
        buffer: &mut ScanBuffer<R>,
        into: &mut Vec<R>,
    ) -> Result<u32, Box<DamagedBlock>> {
        let group = self.group_of(key);
        let from = self.block_of_group(group);
        let to = self.block_of_group(group.saturating_add(1));
        let scan = RowScan::from_block(self, from, patches, buffer);
        scan.read_up_to(to, into)?;
        Ok(group)
    }

    /// Reads all rows of `count` blocks from `block` on, in one read.
    ///
    /// # Errors
    /// The first block that cannot be read.
    pub fn read_blocks<R: Row>(
        &self,
        block: u32,
        count: u32,
        buffer: &mut ScanBuffer<R>,
        into: &mut Vec<R>,
    ) -> Result<(), Box<DamagedBlock>> {
        RowScan::from_block(self, block, None, buffer).read_up_to(block.saturating_add(count), into)
    }

    /// Prefetches blocks that will be read soon, without waiting for the disk.
    pub fn prefetch(&self, block: u32, count: u32) {
        let length = u64::from(count).saturating_mul(BLOCK_BYTES as u64);
        self.file.prefetch(Self::block_offset(block), length);
    }

    /// The first block that may have the row with `key`.
    pub fn first_block(&self, key: RowKey) -> u32 {
        self.block_of_group(self.group_of(key))
    }

    /// The group of blocks that would have `key`.
    pub fn group(&self, key: RowKey) -> u32 {
        self.group_of(key)
    }
}
