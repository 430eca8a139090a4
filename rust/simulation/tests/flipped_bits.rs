//! One flipped bit at every position of every file of a small store that holds every kind of
//! record: each is found, or harmless, and which is harmless is told by name.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::print_stdout, reason = "a test may")]

mod rig;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::Error;
use delaymq_core::message_log::segment_path;
use delaymq_core::record::Records;
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{Outcome, verify};
use delaymq_core::units::{Sequence, padded};
use delaymq_simulation::disk::End;
use delaymq_simulation::node::Pulled;
use delaymq_simulation::replica::Replica;
use rig::{Rig, small};

/// Every kind of record, two checkpoints, runs of both kinds, and a tail behind them.
fn small_store() -> Rig {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 3;
    let group = rig.group("s", "g", GroupStart::Earliest);
    let place = (group, rig.consumer(group, "c"));
    rig.publish("s", 0, "acknowledged");
    rig.publish("s", 0, "given back");
    rig.publish("s", 0, "to be damaged");
    rig.publish("s", 40, "made ready");
    rig.publish("s", 60_000, "copied into a run");
    let cancelled = rig.publish("s", 60_000, "cancelled");
    rig.node().witness().unwrap();
    let Some((path, offset)) = place_of(&rig, b"to be damaged") else { panic!("it is not in the log") };
    rig.disk.storage().damage(&path, offset, 1);
    let handed = rig.pull(place);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    rig.give_back(("s", "g"), place, &handed[1], 70_000);
    rig.settle();
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    rig.pass(40);
    rig.checkpoint();
    rig.publish("s", 0, "ready in memory");
    let ended = rig.group("s", "ended", GroupStart::Latest);
    rig.consumer(ended, "c");
    rig.node().end_group(ended, 0).unwrap();
    rig.settle();
    rig.checkpoint();
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    rig.publish("s", 500, "behind the checkpoint");
    rig
}

fn place_of(rig: &Rig, text: &[u8]) -> Option<(String, u64)> {
    let image = rig.disk.storage().image();
    let mut found = None;
    for (path, bytes) in image {
        if let Some(offset) = bytes.windows(text.len()).position(|window| window == text) {
            found = Some((path, offset as u64));
        }
    }
    found
}

/// The kinds of record in the log, and the offsets of padding in its segments.
fn survey(rig: &mut Rig) -> (BTreeSet<u8>, BTreeSet<(String, usize)>) {
    let copy = rig.disk.copy();
    let node = rig.node();
    let mut replica = Replica::new(*node.identity()).unwrap();
    let batches = replica.catch_up(&copy, node.appender().written().location).unwrap();
    let (mut kinds, mut padding) = (BTreeSet::new(), BTreeSet::new());
    for batch in &batches {
        let base = Sequence(batch.header.base_sequence.get());
        let path = segment_path(batch.start.segment().unwrap());
        for (at, record) in Records::new(batch.visible().records, base).flatten() {
            kinds.insert(record.header.kind);
            let start = batch.start.offset() as usize + BATCH_HEADER_BYTES + at;
            let length = record.header.length.get() as usize;
            padding.extend((start + length..start + padded(length)).map(|offset| (path.clone(), offset)));
        }
    }
    (kinds, padding)
}

/// What one flipped bit has led to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Found {
    Refused,
    TornTail,
    OtherCheckpoint,
    Voided,
    Rescued,
    OnlyByVerify,
    Harmless,
}

struct Expected {
    messages: Vec<String>,
    voided: u64,
    findings: Vec<String>,
}

fn contents(rig: &mut Rig) -> (Vec<String>, u64) {
    rig.in_flight_max = 100;
    let mut found = Vec::new();
    for (subject, group) in [("s", "g"), ("%RETRY%s%g", "g")] {
        let place = rig.earliest(subject, group);
        for _ in 0..2 {
            rig.pass(100_000);
            let mut quiet = 0;
            while quiet < 3 {
                let pulled = rig.pull_once(place);
                rig.settle();
                let Pulled::Messages(handed, _) = pulled else {
                    quiet += 1;
                    continue;
                };
                quiet = 0;
                let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
                found.extend(handed.into_iter().map(|one| String::from_utf8(one.body).unwrap()));
                if !offsets.is_empty() {
                    rig.acknowledge(place, &offsets);
                }
            }
        }
    }
    found.sort();
    let voided = rig.node().owner().state().voided;
    (found, voided)
}

/// Opens, consumes everything, and says how the damage showed.
fn judge(rig: &mut Rig, expected: &Expected, what: &str) -> Found {
    let before = rig.disk.storage().image();
    let damaged = rig.disk.copy();
    match rig.try_open() {
        Ok(()) => {}
        Err(
            Error::Corrupt { .. } | Error::MissingFile { .. } | Error::NewerFormat { .. } | Error::NotAStore { .. },
        ) => {
            assert_eq!(rig.disk.storage().image(), before, "{what}: refused, and files were touched");
            return Found::Refused;
        }
        Err(error) => panic!("{what}: {error}"),
    }
    let recovered = rig.node().recovered().clone();
    let identity = *rig.node().identity();
    let (messages, voided) = contents(rig);
    if !recovered.checkpoints_refused.is_empty() {
        assert_eq!(messages, expected.messages, "{what}");
        return Found::OtherCheckpoint;
    }
    if !recovered.set_aside.is_empty() {
        let mut without = expected.messages.clone();
        without.retain(|body| body != "behind the checkpoint");
        assert!(messages == without || messages == expected.messages, "{what}: {messages:?}");
        return Found::TornTail;
    }
    if voided > expected.voided {
        let lost = expected.messages.len() - messages.len();
        assert!(lost as u64 <= voided - expected.voided, "{what}: {messages:?}");
        assert!(messages.iter().all(|body| expected.messages.contains(body)), "{what}: {messages:?}");
        return Found::Voided;
    }
    assert_eq!((&messages, voided), (&expected.messages, expected.voided), "{what}: silently changed");
    if !rig.node().take_rescues().is_empty() {
        return Found::Rescued;
    }
    let findings = verify(&damaged, &identity).unwrap().findings;
    if findings == expected.findings { Found::Harmless } else { Found::OnlyByVerify }
}

/// The part of a file that a byte belongs to, in words.
fn part_of(path: &str, bytes: &[u8], offset: usize, padding: &BTreeSet<(String, usize)>) -> String {
    let damaged = bytes.windows(12).position(|window| window == b"o be damaged").unwrap_or(usize::MAX);
    let folder = path.split('/').next().unwrap_or(path);
    let is_zero = bytes[offset] == 0;
    let behind = bytes[offset..].iter().all(|byte| *byte == 0);
    match folder {
        "log" if path.ends_with("01.segment") => "log: the first segment, empty, below every floor".to_owned(),
        "log" if (52..4_096).contains(&offset) => "log: zeros behind a segment's header".to_owned(),
        "log" if behind => "log: zeros behind the end".to_owned(),
        "log" if padding.contains(&(path.to_owned(), offset)) => "log: padding of a record".to_owned(),
        "log" if offset + 1 >= damaged && offset < damaged.saturating_add(12) => {
            "log: the payload that was damaged before".to_owned()
        }
        "runs" if offset < 4_096 => "runs: the header block, which opening does not read".to_owned(),
        "runs" if is_zero => "runs: padding".to_owned(),
        "aside" => "aside: evidence".to_owned(),
        _ => format!("{path}: byte {offset}"),
    }
}

fn flip_all(every_bit: bool) {
    let mut base = small_store();
    let (kinds, padding) = survey(&mut base);
    let all: BTreeSet<u8> = (1..=15).filter(|kind| *kind != 3).collect();
    assert_eq!(kinds, all, "every kind of record");
    let identity = *base.node().identity();
    let mut whole = base.fork(End::Kill, 1);
    whole.try_open().unwrap();
    let (messages, voided) = contents(&mut whole);
    let findings = verify(&base.disk.copy(), &identity).unwrap().findings;
    let expected = Expected { messages, voided, findings };
    assert_eq!(expected.messages.len(), 5, "{:?}", expected.messages);
    let mut counts: BTreeMap<Found, u64> = BTreeMap::new();
    let mut harmless: BTreeMap<String, u64> = BTreeMap::new();
    let mut positions = 0_u64;
    for (path, bytes) in &base.disk.storage().image() {
        for offset in 0..bytes.len() {
            let near_content =
                bytes[offset.saturating_sub(4)..bytes.len().min(offset + 5)].iter().any(|byte| *byte != 0);
            if !every_bit && !near_content && offset % 61 != 0 {
                continue;
            }
            positions += 1;
            let bits =
                if every_bit || (near_content && !cfg!(debug_assertions)) { 0..8 } else { offset % 8..offset % 8 + 1 };
            for bit in bits {
                let mut rig = base.fork(End::Kill, 1);
                assert!(rig.disk.storage().damage(path, offset as u64, 1 << bit));
                let found = judge(&mut rig, &expected, &format!("{path} offset {offset} bit {bit}"));
                *counts.entry(found).or_default() += 1;
                if found == Found::Harmless {
                    *harmless.entry(part_of(path, bytes, offset, &padding)).or_default() += 1;
                }
            }
        }
    }
    let bits: u64 = counts.values().sum();
    println!("{bits} bits at {positions} positions of {} files: {counts:?}", base.files().len());
    for (part, count) in harmless.iter().take(30) {
        println!("  harmless: {count} in {part}");
    }
    let unnamed: Vec<&String> = harmless.keys().filter(|part| part.contains("byte")).collect();
    assert!(unnamed.is_empty(), "{} such as {:?}", unnamed.len(), unnamed.iter().take(20).collect::<Vec<_>>());
    assert!(counts.contains_key(&Found::Refused) && counts.contains_key(&Found::Voided));
}

/// At every position that holds something or lies beside it one bit, or in release all eight, and
/// samples of the zeros.
#[test]
fn a_flipped_bit_at_every_position_is_found_or_harmless_by_name() {
    flip_all(false);
}

/// All eight bits at every position: minutes, so only where it is asked for.
#[test]
#[ignore = "takes minutes; run it in release"]
fn all_flipped_bits_at_every_position_are_found_or_harmless_by_name() {
    flip_all(true);
}
