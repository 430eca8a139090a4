//! Limit of `filters`: a file of as many bytes is read, each message compared with its check, and its tag with the one
//! that is wanted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use crate::case::{Case, Failure, Figures, rate};
use crate::filters::{BODY_BYTES, FREQUENT, RARE, RARE_EVERY};

const CHECK_BYTES: usize = 4;
const RECORD_BYTES: usize = CHECK_BYTES + FREQUENT.len() + BODY_BYTES;
/// Records that one call reads.
const READ_RECORDS: usize = 1 << 12;

/// Messages a second, with the file's pages in memory.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let path = case.folder.join("messages");
    let mut written = Vec::new();
    for number in 0..messages {
        let tag = if number % RARE_EVERY == RARE_EVERY - 1 { RARE } else { FREQUENT };
        let whole = [tag.as_bytes(), &[0xA5; BODY_BYTES]].concat();
        written.extend_from_slice(&crc32fast::hash(&whole).to_le_bytes());
        written.extend_from_slice(&whole);
    }
    std::fs::write(&path, &written)?;
    let (file, started) = (File::open(&path)?, Instant::now());
    let (mut piece, mut offset, mut passed) = (vec![0_u8; READ_RECORDS * RECORD_BYTES], 0_u64, 0_u64);
    loop {
        let count = file.read_at(&mut piece, offset)?;
        if count == 0 {
            break;
        }
        for record in piece.get(..count).unwrap_or_default().chunks_exact(RECORD_BYTES) {
            let Some((check, whole)) = record.split_first_chunk() else { continue };
            if crc32fast::hash(whole) != u32::from_le_bytes(*check) {
                return Err(Failure("a message does not pass its check".to_owned()));
            }
            passed += u64::from(whole.starts_with(RARE.as_bytes()));
        }
        offset += count as u64;
    }
    let time = started.elapsed();
    if passed == messages / RARE_EVERY {
        Ok(Figures::from([("value", rate(messages, time))]))
    } else {
        Err(Failure(format!("{passed} of {messages} messages pass")))
    }
}
