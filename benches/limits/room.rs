//! Limit of `room`: for each message a record and a row, written one after the other, and nothing else.

use std::io::Write;

use crate::case::{Case, Failure, Figures, figure};

/// A record with a body of 64 bytes, and a run's row.
const MESSAGE_BYTES: u64 = 40 + 64 + 48;
const PIECE_MESSAGES: u64 = 8_192;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (pending, kept_of) = (case.count("pending")?, 20);
    let mut found = Figures::new();
    for (name, count) in [("value", pending), ("cancelled", pending.div_ceil(kept_of))] {
        let mut file = std::fs::File::create(case.folder.join(name))?;
        let piece = vec![0xA5_u8; usize::try_from(PIECE_MESSAGES * MESSAGE_BYTES).unwrap_or(0)];
        let mut left = count;
        while left > 0 {
            let part = left.min(PIECE_MESSAGES);
            file.write_all(piece.get(..usize::try_from(part * MESSAGE_BYTES).unwrap_or(0)).unwrap_or_default())?;
            left -= part;
        }
        file.sync_data()?;
        found.insert(name, figure(file.metadata()?.len()) / figure(count.max(1)));
    }
    Ok(found)
}
