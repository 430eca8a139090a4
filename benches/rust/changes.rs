//! Cancels or moves a second, of messages of any age: half of what is pending lies in runs, the rest in memory.

use std::time::Instant;

use delaymq_core::store::Receipt;
use delaymq_engine::{CancelOutcome, Due, MoveOutcome, Store};

use crate::case::{Case, Failure, Figures, bytes_read, far_ms, figure, rate, wait_applied};

const SUBJECT: &str = "bench.changes";
const PUBLISH_BATCH: u64 = 10_000;
/// More than may be changed.
const MIXING_PRIME: usize = 514_229;

/// Changes `changes` of `pending` messages, spread over all of them, `batch` at a time, each batch durable before the
/// next one. `read_bytes` is what this process has read meanwhile, checkpoints in the background among it.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let batch = usize::try_from(case.count("batch")?).unwrap_or(1);
    let store = case.open(|options| options.owner.keep_finished_ms = 0)?;
    let receipts = published(case, &store)?;
    let read_before = bytes_read();
    let started = Instant::now();
    let mut slowest = std::time::Duration::ZERO;
    for part in receipts.chunks(batch) {
        let began = Instant::now();
        if case.flag("moves") {
            moved(&store, part)?;
        } else {
            cancelled(&store, part)?;
        }
        slowest = slowest.max(began.elapsed());
    }
    let time = started.elapsed();
    let read = bytes_read() - read_before;
    store.close()?;
    let figures = [
        ("value", rate(receipts.len() as u64, time)),
        ("batch_ms_max", slowest.as_secs_f64() * 1e3),
        ("read_bytes", read),
        ("changed", figure(receipts.len() as u64)),
    ];
    Ok(Figures::from(figures))
}

/// Publishes, has the first half put into runs, and returns the receipts of what is to be changed.
fn published(case: &Case, store: &Store) -> Result<Vec<Receipt>, Failure> {
    let (pending, changes) = (case.count("pending")?, case.count("changes")?);
    let every = (pending / changes.max(1)).max(1);
    let mut chosen = Vec::with_capacity(usize::try_from(changes).unwrap_or(0));
    let mut filling = store.batch();
    let mut first = 0;
    for number in 0..pending {
        let due = Due::After(far_ms(number));
        filling.push(SUBJECT, due, &[], &[0xA5; 64])?;
        if filling.len() as u64 == PUBLISH_BATCH || number + 1 == pending {
            let receipts = store.publish(&mut filling)?;
            let places = (first..=number).filter(|number| number % every == 0).map(|number| number - first);
            chosen.extend(places.filter_map(|place| receipts.get(usize::try_from(place).ok()?)));
            first = number + 1;
        }
        if number == pending / 2 {
            wait_applied(store)?;
            store.checkpoint()?;
        }
    }
    wait_applied(store)?;
    chosen.truncate(usize::try_from(changes).unwrap_or(usize::MAX));
    // Each batch has messages of all ages: a prime that is no part of their number leads to each of them once.
    let places = (0..chosen.len()).map(|place| place * MIXING_PRIME % chosen.len());
    Ok(places.filter_map(|place| chosen.get(place).copied()).collect())
}

fn cancelled(store: &Store, receipts: &[Receipt]) -> Result<(), Failure> {
    let outcomes = store.cancel_many(receipts)?;
    let done = outcomes.iter().filter(|outcome| **outcome == CancelOutcome::Done).count();
    all_of(done, receipts.len(), "cancelled")
}

fn moved(store: &Store, receipts: &[Receipt]) -> Result<(), Failure> {
    let rows: Vec<(Receipt, Due)> = receipts.iter().map(|receipt| (*receipt, Due::After(far_ms(0)))).collect();
    let outcomes = store.move_many(&rows)?;
    let done = outcomes.iter().filter(|outcome| matches!(outcome, MoveOutcome::Done(_))).count();
    all_of(done, receipts.len(), "moved")
}

fn all_of(done: usize, asked: usize, word: &str) -> Result<(), Failure> {
    if done == asked { Ok(()) } else { Err(Failure(format!("{done} of {asked} were {word}"))) }
}
