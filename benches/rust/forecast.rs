//! Forecasts a second of one subject, over thirty days, and how long one of all subjects takes, with nothing else going
//! on; and again when a quarter was cancelled, here and there.

use std::time::{Duration, Instant};

use delaymq_core::store::ForecastQuery;
use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_engine::{CancelOutcome, Due, Store, SubscribeOptions};

use crate::case::{Case, Failure, Figures, is_writing, now_us, wait_applied};

const FAR_MS: u64 = 86_400_000;
const SPREAD_MS: u64 = 30 * 86_400_000;
/// Subjects that the messages are of, in turns of a batch.
const SUBJECTS: u64 = 10;
const BATCH: u64 = 10_000;
const BODY: [u8; 64] = [0xA5; 64];
/// Checkpoints, each with a run of its own until they are merged.
const CHECKPOINTS: u64 = 6;
/// Forecasts of each kind.
const TIMES: u32 = 20;
/// One of so many is cancelled.
const CANCELLED_OF: u64 = 4;
/// When nothing was written for so long, nothing more is.
const QUIET: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Fills a store, of which a part stays in memory, and asks; cancels, and asks at once and when it has come to rest.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let store = case.open(|_| ())?;
    let base_ms = now_us() / 1_000;
    let batches = filled(&store, pending, base_ms)?;
    let (subject_s, told) = asked(&store, Some("bench.3"))?;
    let (totals_s, whole) = asked(&store, None)?;
    if whole != pending || told == 0 {
        return Err(Failure(format!("{whole} are told of {pending}, {told} of one subject")));
    }
    let cancelled = cancel(&store, pending, base_ms, &batches)?;
    store.checkpoint()?;
    let (cancelled_s, _) = asked(&store, Some("bench.3"))?;
    let resting = Instant::now();
    rest(case);
    let rest_s = resting.elapsed().saturating_sub(QUIET).as_secs_f64();
    let (rested_s, left_of_subject) = asked(&store, Some("bench.3"))?;
    let (_, left) = asked(&store, None)?;
    if left != pending - cancelled || left_of_subject >= told {
        return Err(Failure(format!("{left} are told of {}, {left_of_subject} of one subject", pending - cancelled)));
    }
    Ok(Figures::from([
        ("value", 1.0 / subject_s),
        ("subject_ms", subject_s * 1e3),
        ("totals_ms", totals_s * 1e3),
        ("cancelled_ms", cancelled_s * 1e3),
        ("rested_ms", rested_s * 1e3),
        ("rest_s", rest_s),
    ]))
}

fn subject(part: u64) -> String {
    format!("bench.{}", part % SUBJECTS)
}

fn due(base_ms: u64, number: u64) -> Millis {
    Millis(base_ms + FAR_MS + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPREAD_MS)
}

/// The first sequence of each batch.
fn filled(store: &Store, pending: u64, base_ms: u64) -> Result<Vec<Sequence>, Failure> {
    let parts = pending.div_ceil(BATCH);
    let mut batches = Vec::new();
    let mut filling = store.batch();
    for part in 0..parts {
        for number in part * BATCH..pending.min((part + 1) * BATCH) {
            filling.push(&subject(part), Due::At(due(base_ms, number)), &[], &BODY)?;
        }
        batches.push(store.publish(&mut filling)?.first_sequence());
        if (part + 1) % (parts / (CHECKPOINTS + 1)).max(1) == 0 {
            store.checkpoint()?;
        }
    }
    wait_applied(store)?;
    Ok(batches)
}

/// Seconds of a forecast, and how many messages it told.
fn asked(store: &Store, subject: Option<&str>) -> Result<(f64, u64), Failure> {
    let query = ForecastQuery { subject: subject.map(str::to_owned), ..ForecastQuery::default() };
    let (started, mut told) = (Instant::now(), 0_u64);
    for _ in 0..TIMES {
        told = store.forecast(&query)?.slots.iter().map(|slot| slot.tally.messages).sum();
    }
    Ok((started.elapsed().as_secs_f64() / f64::from(TIMES), told))
}

/// Cancels one of [`CANCELLED_OF`], of all subjects and minutes, and returns how many.
fn cancel(store: &Store, pending: u64, base_ms: u64, batches: &[Sequence]) -> Result<u64, Failure> {
    let mut cancelled = 0;
    for (part, first) in (0_u64..).zip(batches) {
        let subject = subject(part);
        let book = store.subscribe(&subject, "bench", SubscribeOptions::default())?;
        let numbers = part * BATCH..pending.min((part + 1) * BATCH);
        let receipts = numbers.filter(|number| number % CANCELLED_OF == 0).map(|number| {
            let key = DueKey { due: due(base_ms, number), sequence: first.plus(number - part * BATCH) };
            book.receipt_of(key, &subject, BODY.len() as u32)
        });
        let receipts = receipts.collect::<Result<Vec<_>, _>>()?;
        let outcomes = store.cancel_many(&receipts)?;
        if outcomes.iter().any(|outcome| *outcome != CancelOutcome::Done) {
            return Err(Failure("not all of it was cancelled".to_owned()));
        }
        cancelled += receipts.len() as u64;
        book.close()?;
    }
    wait_applied(store)?;
    Ok(cancelled)
}

/// Waits until nothing is written any more.
fn rest(case: &Case) {
    let (started, mut since) = (Instant::now(), Instant::now());
    while since.elapsed() < QUIET && started.elapsed() < WAIT_MAX {
        if is_writing(&case.folder) {
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
