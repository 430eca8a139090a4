//! Entries a second of a list of all that is pending, with nothing else going on, and how long the owner was held.

use std::time::Instant;

use delaymq_core::store::{PendingOf, PendingQuery};
use delaymq_engine::Due;

use crate::case::{Case, Failure, Figures, publish, wait_applied};

const FAR_MS: u64 = 86_400_000;
const SPREAD_MS: u64 = 7 * 86_400_000;
/// Subjects that the entries are of, in turns of a batch.
const SUBJECTS: u64 = 10;
const BATCH: u64 = 10_000;
/// Entries on a page.
const PAGE: usize = 10_000;

/// Fills a store, of which a part stays in memory, and lists all of it: receipts are made, and subjects named.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let store = case.open(|_| ())?;
    for part in 0..pending.div_ceil(BATCH) {
        let count = BATCH.min(pending - part * BATCH);
        publish(&store, &format!("bench.{}", part % SUBJECTS), count, (count, &[0xA5; 64]), |number| {
            Due::After(FAR_MS + (part * BATCH + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPREAD_MS)
        })?;
        if part * BATCH == pending / 2 {
            store.checkpoint()?;
        }
    }
    wait_applied(&store)?;
    let query = PendingQuery { of: PendingOf::Users, ..PendingQuery::default() };
    let (started, mut listed, mut worst) = (Instant::now(), 0_u64, std::time::Duration::ZERO);
    let mut reader = store.pending(&query)?;
    loop {
        let began = Instant::now();
        let Some(page) = reader.next_page(PAGE)? else { break };
        worst = worst.max(began.elapsed());
        listed += page.entries.len() as u64;
    }
    let time = started.elapsed().as_secs_f64();
    let counted: u64 = store.pending_counts(&query.of)?.iter().map(|(_, count)| count).sum();
    if (listed, counted) != (pending, pending) {
        return Err(Failure(format!("{listed} were listed and {counted} counted of {pending}")));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let rate = pending as f64 / time;
    Ok(Figures::from([("value", rate), ("page_ms_max", worst.as_secs_f64() * 1e3)]))
}
