//! Cancels or moves a second, of messages of any age: half of what is pending lies in runs, the rest in memory.

use std::time::Instant;

use delaymq_core::store::Receipt;
use delaymq_engine::{CancelOutcome, Due, IfExists, MoveOutcome, PublishTerms, Store};

use crate::case::{Case, Failure, Figures, bytes_read, far_ms, figure, rate, wait_applied};
use crate::memory::anonymous_bytes;

const SUBJECT: &str = "bench.changes";
const PUBLISH_BATCH: u64 = 10_000;
/// More than may be changed.
const MIXING_PRIME: usize = 514_229;

/// Changes `changes` of `pending` messages, spread over all of them, `batch` at a time, each batch durable before the
/// next one, by receipts or `by_key`. `read_bytes` is what this process has read meanwhile, checkpoints in the background
/// among it; `memory_bytes` is what each pending message took when the first half was in runs.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let batch = usize::try_from(case.count("batch")?).unwrap_or(1);
    let store = case.open(|options| {
        options.owner.keep_finished_ms = 0;
        options.terms.keys_max = u32::MAX;
    })?;
    let (chosen, memory_bytes) = published(case, &store)?;
    let (moves, by_key) = (case.flag("moves"), case.flag("by_key"));
    let read_before = bytes_read();
    let started = Instant::now();
    let mut slowest = std::time::Duration::ZERO;
    for part in chosen.chunks(batch) {
        let began = Instant::now();
        match (moves, by_key) {
            (false, false) => cancelled(part.len(), &store.cancel_many(&receipts(part))?)?,
            (false, true) => cancelled(part.len(), &store.cancel_keys(SUBJECT, &keys(part), None)?)?,
            (true, false) => moved(part.len(), &store.move_many(&to_another_time(receipts(part)))?)?,
            (true, true) => moved(part.len(), &store.move_keys(SUBJECT, &to_another_time(keys(part)), None)?)?,
        }
        slowest = slowest.max(began.elapsed());
    }
    let time = started.elapsed();
    let read = bytes_read() - read_before;
    store.close()?;
    let figures = [
        ("value", rate(chosen.len() as u64, time)),
        ("batch_ms_max", slowest.as_secs_f64() * 1e3),
        ("read_bytes", read),
        ("changed", figure(chosen.len() as u64)),
        ("memory_bytes", memory_bytes),
    ];
    Ok(Figures::from(figures))
}

/// One that is to be changed: which one it is, and its receipt.
type Chosen = (u64, Receipt);

/// Publishes, has the first half put into runs, and returns what is to be changed, and what each pending message took of the
/// memory then, in bytes.
fn published(case: &Case, store: &Store) -> Result<(Vec<Chosen>, f64), Failure> {
    let (pending, changes) = (case.count("pending")?, case.count("changes")?);
    let every = (pending / changes.max(1)).max(1);
    let mut chosen = Vec::with_capacity(usize::try_from(changes).unwrap_or(0));
    let mut filling = store.batch();
    let mut first = 0;
    let (empty, mut memory_bytes) = (anonymous_bytes(), 0.0);
    for number in 0..pending {
        let due = Due::After(far_ms(number));
        if case.flag("by_key") {
            let key = number.to_string();
            let terms =
                PublishTerms { key: Some(&key), if_exists: IfExists::Refuse, deduplicates: false, expires: None };
            filling.push_on_terms(SUBJECT, due, (&[], &[0xA5; 64]), &terms)?;
        } else {
            filling.push(SUBJECT, due, &[], &[0xA5; 64])?;
        }
        if filling.len() as u64 == PUBLISH_BATCH || number + 1 == pending {
            let receipts = store.publish(&mut filling)?;
            let places = (first..=number).filter(|number| number % every == 0);
            let receipt = |number: u64| Some((number, receipts.get(usize::try_from(number - first).ok()?)?));
            chosen.extend(places.filter_map(receipt));
            first = number + 1;
        }
        if number == pending / 2 {
            wait_applied(store)?;
            store.checkpoint()?;
            memory_bytes = (anonymous_bytes() - empty).max(0.0) / figure(number + 1);
        }
    }
    wait_applied(store)?;
    chosen.truncate(usize::try_from(changes).unwrap_or(usize::MAX));
    // Each batch has messages of all ages: a prime that is no part of their number leads to each of them once.
    let places = (0..chosen.len()).map(|place| place * MIXING_PRIME % chosen.len());
    Ok((places.filter_map(|place| chosen.get(place).copied()).collect(), memory_bytes))
}

fn receipts(part: &[Chosen]) -> Vec<Receipt> {
    part.iter().map(|(_, receipt)| *receipt).collect()
}

fn keys(part: &[Chosen]) -> Vec<String> {
    part.iter().map(|(number, _)| number.to_string()).collect()
}

fn to_another_time<T>(named: Vec<T>) -> Vec<(T, Due)> {
    named.into_iter().map(|one| (one, Due::After(far_ms(0)))).collect()
}

fn cancelled(asked: usize, outcomes: &[CancelOutcome]) -> Result<(), Failure> {
    let done = outcomes.iter().filter(|outcome| **outcome == CancelOutcome::Done).count();
    all_of(done, asked, "cancelled")
}

fn moved(asked: usize, outcomes: &[MoveOutcome]) -> Result<(), Failure> {
    let done = outcomes.iter().filter(|outcome| matches!(outcome, MoveOutcome::Done(_))).count();
    all_of(done, asked, "moved")
}

fn all_of(done: usize, asked: usize, word: &str) -> Result<(), Failure> {
    if done == asked { Ok(()) } else { Err(Failure(format!("{done} of {asked} were {word}"))) }
}
