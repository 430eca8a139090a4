//! What pending messages take of the disk, and what is left of it when nearly all of them were cancelled.

use std::path::Path;
use std::time::{Duration, Instant};

use delaymq_core::units::{DueKey, Millis, Sequence};
use delaymq_engine::{CancelOutcome, Due, Store, SubscribeOptions};

use crate::case::{Case, Failure, Figures, far_ms, figure, is_writing, now_us, wait_applied};
use crate::memory::anonymous_bytes;

const SUBJECT: &str = "bench.room";
const BATCH: u64 = 10_000;
const BODY_BYTES: u32 = 64;
/// One of so many stays.
const KEPT_OF: u64 = 20;
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// When nothing has become less for so long, nothing more is given back.
const QUIET: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Fills a store and cancels 19 of 20. `value` is bytes for each pending message before that, of all files but the
/// log's; `cancelled` the same behind it, for each that is left; `seconds` how long that took to settle.
pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let pending = case.count("pending")?;
    let store = case.open(|options| options.owner.keep_finished_ms = 0)?;
    let empty = anonymous_bytes();
    let (started, base_ms) = (Instant::now(), now_us() / 1_000);
    let first = filled(&store, pending, base_ms)?;
    let filling = started.elapsed();
    // The log goes when two checkpoints need it no more.
    for _ in 0..2 {
        store.checkpoint()?;
    }
    settled(case, &store)?;
    let full = Taken::by(&case.folder);
    let grown = anonymous_bytes() - empty;
    let cancelling = Instant::now();
    cancel(&store, pending, base_ms, &first)?;
    let cancelled_s = cancelling.elapsed().as_secs_f64();
    let settling = Instant::now();
    settled(case, &store)?;
    let left = Taken::by(&case.folder);
    let settled_s = settling.elapsed().saturating_sub(QUIET).as_secs_f64();
    let rest = store.status()?.pending;
    store.close()?;
    let figures = [
        ("value", figure(full.others) / figure(pending)),
        ("cancelled", figure(left.others) / figure(rest.max(1))),
        ("log_bytes", figure(full.log)),
        ("log_bytes_cancelled", figure(left.log)),
        ("memory_bytes", grown),
        ("filling_s", filling.as_secs_f64()),
        ("cancelling_s", cancelled_s),
        ("settled_s", settled_s),
        ("left", figure(rest)),
    ];
    Ok(Figures::from(figures))
}

/// When the message of this number is due.
fn due_ms(base_ms: u64, number: u64) -> Millis {
    Millis(base_ms + far_ms(number))
}

/// The first sequence of each batch. Receipts of all of them would take more memory than what is measured.
fn filled(store: &Store, pending: u64, base_ms: u64) -> Result<Vec<Sequence>, Failure> {
    let mut batches = Vec::new();
    let mut filling = store.batch();
    for first in (0..pending).step_by(BATCH as usize) {
        for number in first..pending.min(first + BATCH) {
            filling.push(SUBJECT, Due::At(due_ms(base_ms, number)), &[], &[0xA5; BODY_BYTES as usize])?;
        }
        batches.push(store.publish(&mut filling)?.first_sequence());
    }
    wait_applied(store)?;
    Ok(batches)
}

fn cancel(store: &Store, pending: u64, base_ms: u64, batches: &[Sequence]) -> Result<(), Failure> {
    let book = store.subscribe(SUBJECT, "bench", SubscribeOptions::default())?;
    for (number, first) in (0_u64..).zip(batches) {
        let numbers = number * BATCH..pending.min((number + 1) * BATCH);
        let chosen = numbers.filter(|number| number % KEPT_OF != 0);
        let receipts = chosen.map(|one| {
            let key = DueKey { due: due_ms(base_ms, one), sequence: first.plus(one - number * BATCH) };
            book.receipt_of(key, SUBJECT, BODY_BYTES)
        });
        let receipts = receipts.collect::<Result<Vec<_>, _>>()?;
        let outcomes = store.cancel_many(&receipts)?;
        if outcomes.iter().any(|outcome| *outcome != CancelOutcome::Done) {
            return Err(Failure("not all of it was cancelled".to_owned()));
        }
    }
    book.close()?;
    Ok(())
}

/// Waits until what the files take does not become less any more.
fn settled(case: &Case, store: &Store) -> Result<(), Failure> {
    wait_applied(store)?;
    let (started, mut since, mut least) = (Instant::now(), Instant::now(), u64::MAX);
    while since.elapsed() < QUIET && started.elapsed() < WAIT_MAX {
        let taken = Taken::by(&case.folder);
        if taken.log + taken.others < least || is_writing(&case.folder) {
            (since, least) = (Instant::now(), (taken.log + taken.others).min(least));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Bytes that files take of the disk.
struct Taken {
    log: u64,
    others: u64,
}

impl Taken {
    fn by(folder: &Path) -> Self {
        Self {
            log: blocks(&folder.join("log")),
            others: blocks(&folder.join("runs")) + blocks(&folder.join("checkpoints")),
        }
    }
}

fn blocks(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;

    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.blocks() * 512).sum()
}
