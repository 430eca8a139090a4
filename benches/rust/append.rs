//! How fast messages are taken in: encoded, checked, written, applied; a far one also goes into a run.

use std::time::Instant;

use delaymq_engine::Due;

use crate::case::{Case, Failure, Figures, publish, rate, settle, wait_applied};

const NEAR_MS: u64 = 120_000; // well after the measurement, well before it would go into a run's payloads
const FAR_MS: u64 = 30 * 86_400_000;
const SPREAD_MS: u64 = 60_000;

/// Messages a second, from the first push until all are applied; far ones until they stand in runs.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let (messages, far) = (case.count("messages")?, case.flag("far"));
    let body = vec![0xA5; usize::try_from(case.count("body_bytes")?).unwrap_or(0)];
    let store = case.open(|_| ())?;
    settle(case, &store)?;
    let base = if far { FAR_MS } else { NEAR_MS };
    let started = Instant::now();
    publish(&store, "bench", messages, (case.count("batch")?, &body), |number| {
        Due::After(base + number.wrapping_mul(7_919) % SPREAD_MS)
    })?;
    wait_applied(&store)?;
    if far {
        store.checkpoint()?;
    }
    let time = started.elapsed();
    store.close()?;
    Ok(Figures::from([("value", rate(messages, time))]))
}
