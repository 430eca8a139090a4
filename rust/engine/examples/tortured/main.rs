//! A store that a harness outside tortures: it kills this process, cuts the power of its disk, fills
//! it. What is attempted and what came of it is told on standard output, line by line, each before the
//! act that it announces or after the answer that it reports, so that the harness can judge.
//!
//! ```text
//! tortured work  --store DIR --life N [--seed N] [OPTION VALUE]…   publishes, cancels, consumes
//! tortured drain --store DIR --life N [OPTION VALUE]…              consumes until nothing comes, closes
//!
//!   --life N                 how often the harness started it before: part of each id
//!   --seed N                 of all choices (0)
//!   --steps N                ends by itself, closed, after so many steps of the publisher (0: never)
//!   --messages-per-second N  publishes not faster than this (2000)
//!   --submitted-percent N    of publishes that another thread commits (25)
//!   --delay-ms-max N         of delays that are usual (1500)
//!   --far-ms-max N           of one publish in ten; runs hold them (8000)
//!   --body-bytes-max N       (400)
//!   --subjects N             beside the subject `ordered` (2)
//!   --groups N               of every subject (2)
//!   --in-flight N            unacknowledged messages of one consumer (64)
//!   --durability disk|os     (disk)
//!   --segment-bytes N        of the log, when the store is made (65536)
//!   --checkpoint-facts N     facts after which a checkpoint is due (400)
//!   --copy-after-ms N        what is due later is copied into runs (500)
//!   --keep-finished-ms N     before segments and runs retire (0)
//!   --change ID=RECEIPT      a message of an earlier life to cancel or move; may be repeated
//!   --quiet-ms N             `drain` ends when nothing came for this long and nothing is pending (1000)
//!   --drain-seconds N        `drain` gives up after this long (60)
//!   --verify yes|no          `drain` reads every byte of the closed store (no)
//!   --terms yes|no           keys, ids that are told by, and a message that recurs (no)
//!   --forgets NAME           a disk that lies: `syncs`, `folder-syncs`
//!   --sync-after-ms N        a disk that begins each sync so late (0)
//!   --planted NAME           a fault of the core, in builds with the feature `planted`
//! ```
//!
//! Each line is one JSON object with `kind` and `at_ms`, the wall clock in whole milliseconds. Lines that
//! end with a line feed are whole; what is behind the last one was cut off and was not done.
//!
//! | `kind` | fields | when |
//! |---|---|---|
//! | `start` | `epoch`, `opened_us`, `recovered_facts`, `pending` | the store is open |
//! | `publish` | `id`, `subject`, `digest`, `batch`, and `due_ms` or `delay_ms` | before; all of a batch are one publish |
//! | `published` | `id`, `result`: `acknowledged`, `refused`, `ambiguous`; `receipt` of one that is due late | after |
//! | `publish` on terms | the same, and `key` with `if_exists`: `replace`, `keep`, `error`; or `deduplicate` | before |
//! | `published` on terms | `result` may be `kept`, too; `sequence` of the one that is there | after |
//! | `series` | `id`, `subject`, `digest`, `every_ms` | before it is begun, or found |
//! | `series_made` | `id`, `result` as of `published`, `next_ms` | after; when its next one is due |
//! | `series_end` | `id`, `next_ms` | before `drain` ends it; when its next one was due |
//! | `series_ended` | `id`, `result`: `done`, `not_found` | after |
//! | `cancel` | `id` | before |
//! | `cancelled` | `id`, `result`: `done`, `already_dispatched`, `not_found`, `refused`, `ambiguous` | after |
//! | `delivered` | `id`, `subject`, `digest`, `group`, `consumer`, `attempt`, `redelivered`; `number` on `ordered` | when it came |
//! | `acknowledge` | `id`, `group` | before |
//! | `acknowledged` | `id`, `group`, `result`: `acknowledged` | after; never where it is in doubt |
//! | `returned` | `id`, `group`, `delay_ms` | before it is given back |
//! | `left` | `consumer` | before it leaves, with what it holds |
//! | `dead` | `id`, `group` | `drain` found it among the dead letters |
//! | `ended` | `cause`, `error` | last, for the harness: this is no line of a ledger |
//!
//! An act that was announced and of which nothing was told is in doubt. The id stands in the body, up to
//! the first space; the digest is FNV-1a over the whole body. Messages on `ordered` are due at once and
//! numbered, so that each consumer must get their first deliveries in ascending order. An occurrence of a series has the
//! id of that, `@`, and when it was due first.
//!
//! | exit | `cause` | |
//! |---|---|---|
//! | 0 | `done` | the steps are done, or it is drained and, where asked, verified; closed |
//! | 2 | | the command line is wrong |
//! | 3 | `refused` | the open refused what it found: damaged, missing, newer, no store |
//! | 4 | `poisoned` | a write or a sync failed and the store stopped, as it must |
//! | 5 | `storage` | the file system failed otherwise, or was full while the store opened |
//! | 6 | `locked` | another process has the store |
//! | 7 | `unexpected` | an error that must not be |
//! | 8 | `damaged` | closed, and then the verification found something |
//! | 9 | `undrained` | there are pending messages after `--drain-seconds` |
//! | 10 | `deaf` | nobody reads standard output |
#![expect(clippy::print_stderr, reason = "a tool for harnesses, which read what is wrong with their command line")]

mod arguments;
mod chance;
mod consuming;
mod draining;
mod ending;
mod forgetful;
mod on_terms;
mod planting;
mod publishing;
mod recurring;
mod telling;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_engine::{FileStorage, OwnerOptions, Store};

use arguments::{Arguments, Forgets};
use ending::{Cause, end, end_with};
use forgetful::ForgetfulStorage;
use telling::{Line, Telling};

const WRONG_COMMAND_LINE: i32 = 2;

fn main() {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            eprintln!("tortured: {wrong}");
            std::process::exit(WRONG_COMMAND_LINE);
        }
    };
    if let Err(wrong) = planting::plant(arguments.planted.as_deref()) {
        eprintln!("tortured: {wrong}");
        std::process::exit(WRONG_COMMAND_LINE);
    }
    let telling = Telling::default();
    let began = Instant::now();
    let store = match open(&arguments) {
        Ok(store) => store,
        Err(error) => end_with(&telling, Cause::of_open(&error), &error),
    };
    if let Err(error) = tell_start(&telling, &store, began) {
        end_with(&telling, Cause::of(&error), &error);
    }
    let ended = if arguments.is_drain {
        draining::drain(&arguments, &telling, store)
    } else {
        work(&arguments, &telling, &store)
    };
    match ended {
        Ok(()) => end(&telling, Cause::Done, ""),
        Err(error) => end_with(&telling, Cause::of(&error), &error),
    }
}

fn open(arguments: &Arguments) -> Result<Arc<Store>> {
    let owner = OwnerOptions {
        checkpoint_facts: arguments.checkpoint_facts,
        checkpoint_bytes: 8 * u64::from(arguments.segment_bytes),
        copy_after_ms: arguments.copy_after_ms,
        keep_finished_ms: arguments.keep_finished_ms,
        ..OwnerOptions::default()
    };
    let options = delaymq_engine::Options {
        durability: arguments.durability,
        segment_bytes: arguments.segment_bytes,
        owner,
        ..delaymq_engine::Options::default()
    };
    let files: Arc<dyn Storage> = Arc::new(FileStorage::open(&arguments.store, true)?);
    let sync_after = Duration::from_millis(arguments.sync_after_ms);
    let storage = if arguments.forgets == Forgets::Nothing && sync_after.is_zero() {
        files
    } else {
        Arc::new(ForgetfulStorage::new(files, arguments.forgets, sync_after))
    };
    Store::open_on(storage, &arguments.store, options, &mut |_| {})
}

fn tell_start(telling: &Telling, store: &Store, began: Instant) -> Result<()> {
    let opened_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    let status = store.status()?;
    let line = Line::of("start").number("epoch", status.epoch.0.into()).number("opened_us", opened_us);
    telling.tell(&[line.number("recovered_facts", status.recovered_facts).number("pending", status.pending)]);
    Ok(())
}

/// Consumes on one thread for each group and publishes on this one, until it is killed, has made its
/// steps, or the store ends.
fn work(arguments: &Arguments, telling: &Telling, store: &Arc<Store>) -> Result<()> {
    let groups = consuming::subscribe_all(arguments, store)?;
    if arguments.has_terms {
        recurring::begin(telling, store)?;
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let consumers: Vec<_> = groups
            .into_iter()
            .map(|group| {
                let is_over = &is_over;
                scope.spawn(move || match group.consume(telling, is_over) {
                    Ok(()) => {}
                    Err(error) => end_with(telling, Cause::of(&error), &error),
                })
            })
            .collect();
        let published = publishing::publish(arguments, telling, store);
        is_over.store(true, Ordering::SeqCst);
        for consumer in consumers {
            if consumer.join().is_err() {
                end(telling, Cause::Unexpected, "a consumer panicked");
            }
        }
        published
    })?;
    store.close()
}
