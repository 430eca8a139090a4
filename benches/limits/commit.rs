//! Limit of `commit` and of a durable `publish`: as many records as are in flight in one `pwrite`,
//! then `fdatasync`, again and again, into a prepared file.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures, rate};

/// A record's header and fixed part, and a batch's header.
const RECORD_BYTES: u64 = 40;
const BATCH_BYTES: u64 = 128;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, in_flight) = (case.count("messages")?, case.count("in_flight")?);
    let record = RECORD_BYTES + case.count("body_bytes")?.next_multiple_of(8);
    let write = vec![0xA5_u8; usize::try_from(BATCH_BYTES + in_flight * record).unwrap_or(0)];
    let calls = messages.div_ceil(in_flight);
    let file = zeroed(&case.folder.join("limit"), calls * write.len() as u64)?;
    let started = Instant::now();
    for call in 0..calls {
        file.write_all_at(&write, call * write.len() as u64)?;
        file.sync_data()?;
    }
    Ok(Figures::from([("value", rate(calls * in_flight, started.elapsed()))]))
}
