//! The golden store of this format: made here, kept in `tests/golden/stores`, and opened by every later build.
//!
//! `DELAYMQ_WRITE_GOLDEN=1` writes it again.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

use crate::rig::keyed::{asked, move_keyed, publish_keyed, tried};
use crate::rig::{Rig, START, small};
use delaymq_core::error::Error;
use delaymq_core::record::FORMAT_VERSION;
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::Outcome;
use delaymq_core::store::StartAt;
use delaymq_simulation::disk::{Disk, End};
use delaymq_simulation::node::{Due, NewRecurring};
use delaymq_simulation::planted::KnowsNext;
use delaymq_simulation::small_worlds::golden_store::lay;

/// The made-up format that follows.
const NEXT_FORMAT: u32 = FORMAT_VERSION + 1;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
const NAMES: (&str, &str) = ("orders", "billing");
/// Bytes of a line of a golden text.
const LINE_BYTES: usize = 32;

/// Messages in every state: pending, ready, held, acknowledged, given back, dead, cancelled, moved, keyed, recurring.
/// Two checkpoints, and facts behind them. Less than five seconds pass.
fn made() -> Rig {
    let mut rig = Rig::new(small());
    rig.publish("orders", 0, "the first order");
    let billing = rig.earliest("orders", "billing");
    rig.group("orders", "shipping", StartAt::Latest);
    rig.attach("orders", "audit", StartAt::Unfinished, "host-7@@0a1b", 16);
    for number in 0..12 {
        rig.publish("orders", 0, &format!("order {number}"));
    }
    let handed = rig.pull(billing);
    let offsets: Vec<u64> = handed.iter().take(4).map(|one| one.delivery.offset.0).collect();
    rig.acknowledge(billing, &offsets);
    rig.give_back(NAMES, billing, &handed[4], 10 * MINUTE_MS);
    rig.node().dead_letter(NAMES, billing, &handed[5].delivery, "no such order", 0).unwrap();
    rig.settle();
    let pending: Vec<_> =
        (0..8).map(|day| rig.publish("reminders", DAY_MS * (day + 1), &format!("copied into a run {day}"))).collect();
    assert_eq!(rig.cancel(&pending[0]), Outcome::Done);
    let moved = rig.moved(&pending[1], Due::After(5 * DAY_MS));
    rig.moved(&moved, Due::At(START.plus(9 * DAY_MS)));
    publish_keyed(&mut rig, "reminders", "renewal-1", 3 * DAY_MS, "it has a key");
    publish_keyed(&mut rig, "reminders", "renewal-2", 4 * DAY_MS, "its key is moved");
    move_keyed(&mut rig, "reminders", "renewal-2", 6 * DAY_MS);
    publish_keyed(&mut rig, "reminders", "renewal-3", 400, "it is dispatched, and its key remembered");
    let series = NewRecurring {
        subject: "reports",
        name: "daily",
        if_exists: IfExists::Refuse,
        rule: "30 9 * * *",
        catch_up: CatchUp::One,
        after: START,
        body: b"a report",
    };
    let begun = tried(&mut rig, |node| node.begin_series(&series).unwrap());
    assert_eq!(rig.node().take_outcome(begun), Some(Outcome::SeriesBegun(None)));
    rig.pass(500);
    let mut proposed = Vec::new();
    rig.node().propose_occurrences(1, false, &mut proposed).unwrap();
    rig.settle();
    assert_eq!(proposed.len(), 1, "the first report waits");
    rig.checkpoint();
    for day in 0..5 {
        rig.publish("reminders", DAY_MS * (10 + day), &format!("of the second run {day}"));
    }
    rig.pass(500);
    rig.checkpoint();
    behind(&mut rig);
    rig
}

/// What comes behind the newest checkpoint.
fn behind(rig: &mut Rig) {
    let last = rig.publish("reminders", 15 * DAY_MS, "behind the checkpoints");
    rig.publish("orders", 0, "an order behind the checkpoints");
    rig.moved(&last, Due::After(16 * DAY_MS));
    assert_eq!(asked(rig, |node| node.cancel_key("reminders", "renewal-1", None).unwrap()), Outcome::Done);
    rig.pass(500);
}

/// Each file as hex, behind a line with its path. A line of zeros that repeats the one before is counted.
fn text_of(rig: &Rig) -> String {
    let mut text = String::new();
    for (path, bytes) in rig.disk.storage().image() {
        writeln!(text, "# path: {path}").unwrap();
        let (mut before, mut repeated): (&[u8], usize) = (&[], 0);
        for line in bytes.chunks(LINE_BYTES) {
            if before == line && line.iter().all(|byte| *byte == 0) {
                repeated += 1;
                continue;
            }
            if repeated > 0 {
                writeln!(text, "* {repeated}").unwrap();
            }
            (before, repeated) = (line, 0);
            for byte in line {
                write!(text, "{byte:02x}").unwrap();
            }
            text.push('\n');
        }
        if repeated > 0 {
            writeln!(text, "* {repeated}").unwrap();
        }
    }
    text
}

fn path() -> PathBuf {
    let name = format!("../../tests/golden/stores/format_{FORMAT_VERSION}.hex");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A machine with the golden store on its disk.
fn found() -> Rig {
    let mut rig = Rig::new(small());
    rig.end(End::Kill);
    rig.disk = Disk::new(1);
    rig.clock.advance(5_000);
    lay(rig.disk.storage(), &fs::read_to_string(path()).unwrap()).unwrap();
    rig
}

#[test]
fn the_golden_store_is_opened_as_it_was_left() {
    let mut made = made();
    if env::var_os("DELAYMQ_WRITE_GOLDEN").is_some() {
        fs::write(path(), text_of(&made)).unwrap();
    }
    made.reopen(End::Kill);
    let mut found = found();
    found.try_open().unwrap();
    found.compare_with_log();
    assert_eq!(found.node().owner().state().pending_counts(), made.node().owner().state().pending_counts());
    let groups = made.node().owner().state().list_groups();
    assert_eq!(found.node().owner().state().list_groups(), groups);
    found.checkpoint();
    for (key, outcome) in [("renewal-3", Outcome::AlreadyDispatched), ("renewal-1", Outcome::NotFound)] {
        assert_eq!(asked(&mut found, |node| node.cancel_key("reminders", key, None).unwrap()), outcome, "{key}");
    }
    let identity = *found.node().identity();
    found.close();
    found.verify(&identity);
}

/// The format that the header of a file says.
fn format_of(rig: &Rig, path: &str) -> u32 {
    let image = rig.disk.storage().image();
    image[path].get(8..).and_then(|bytes| bytes.first_chunk()).copied().map(u32::from_le_bytes).unwrap()
}

/// The next format is made up, and has one more number in a checkpoint.
#[test]
fn a_build_of_the_next_format_takes_a_store_over_and_no_earlier_build_opens_it_again() {
    let mut rig = found();
    let oldest = rig.newest("checkpoints/");
    assert_eq!((format_of(&rig, "identity"), format_of(&rig, &oldest)), (FORMAT_VERSION, FORMAT_VERSION));
    let counts = {
        let _next = KnowsNext::new();
        rig.try_open().unwrap();
        rig.checkpoint();
        rig.publish("orders", 0, "behind the first checkpoint of the next format");
        let counts = rig.node().owner().state().pending_counts();
        rig.reopen(End::PowerCutLosesAll);
        assert_eq!(rig.node().owner().state().pending_counts(), counts);
        rig.compare_with_log();
        counts
    };
    assert!(!counts.is_empty());
    assert_eq!((format_of(&rig, &oldest), format_of(&rig, &rig.newest("checkpoints/"))), (FORMAT_VERSION, NEXT_FORMAT));
    rig.end(End::Kill);
    let before = rig.disk.storage().image();
    let refused = rig.try_open();
    assert!(matches!(refused, Err(Error::NewerFormat { found: NEXT_FORMAT, .. })), "{refused:?}");
    assert!(rig.disk.storage().image() == before, "a refused store was touched");
}
