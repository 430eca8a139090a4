//! Flips bits of every byte of every file of a small store that has every kind of record. Each flip is found or
//! harmless, and the harmless parts are known by name.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::rig::keyed::asked;
use crate::rig::{Place, Rig, START, bodies_of, small};
use delaymq_core::error::Error;
use delaymq_core::message_log::segment_path;
use delaymq_core::record::batch::BATCH_HEADER_BYTES;
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::{IfExists, NameHash, TermsLimits};
use delaymq_core::record::{KINDS, Records};
use delaymq_core::run::LoadName;
use delaymq_core::store::StartAt;
use delaymq_core::store::{Offer, Outcome, PullRequest, verify};
use delaymq_core::units::{Sequence, padded};
use delaymq_simulation::disk::End;
use delaymq_simulation::ledger::StagedLine;
use delaymq_simulation::node::{Due, NewMessage, NewRecurring, NewRow, NewTerms, Pulled, stage};
use delaymq_simulation::replica::Replica;

const NAMES: (&str, &str) = ("s", "g");
const STAGED: LoadName = LoadName { staged: START, nonce: [7; 16] };

/// Every kind of record, a loaded run, two checkpoints, runs of both kinds, and a tail behind them.
fn small_store() -> Rig {
    let mut rig = Rig::new(small());
    rig.in_flight_max = 3;
    let group = rig.group("s", "g", StartAt::Unfinished);
    let place = (group, rig.consumer(group, "c"));
    rig.publish("s", 0, "acknowledged");
    rig.publish("s", 0, "given back");
    rig.publish("s", 0, "to be damaged");
    rig.publish("s", 40, "made ready");
    rig.publish("s", 60_000, "copied into a run");
    let cancelled = rig.publish("s", 60_000, "cancelled");
    let moved = rig.publish("s", 60_000, "moved out of a run");
    publish_with_key(&mut rig, "key in the checkpoint");
    rig.node().witness().unwrap();
    let Some((path, offset)) = place_of(&rig, b"to be damaged") else { panic!("it is not in the log") };
    rig.disk.storage().damage(&path, offset, 1);
    let handed = rig.pull(place);
    rig.acknowledge(place, &[handed[0].delivery.offset.0]);
    rig.give_back(NAMES, place, &handed[1], 70_000);
    rig.settle();
    assert_eq!(rig.cancel(&cancelled), Outcome::Done);
    die_and_come_back(&mut rig, place);
    expire_and_begin_again(&mut rig);
    keep_back(&mut rig);
    rig.node().prepare().unwrap();
    rig.pass(40);
    rig.checkpoint();
    rig.publish("s", 0, "ready in memory");
    load(&mut rig);
    let (ended, _) = rig.attach("s", "ended", StartAt::Latest, "client", 8);
    rig.node().end_group(ended, 0).unwrap();
    rig.settle();
    rig.checkpoint();
    rig.node().end_consumer(place.0, place.1, 0).unwrap();
    rig.settle();
    assert!(matches!(rig.move_to(&moved, Due::After(50_000)), Outcome::Moved(_)));
    publish_with_key(&mut rig, "key behind the checkpoint");
    cancel_by_key(&mut rig, "key behind the checkpoint");
    begin_a_series(&mut rig);
    rig.publish("s", 500, "behind the checkpoint");
    rig
}

fn publish_with_key(rig: &mut Rig, key: &str) {
    let limits = TermsLimits { keys_max: 10, ids_max: 10, id_window_ms: 600_000 };
    let terms = NewTerms { key: Some(key.to_owned()), if_exists: IfExists::Refuse, id: Some(format!("id of {key}")) };
    let message = NewMessage { subject: "s", due: Due::After(60_000), body: key.as_bytes(), expires: None, meta: b"" };
    rig.node().publish_on_terms(&[(message, terms)], limits).unwrap().unwrap();
    rig.settle();
}

fn rows() -> [NewRow; 2] {
    [("loaded", 90), ("loaded for later", 60_000)].map(|(body, delay_ms)| {
        let (subject, body) = ("s".to_owned(), body.as_bytes().to_vec());
        NewRow { subject, due: START.plus(delay_ms), body }
    })
}

fn load(rig: &mut Rig) {
    let runs = stage(rig.disk.shared().as_ref(), &rows(), STAGED, 100).unwrap();
    let fact = rig.node().load(NameHash { low: 1, high: 2 }, &runs).unwrap().unwrap();
    rig.settle();
    assert_eq!(rig.node().take_outcome(fact), Some(Outcome::Loaded(fact, 2)));
}

fn cancel_by_key(rig: &mut Rig, key: &str) {
    assert_eq!(asked(rig, |node| node.cancel_key("s", key, None).unwrap()), Outcome::Done);
}

/// A message that recurs, with its first occurrence.
fn begin_a_series(rig: &mut Rig) {
    let (subject, name, rule, body) = ("s", "series", "every 60000ms", &b"occurs"[..]);
    let (if_exists, catch_up) = (IfExists::Refuse, CatchUp::One);
    let series = NewRecurring { subject, name, if_exists, rule, catch_up, after: START, body };
    assert_eq!(asked(rig, |node| node.begin_series(&series).unwrap()), Outcome::SeriesBegun(None));
    let mut proposed = Vec::new();
    rig.node().propose_occurrences(1, false, &mut proposed).unwrap();
    rig.settle();
    assert_eq!(proposed.len(), 1);
}

/// A message becomes a dead letter, and an operator brings it back.
fn die_and_come_back(rig: &mut Rig, place: Place) {
    rig.publish("s", 0, "brought back");
    let handed = rig.pull(place);
    assert_eq!(bodies_of(&handed), ["brought back"]);
    rig.node().dead_letter(NAMES, place, &handed[0].delivery, "no such order", 0).unwrap();
    rig.settle();
    let queue = rig.node().dead_letter_queue("s", "g").unwrap();
    let letters = rig.node().dead_letters(queue).unwrap();
    let fact = rig.node().redrive(NAMES, queue.group, &letters).unwrap().unwrap();
    rig.settle();
    assert_eq!(rig.node().take_outcome(fact), Some(Outcome::Done));
}

/// A message expires that nobody took, and its group begins again.
fn expire_and_begin_again(rig: &mut Rig) {
    let group = rig.group("old", "again", StartAt::Unfinished);
    rig.publish("old", 0, "expired");
    let subject = rig.node().subject_number("old").unwrap();
    let asked = rig.node().expire(subject, START.plus(1)).unwrap().unwrap();
    rig.settle();
    assert_eq!(rig.node().take_outcome(asked.fact), Some(Outcome::Expired(1)));
    let fact = rig.node().reset_group(group, StartAt::Unfinished).unwrap().unwrap();
    rig.settle();
    assert!(matches!(rig.node().take_outcome(fact), Some(Outcome::Group(_))));
}

/// A message that the filters of its only consumer do not let pass.
fn keep_back(rig: &mut Rig) {
    let (group, consumer) = rig.attach("old", "again", StartAt::Unfinished, "with filters", 8);
    rig.publish("old", 0, "kept back");
    let request = PullRequest { group, consumer, count_max: 1, in_flight_max: 8, beside: 0 };
    let Offer::Candidates(candidates) = rig.node().decide_offer(request).unwrap() else { panic!("none is ready") };
    let judged: Vec<_> = candidates.into_iter().map(|candidate| (candidate, false)).collect();
    assert_eq!(rig.node().decide_judged(request, &judged).unwrap().unwrap().passed_over, 1);
    rig.settle();
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
    let (copy, image) = (rig.disk.copy(), rig.disk.storage().image());
    let node = rig.node();
    let mut replica = Replica::new(*node.identity()).unwrap();
    let lines = rows().map(|row| StagedLine { subject: row.subject, due: row.due, size: row.body.len() as u32 });
    for (path, bytes) in image.into_iter().filter(|(path, _)| path.starts_with("loads/")) {
        let name = LoadName::parse(path.trim_start_matches("loads/")).unwrap();
        replica.know_staged(name, &bytes, &lines).unwrap();
    }
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

impl Found {
    fn words(self) -> &'static str {
        match self {
            Self::Refused => "refused at the open, nothing touched",
            Self::TornTail => "taken for a torn tail, and set aside",
            Self::OtherCheckpoint => "the other checkpoint used, nothing lost",
            Self::Voided => "the message given up, and reported",
            Self::Rescued => "found again in the log",
            Self::OnlyByVerify => "not in the way, and named by verify",
            Self::Harmless => "harmless:",
        }
    }
}

struct Expected {
    messages: Vec<String>,
    voided: u64,
    findings: Vec<String>,
}

fn contents(rig: &mut Rig) -> (Vec<String>, u64) {
    rig.in_flight_max = 100;
    let mut found = Vec::new();
    for (subject, group) in [("s", "g"), ("%RETRY%s%g", "g"), ("old", "again")] {
        let place = rig.earliest(subject, group);
        for _ in 0..2 {
            rig.pass(100_000);
            let mut quiet = 0;
            while quiet < 3 {
                let pulled = rig.pull_once(place);
                rig.settle();
                let Pulled::Messages(handed, ..) = pulled else {
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
        "runs" | "loads" if offset < 4_096 => format!("{folder}: the header block, which opening does not read"),
        "runs" | "loads" if is_zero => format!("{folder}: padding"),
        "aside" => "aside: evidence".to_owned(),
        _ => format!("{path}: byte {offset}"),
    }
}

/// The store whose bits are flipped, and what a whole one shows.
struct Sample {
    files: BTreeMap<String, Vec<u8>>,
    padding: BTreeSet<(String, usize)>,
    expected: Expected,
}

/// The bits that are tried at one place.
type Bits = fn(offset: usize) -> std::ops::Range<usize>;

/// What the flipped bits of some positions have led to.
#[derive(Default)]
struct Tally {
    positions: u64,
    found: BTreeMap<Found, u64>,
    harmless: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.positions += other.positions;
        for (found, count) in other.found {
            *self.found.entry(found).or_default() += count;
        }
        for (part, count) in other.harmless {
            *self.harmless.entry(part).or_default() += count;
        }
    }

    /// Flips the bits of every position that is `share` among `shares`, one at a time.
    fn flip(base: &Rig, sample: &Sample, bits: Bits, (share, shares): (usize, usize)) -> Self {
        let mut tally = Self::default();
        for (path, bytes) in &sample.files {
            for offset in (share..bytes.len()).step_by(shares) {
                tally.positions += 1;
                for bit in bits(offset) {
                    let mut rig = base.fork(End::Kill, 1);
                    assert!(rig.disk.storage().damage(path, offset as u64, 1 << bit));
                    let found = judge(&mut rig, &sample.expected, &format!("{path} offset {offset} bit {bit}"));
                    *tally.found.entry(found).or_default() += 1;
                    if found == Found::Harmless {
                        *tally.harmless.entry(part_of(path, bytes, offset, &sample.padding)).or_default() += 1;
                    }
                }
            }
        }
        tally
    }

    fn report(&self, files: usize) -> String {
        let bits: u64 = self.found.values().sum();
        let mut text = format!("flipped bits: {bits} at {} positions of {files} files\n", self.positions);
        for (found, count) in &self.found {
            writeln!(text, "{count:>9} {}", found.words()).unwrap();
        }
        for (part, count) in &self.harmless {
            writeln!(text, "{count:>19} in {part}").unwrap();
        }
        text
    }
}

/// Flips bits at every position of every file and leaves the counts in a file of this name, for
/// `make` to show.
fn flip_all(bits: Bits, report: &str) {
    let mut base = small_store();
    let (kinds, padding) = survey(&mut base);
    let all: BTreeSet<u8> = KINDS.iter().copied().collect();
    assert_eq!(kinds, all, "every kind of record");
    let identity = *base.node().identity();
    let mut whole = base.fork(End::Kill, 1);
    whole.try_open().unwrap();
    let (messages, voided) = contents(&mut whole);
    let findings = verify(&base.disk.copy(), &identity).unwrap().findings;
    let expected = Expected { messages, voided, findings };
    assert_eq!(expected.messages.len(), 11, "{:?}", expected.messages);
    let sample = Sample { files: base.disk.storage().image(), padding, expected };
    let shares = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..shares)
            .map(|share| {
                let (base, sample) = (base.fork(End::Kill, 1), &sample);
                scope.spawn(move || Tally::flip(&base, sample, bits, (share, shares)))
            })
            .collect();
        for thread in started {
            tally.add(thread.join().unwrap());
        }
    });
    let text = tally.report(sample.files.len());
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(report), text).unwrap();
    let all_bytes: usize = sample.files.values().map(Vec::len).sum();
    assert_eq!(tally.positions, all_bytes as u64, "every position");
    let unnamed: Vec<&String> = tally.harmless.keys().filter(|part| part.contains("byte")).collect();
    assert!(unnamed.is_empty(), "{} such as {:?}", unnamed.len(), unnamed.iter().take(20).collect::<Vec<_>>());
    assert!(tally.found.contains_key(&Found::Refused) && tally.found.contains_key(&Found::Voided));
}

/// One bit at every position of every file.
#[test]
fn a_flipped_bit_at_every_position_is_found_or_harmless_by_name() {
    flip_all(|offset| offset % 8..offset % 8 + 1, "flipped-bits.txt");
}

/// All eight bits at every position: minutes, so it is `make flipped-bits` and part of `make soak`.
#[test]
#[ignore = "takes minutes: make flipped-bits"]
fn all_flipped_bits_at_every_position_are_found_or_harmless_by_name() {
    flip_all(|_| 0..8, "flipped-bits-all.txt");
}
