//! Limit of `subjects`: the messages of each publish written and synced; then an assignment and an
//! acknowledgement for each message written, synced, and each message read once.

use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::prepared::zeroed;
use crate::case::{Case, Failure, Figures, rate};

const HEAD_BYTES: u64 = 48; // of a message record beside its body
const FACT_BYTES: u64 = 64; // an assignment, or an acknowledgement, of one message

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, batch) = (case.count("messages")?, case.count("batch")?);
    let message_bytes = HEAD_BYTES + case.count("body_bytes")?;
    let steps = messages.div_ceil(batch);
    let published = vec![0xA5_u8; usize::try_from(batch * message_bytes).unwrap_or(0)];
    let facts = vec![0x5A_u8; usize::try_from(batch * 2 * FACT_BYTES).unwrap_or(0)];
    let mut read = vec![0_u8; published.len()];
    let step_bytes = (published.len() + facts.len()) as u64;
    let log = zeroed(&case.folder.join("log"), steps * step_bytes)?;
    let started = Instant::now();
    for step in 0..steps {
        let at = step * step_bytes;
        log.write_all_at(&published, at)?;
        if case.flag("disk") {
            log.sync_data()?;
        }
        log.read_exact_at(&mut read, at)?;
        log.write_all_at(&facts, at + published.len() as u64)?;
        if case.flag("disk") {
            log.sync_data()?;
        }
    }
    std::hint::black_box(&read);
    Ok(Figures::from([("value", rate(messages, started.elapsed()))]))
}
