//! Limit of `append` and of `publish_many` without syncs: the same bytes in the same `pwrite` calls,
//! into prepared files; far messages once more, as a run would hold them, and one sync. Beside it, as
//! `plain`, the same bytes copied in memory.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures, rate};

/// A record's header and fixed part, and a batch's header.
const RECORD_BYTES: u64 = 40;
const BATCH_BYTES: u64 = 128;
/// A run's row.
const ROW_BYTES: u64 = 48;
const RUN_PIECE: usize = 1 << 20;
const COPY_BYTES: usize = 16 << 20;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, batch) = (case.count("messages")?, case.count("batch")?);
    let record = RECORD_BYTES + case.count("body_bytes")?.next_multiple_of(8);
    let write = vec![0xA5_u8; usize::try_from(BATCH_BYTES + batch * record).unwrap_or(0)];
    let calls = messages.div_ceil(batch);
    let path = case.folder.join("limit");
    let file = zeroed(&path, calls * write.len() as u64)?;
    let started = Instant::now();
    for call in 0..calls {
        file.write_all_at(&write, call * write.len() as u64)?;
        if case.flag("disk") {
            file.sync_data()?;
        }
    }
    if case.flag("far") {
        let run = std::fs::File::create(case.folder.join("run"))?;
        let piece = vec![0x5A_u8; RUN_PIECE];
        for number in 0..(messages * (record + ROW_BYTES)).div_ceil(RUN_PIECE as u64) {
            run.write_all_at(&piece, number * RUN_PIECE as u64)?;
        }
        run.sync_data()?;
    }
    Ok(Figures::from([("value", rate(messages, started.elapsed())), ("plain", copied(&write, calls, messages))]))
}

/// Messages a second where their bytes are only copied, over a few megabytes.
fn copied(write: &[u8], calls: u64, messages: u64) -> f64 {
    let mut memory = vec![0x11_u8; (COPY_BYTES / write.len()).max(1) * write.len()];
    let (mut places, started) = (0..0, Instant::now());
    for _ in 0..calls {
        if places.is_empty() {
            places = 0..memory.len() / write.len();
        }
        let at = places.next().unwrap_or(0) * write.len();
        if let Some(place) = memory.get_mut(at..at + write.len()) {
            place.copy_from_slice(std::hint::black_box(write));
        }
    }
    std::hint::black_box(&memory);
    rate(messages, started.elapsed())
}
