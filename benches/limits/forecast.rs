//! Limit of `forecast`: as many cells of one subject, in blocks of 4 KiB with their checks, read from a file and added up
//! by minute.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::case::{Case, Failure, Figures};

const BLOCK: usize = 4_096;
const HEAD: usize = 24;
/// Bytes of a cell: two of its minute and one of each other number.
const CELL: usize = 5;
const CELLS: usize = (BLOCK - HEAD) / CELL;
/// Messages of one subject, of so many.
const SUBJECTS: u64 = 10;
const MINUTES: usize = 43_200;
const TIMES: u32 = 20;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let cells = case.count("pending")? / SUBJECTS;
    std::fs::create_dir_all(&case.folder)?;
    let path = case.folder.join("cells");
    let blocks = usize::try_from(cells).unwrap_or_default().div_ceil(CELLS);
    std::fs::write(&path, vec![0x3C; blocks * BLOCK])?;
    let (file, mut bytes, mut check) = (File::open(&path)?, vec![0; blocks * BLOCK], 0_u32);
    let started = Instant::now();
    for _ in 0..TIMES {
        file.read_exact_at(&mut bytes, 0)?;
        let (mut due, mut minute) = (vec![[0_u64; 2]; MINUTES], 0_usize);
        for block in bytes.chunks(BLOCK) {
            check ^= crc32fast::hash(block.get(4..).unwrap_or_default());
            for cell in block.get(HEAD..).unwrap_or_default().chunks_exact(CELL) {
                let [_, low, high, messages, size] = cell else { continue };
                minute = (minute + usize::from(*low) + (usize::from(*high) << 7)) % MINUTES;
                if let Some([count, sum]) = due.get_mut(minute) {
                    (*count, *sum) = (*count + u64::from(*messages), *sum + u64::from(*size));
                }
            }
        }
        std::hint::black_box(due);
    }
    let each = started.elapsed().as_secs_f64() / f64::from(TIMES);
    std::hint::black_box(check);
    Ok(Figures::from([("value", 1.0 / each)]))
}
