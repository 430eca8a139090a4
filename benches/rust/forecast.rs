//! Forecasts a second of one subject, over thirty days, and how long one of all subjects takes, with nothing else going on.

use std::time::Instant;

use delaymq_core::store::ForecastQuery;
use delaymq_engine::Due;

use crate::case::{Case, Failure, Figures, publish, wait_applied};

const FAR_MS: u64 = 86_400_000;
const SPREAD_MS: u64 = 30 * 86_400_000;
/// Subjects that the messages are of, in turns of a batch.
const SUBJECTS: u64 = 10;
const BATCH: u64 = 10_000;
/// Checkpoints, each with a run of its own until they are merged.
const CHECKPOINTS: u64 = 6;
/// Forecasts of each kind.
const TIMES: u32 = 20;

/// Fills a store, of which a part stays in memory, and asks.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let store = case.open(|_| ())?;
    let parts = pending.div_ceil(BATCH);
    for part in 0..parts {
        let count = BATCH.min(pending - part * BATCH);
        publish(&store, &format!("bench.{}", part % SUBJECTS), count, (count, &[0xA5; 64]), |number| {
            Due::After(FAR_MS + (part * BATCH + number).wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPREAD_MS)
        })?;
        if (part + 1) % (parts / (CHECKPOINTS + 1)).max(1) == 0 {
            store.checkpoint()?;
        }
    }
    wait_applied(&store)?;
    let all = ForecastQuery::default();
    let one = ForecastQuery { subject: Some("bench.3".to_owned()), ..ForecastQuery::default() };
    let (started, mut told) = (Instant::now(), 0_u64);
    for _ in 0..TIMES {
        told = store.forecast(&one)?.slots.iter().map(|slot| slot.tally.messages).sum();
    }
    let subject_s = started.elapsed().as_secs_f64() / f64::from(TIMES);
    let (started, mut whole) = (Instant::now(), 0_u64);
    for _ in 0..TIMES {
        whole = store.forecast(&all)?.slots.iter().map(|slot| slot.tally.messages).sum();
    }
    let totals_s = started.elapsed().as_secs_f64() / f64::from(TIMES);
    if whole != pending || told == 0 {
        return Err(Failure(format!("{whole} are told of {pending}, {told} of one subject")));
    }
    Ok(Figures::from([("value", 1.0 / subject_s), ("subject_ms", subject_s * 1e3), ("totals_ms", totals_s * 1e3)]))
}
