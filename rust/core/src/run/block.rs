//! A block of rows.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `check`: CRC-32 of bytes 4..4096 |
//! | 4 | 2 | `count`: rows; 85 in all blocks but the last |
//! | 6 | 2 | `row_bytes`: 48 |
//! | 8 | 4 | `index`: the block's number within the run, from 0 |
//! | 12 | 4 | `run`: the run's number |
//! | 16 | 48 each | rows; zeros after the last |

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::rows::{ROW_BYTES, Row};
use crate::record::read_struct;
use crate::units::RunNumber;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 4_096;
const BLOCK_HEADER_BYTES: usize = 16;
/// Rows in a full block.
pub const BLOCK_ROWS: usize = (BLOCK_BYTES - BLOCK_HEADER_BYTES) / ROW_BYTES;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BlockHeader {
    check: U32,
    count: U16,
    row_bytes: U16,
    index: U32,
    run: U32,
}
const _: () = assert!(size_of::<BlockHeader>() == BLOCK_HEADER_BYTES);

/// The field of a block that does not have the expected value.
#[derive(Debug)]
pub(super) struct BlockFault {
    pub(super) expected: String,
    pub(super) found: String,
}

/// Appends one whole block; `rows` are the bytes of at most [`BLOCK_ROWS`] rows.
pub(super) fn encode_block(out: &mut Vec<u8>, run: RunNumber, index: u32, rows: &[u8]) {
    debug_assert!(rows.len() <= BLOCK_ROWS * ROW_BYTES && rows.len().is_multiple_of(ROW_BYTES));
    let start = out.len();
    let mut header = BlockHeader {
        check: U32::ZERO,
        count: U16::new(u16::try_from(rows.len() / ROW_BYTES).unwrap_or(u16::MAX)),
        row_bytes: U16::new(ROW_BYTES as u16),
        index: U32::new(index),
        run: U32::new(run.0),
    };
    let spare = BLOCK_BYTES.saturating_sub(BLOCK_HEADER_BYTES).saturating_sub(rows.len());
    let zeros = [0; BLOCK_BYTES];
    let zeros = zeros.get(..spare).unwrap_or_default();
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.as_bytes().get(4..).unwrap_or_default());
    hasher.update(rows);
    hasher.update(zeros);
    header.check = U32::new(hasher.finalize());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(rows);
    out.extend_from_slice(zeros);
    debug_assert_eq!(out.len(), start + BLOCK_BYTES);
}

/// Checks one block and appends its `count` rows.
pub(super) fn decode_block<R: Row>(
    bytes: &[u8],
    run: RunNumber,
    index: u32,
    count: usize,
    into: &mut Vec<R>,
) -> Result<(), BlockFault> {
    let short = || BlockFault { expected: format!("{BLOCK_BYTES} bytes"), found: bytes.len().to_string() };
    if bytes.len() != BLOCK_BYTES {
        return Err(short());
    }
    let header: BlockHeader = read_struct(bytes).ok_or_else(short)?;
    let check = crc32fast::hash(bytes.get(4..).unwrap_or_default());
    if check != header.check.get() {
        return Err(BlockFault { expected: format!("check {check:08x}"), found: format!("{:08x}", header.check) });
    }
    let found = (header.run.get(), header.index.get(), usize::from(header.count.get()), header.row_bytes.get());
    let expected = (run.0, index, count, ROW_BYTES as u16);
    if found != expected {
        return Err(BlockFault {
            expected: format!("run, block, rows, row bytes {expected:?}"),
            found: format!("{found:?}"),
        });
    }
    let rows = bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default().chunks_exact(ROW_BYTES).take(count);
    into.extend(rows.filter_map(R::decode));
    Ok(())
}
