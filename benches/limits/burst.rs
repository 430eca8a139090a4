//! Limit of `burst`: the ready facts, the assignments and the acknowledgements of all messages written
//! in the steps' sizes with a sync each, and each message read once.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures};

const STEP_MESSAGES: u64 = 1_024;
const READY_BYTES: u64 = 16; // due and sequence of each message
const FACT_BYTES: u64 = 256; // an assignment and an acknowledgement of a range, with their headers
const MESSAGE_BYTES: u64 = 104;

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let messages = case.count("messages")?;
    let step_messages = case.count("step_messages").unwrap_or(STEP_MESSAGES).max(1);
    let steps = messages.div_ceil(step_messages);
    let write = vec![0xA5_u8; usize::try_from(step_messages * READY_BYTES + FACT_BYTES).unwrap_or(0)];
    let mut read = vec![0_u8; usize::try_from(step_messages * MESSAGE_BYTES).unwrap_or(0)];
    let log = zeroed(&case.folder.join("log"), steps * write.len() as u64)?;
    let bodies = zeroed(&case.folder.join("bodies"), steps * read.len() as u64)?;
    let read_bytes = read.len() as u64;
    let started = Instant::now();
    let (mut sum, mut taken) = (0_u64, Vec::with_capacity(usize::try_from(step_messages).unwrap_or(0)));
    for step in 0..steps {
        log.write_all_at(&write, step * write.len() as u64)?;
        if case.flag("disk") {
            log.sync_data()?;
        }
        bodies.read_exact_at(&mut read, step * read_bytes)?;
        taken.clear();
        taken.extend(read.chunks_exact(MESSAGE_BYTES as usize).map(<[u8]>::to_vec));
        sum = sum.wrapping_add(taken.len() as u64);
    }
    std::hint::black_box(sum);
    Ok(Figures::from([("value", started.elapsed().as_secs_f64())]))
}
