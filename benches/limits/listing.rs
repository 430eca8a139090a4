//! Limit of `listing`: as many rows of 48 bytes, read from a file in pieces of 64 KiB, each block of 4 KiB with its
//! check, and their keys sorted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::case::{Case, Failure, Figures};

const PIECE: usize = 64 << 10;
const BLOCK: usize = 4_096;
const HEAD: usize = 16;
const ROW: usize = 48;
const ROWS: u64 = ((BLOCK - HEAD) / ROW) as u64;

/// A block whose rows have these numbers, their keys in no order.
fn block(first: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for number in first..first + ROWS {
        bytes.extend_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.resize(bytes.len() + ROW - 16, 0xA5);
    }
    bytes.resize(BLOCK, 0);
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    std::fs::create_dir_all(&case.folder)?;
    let path = case.folder.join("rows");
    let blocks: Vec<u8> = (0..pending.div_ceil(ROWS)).flat_map(|at| block(at * ROWS)).collect();
    std::fs::write(&path, &blocks)?;
    let (file, mut piece, mut offset, mut check) = (File::open(&path)?, vec![0; PIECE], 0_u64, 0_u32);
    let (started, mut keys) = (Instant::now(), Vec::new());
    loop {
        let read = file.read_at(&mut piece, offset)?;
        for block in piece.get(..read).unwrap_or_default().chunks(BLOCK) {
            check ^= crc32fast::hash(block.get(4..).unwrap_or_default());
            let rows = block.get(HEAD..).unwrap_or_default().chunks_exact(ROW);
            keys.extend(rows.map(|row| (number(row), number(row.get(8..).unwrap_or_default()))));
        }
        if read == 0 {
            break;
        }
        offset += read as u64;
    }
    keys.sort_unstable();
    let time = started.elapsed().as_secs_f64();
    std::hint::black_box((check, keys.len()));
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let rate = pending as f64 / time;
    Ok(Figures::from([("value", rate)]))
}
