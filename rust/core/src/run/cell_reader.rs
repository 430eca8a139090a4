//! Reads the cells of a run, block by block.

use super::cells::{CELL_HEADER_BYTES, CellBlockHeader, CellFence};
use crate::error::{Error, Result};
use crate::record::read_struct;
use crate::run::block::BLOCK_BYTES;
use crate::run::cell_bytes::{Cell, decode_cell};
use crate::run::reader::Run;
use crate::storage::read_upto;
use crate::units::{RunNumber, SubjectNumber};

/// Blocks of one read.
const BLOCKS_READ: usize = 64;

/// Checks a block and shows its cells. `None` if it is not the block that the fence describes.
fn decode_cell_block(
    bytes: &[u8],
    run: RunNumber,
    index: u32,
    fence: CellFence,
    show: &mut impl FnMut(Cell),
) -> Option<()> {
    let header: CellBlockHeader = read_struct(bytes)?;
    let expected = (run.0, index, fence.subject.0, fence.minute.0, fence.cells);
    let found = (
        header.run.get(),
        header.index.get(),
        header.subject.get(),
        header.minute.get(),
        u32::from(header.count.get()),
    );
    if bytes.len() != BLOCK_BYTES || crc32fast::hash(bytes.get(4..)?) != header.check.get() || expected != found {
        return None;
    }
    let end = CELL_HEADER_BYTES.checked_add(usize::from(header.used_bytes.get()))?;
    let mut rest = bytes.get(CELL_HEADER_BYTES..end)?;
    let mut before = (fence.subject, fence.minute);
    for at in 0..fence.cells {
        let cell = decode_cell(&mut rest, before)?;
        if at > 0 && cell.key() == before {
            return None;
        }
        before = cell.key();
        show(cell);
    }
    rest.is_empty().then_some(())
}

impl Run {
    /// Shows the cells of a subject, or of all, in order. The cells of all subjects of an adopted run are in
    /// the order of its own names. Reads only the blocks that have these cells.
    ///
    /// # Errors
    /// `Storage`, and `Corrupt` if a block of cells fails its check; some cells may have been shown before.
    pub fn each_cell(&self, subject: Option<SubjectNumber>, show: &mut impl FnMut(Cell)) -> Result<()> {
        let fences = self.cell_fences();
        let relation = self.relation();
        // An adopted run's cells have the places of its own names instead of subjects.
        let place = match (subject, relation) {
            (Some(subject), Some(relation)) => match relation.place_of(subject) {
                Some(place) => Some(place),
                None => return Ok(()),
            },
            (subject, _) => subject,
        };
        let (from, to) = match place {
            None => (0, fences.len()),
            Some(subject) => (
                // The previous block may end with cells of the subject.
                fences.partition_point(|fence| fence.subject < subject).saturating_sub(1),
                fences.partition_point(|fence| fence.subject <= subject),
            ),
        };
        let mut wanted = |cell: Cell| {
            if place.is_none_or(|place| place == cell.subject) {
                let subject = relation.map_or(cell.subject, |relation| relation.subject_at(cell.subject));
                show(Cell { subject, ..cell });
            }
        };
        let mut index = from;
        for piece in fences.get(from..to).unwrap_or_default().chunks(BLOCKS_READ) {
            let offset = self.cells_start().saturating_add((index as u64).saturating_mul(BLOCK_BYTES as u64));
            let bytes = read_upto(self.file().as_ref(), offset, piece.len().saturating_mul(BLOCK_BYTES))?;
            let mut blocks = bytes.chunks(BLOCK_BYTES);
            for fence in piece {
                let block = blocks.next().unwrap_or_default();
                let number = u32::try_from(index).unwrap_or(u32::MAX);
                decode_cell_block(block, self.file_number(), number, *fence, &mut wanted).ok_or_else(|| {
                    let offset = self.cells_start().saturating_add((index as u64).saturating_mul(BLOCK_BYTES as u64));
                    Error::corrupt(self.file().path(), offset, "a block of cells that fits its check", "another")
                })?;
                index = index.saturating_add(1);
            }
        }
        Ok(())
    }
}
