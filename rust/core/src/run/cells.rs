//! The counts of a schedule run for each subject and minute: messages, and bytes of their bodies.
//!
//! Cells are stored after the payload area, in the order of subject and minute, in blocks that can be read
//! separately. The footer has the first cell of each block. Reading one subject's cells is therefore quick,
//! even in a large run.
//!
//! | offset in a block | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `check`: CRC-32 of bytes 4..4096 |
//! | 4 | 2 | `count`: cells |
//! | 6 | 2 | `used_bytes`: of the cells |
//! | 8 | 4 | `run`: the run's number |
//! | 12 | 4 | `index`: the block's number among these, from 0 |
//! | 16 | 4 | `subject` of the first cell |
//! | 20 | 4 | `minute` of the first cell |
//! | 24 | any | cells; zeros after the last |
//!
//! The first cell of a block is encoded as if it followed a cell with the block's subject and minute.
//! `cell_bytes.rs` describes the encoding.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::BLOCK_BYTES;
use super::cell_bytes::{CELL_BYTES_MAX, Cell, encode_cell, sum_neighbours};
use crate::units::{Millis, Minute, RunNumber, SubjectNumber, Tally};

pub(super) const CELL_HEADER_BYTES: usize = 24;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CellBlockHeader {
    pub(super) check: U32,
    pub(super) count: U16,
    pub(super) used_bytes: U16,
    pub(super) run: U32,
    pub(super) index: U32,
    pub(super) subject: U32,
    pub(super) minute: U32,
}
const _: () = assert!(size_of::<CellBlockHeader>() == CELL_HEADER_BYTES);

/// The first cell of a block, and the number of its cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CellFence {
    pub(super) subject: SubjectNumber,
    pub(super) minute: Minute,
    pub(super) cells: u32,
}

/// Gathers cells from rows in the order of due time.
#[derive(Debug, Default)]
pub(super) struct CellGatherer {
    /// The cells of the current minute. A subject may have several until they are joined.
    pub(super) minute: Vec<Cell>,
    /// Above this number of cells in `minute`, those of one subject are joined.
    join_at: usize,
    cells: Vec<Cell>,
}

impl CellGatherer {
    /// Adds a row. A row of unknown size counts zero bytes.
    #[inline]
    pub(super) fn add(&mut self, due: Millis, subject: SubjectNumber, size: Option<u32>) {
        let minute = due.minute();
        if self.minute.first().is_some_and(|first| first.minute != minute) {
            self.end_minute();
        }
        // Neighbouring rows are mostly of one subject.
        let tally = Tally::one(size.unwrap_or_default());
        match self.minute.last_mut().filter(|last| last.subject == subject) {
            Some(last) => last.tally.add(tally),
            None => self.minute.push(Cell { subject, minute, tally }),
        }
        if self.minute.len() > self.join_at {
            joined(&mut self.minute);
            self.join_at = self.minute.len().saturating_mul(2).max(JOIN_CELLS_MIN);
        }
    }

    fn end_minute(&mut self) {
        joined(&mut self.minute);
        self.cells.append(&mut self.minute);
    }

    /// Returns all cells, in order.
    pub(super) fn finish(mut self) -> Vec<Cell> {
        self.end_minute();
        joined(&mut self.cells);
        self.cells
    }
}

/// The least number of cells of one minute above which those of one subject are joined.
const JOIN_CELLS_MIN: usize = 1 << 12;

/// Sorts cells, and adds up those with the same key.
fn joined(cells: &mut Vec<Cell>) {
    cells.sort_unstable_by_key(Cell::key);
    sum_neighbours(cells);
}

/// Encodes the cells in blocks. Returns the blocks, and the first cell of each.
pub(super) fn encode_cells(run: RunNumber, cells: &[Cell]) -> (Vec<u8>, Vec<CellFence>) {
    let (mut out, mut fences) = (Vec::new(), Vec::new());
    let mut rest = cells;
    while let Some(first) = rest.first() {
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        let mut before = first.key();
        let mut count = 0_usize;
        for cell in rest {
            if bytes.len().saturating_add(CELL_HEADER_BYTES + CELL_BYTES_MAX) > BLOCK_BYTES {
                break;
            }
            encode_cell(&mut bytes, before, *cell);
            before = cell.key();
            count = count.saturating_add(1);
        }
        let index = u32::try_from(fences.len()).unwrap_or(u32::MAX);
        fences.push(CellFence { subject: first.subject, minute: first.minute, cells: count as u32 });
        encode_cell_block(&mut out, run, index, *first, count, &bytes);
        rest = rest.get(count..).unwrap_or_default();
    }
    (out, fences)
}

fn encode_cell_block(out: &mut Vec<u8>, run: RunNumber, index: u32, first: Cell, count: usize, cells: &[u8]) {
    let mut header = CellBlockHeader {
        check: U32::ZERO,
        count: U16::new(u16::try_from(count).unwrap_or(u16::MAX)),
        used_bytes: U16::new(u16::try_from(cells.len()).unwrap_or(u16::MAX)),
        run: U32::new(run.0),
        index: U32::new(index),
        subject: U32::new(first.subject.0),
        minute: U32::new(first.minute.0),
    };
    let mut block = header.as_bytes().to_vec();
    block.extend_from_slice(cells);
    block.resize(BLOCK_BYTES, 0);
    header.check = U32::new(crc32fast::hash(block.get(4..).unwrap_or_default()));
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(block.get(CELL_HEADER_BYTES..).unwrap_or_default());
}
