//! A store that stays closed for ten years delivers all messages after its first start: each subject in the order of
//! due time, with no more memory than otherwise.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::collections::BTreeMap;

use crate::rig::{Place, Rig, START, bodies_of, lean};
use delaymq_core::store::OwnerOptions;
use delaymq_core::units::Millis;
use delaymq_simulation::chance::Chance;
use delaymq_simulation::disk::End;
use delaymq_simulation::node::{Due, NewMessage, NodeOptions};

const TEN_YEARS_MS: u64 = 315_360_000_000;
const SUBJECTS: u64 = 3;
const MESSAGES: u64 = 6_000;
/// A hundredth of what is pending, and less.
const WINDOW_MAX: usize = 48;
const CHECKPOINT_FACTS: u64 = 400;
/// What one step may do.
const STEP_ENTRIES: usize = 1_000;

fn options() -> NodeOptions {
    let owner = OwnerOptions {
        window_entries_max: WINDOW_MAX,
        ready_entries_max: WINDOW_MAX,
        checkpoint_facts: CHECKPOINT_FACTS,
        copy_after_ms: 600_000,
        ..lean().owner
    };
    NodeOptions { owner, segment_bytes: 128 << 10, ..lean() }
}

/// What was published, by subject: due times and bodies, in the order in which they must come.
type Expected = BTreeMap<String, Vec<(Millis, u64, String)>>;

fn publish_over_ten_years(rig: &mut Rig) -> Expected {
    let mut chance = Chance::new(8);
    let mut expected = Expected::new();
    for batch in 0..MESSAGES / 50 {
        let mut messages = Vec::new();
        for number in 0..50 {
            // The last millisecond of the range, many of one hour, and anything between.
            let delay = match chance.below(10) {
                0 => TEN_YEARS_MS,
                1..=3 => TEN_YEARS_MS / 2 + chance.below(3_600_000),
                4 => chance.between(60_000, 600_000),
                _ => chance.between(60_000, TEN_YEARS_MS),
            };
            let subject = format!("subject-{}", chance.below(SUBJECTS));
            messages.push((subject, delay, format!("{}", batch * 50 + number)));
        }
        let now = rig.clock.read();
        rig.node().look(now);
        let new: Vec<NewMessage<'_>> = messages
            .iter()
            .map(|(subject, delay, body)| NewMessage {
                subject,
                due: Due::After(*delay),
                body: body.as_bytes(),
                expires: None,
                meta: b"",
            })
            .collect();
        let receipts = loop {
            if let Some(published) = rig.node().publish(&new).unwrap() {
                break published.receipts;
            }
            rig.node().commit().unwrap();
            rig.node().prepare().unwrap();
        };
        for ((subject, _, body), receipt) in messages.into_iter().zip(receipts) {
            expected.entry(subject).or_default().push((receipt.key.due, receipt.key.sequence.0, body));
        }
        rig.settle();
        if batch % 20 == 7 {
            rig.checkpoint();
        }
    }
    for of_subject in expected.values_mut() {
        of_subject.sort();
    }
    expected
}

/// The most that was in memory.
#[derive(Clone, Copy, Default, Debug)]
struct Peak {
    window: usize,
    ready: usize,
}

/// One step, and a checkpoint where one is due, as the engine does.
fn step(rig: &mut Rig, peak: &mut Peak) -> bool {
    let now = rig.clock.read();
    rig.node().look(now);
    // What was decided waits for room, and room is made by who drives the store.
    if rig.node().needs_segment(2) {
        rig.node().prepare().unwrap();
    }
    let progress = rig.node().step(STEP_ENTRIES).unwrap();
    peak.window = peak.window.max(rig.node().owner().window_entries());
    rig.settle();
    peak.ready = peak.ready.max(rig.node().owner().state().dispatch.entries_in_memory());
    if rig.node().owner().checkpoint_due() {
        rig.checkpoint();
    }
    progress.more || progress.proposed > 0
}

#[test]
fn ten_years_alone_lose_nothing_and_need_no_memory() {
    let mut rig = Rig::new(options());
    rig.in_flight_max = 64;
    let names: Vec<String> = (0..SUBJECTS).map(|subject| format!("subject-{subject}")).collect();
    for name in &names {
        rig.earliest(name, "g");
    }
    let expected = publish_over_ten_years(&mut rig);
    rig.end(End::PowerCutLosesAll);
    rig.clock.restart_after(TEN_YEARS_MS + 86_400_000);
    rig.try_open().unwrap();
    // Retention looks at it before anybody has got anything: age alone decides nothing.
    rig.checkpoint();
    assert_eq!(rig.node().owner().state().schedule.pending(), MESSAGES, "all of it waits");
    let mut peak = Peak::default();
    let places: Vec<Place> = names.iter().map(|name| rig.earliest(name, "g")).collect();
    let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut quiet = 0;
    while quiet < 3 {
        let mut did = step(&mut rig, &mut peak);
        for (name, place) in names.iter().zip(&places) {
            let handed = rig.pull(*place);
            let offsets: Vec<u64> = handed.iter().map(|one| one.delivery.offset.0).collect();
            if !offsets.is_empty() {
                did = true;
                got.entry(name.clone()).or_default().extend(bodies_of(&handed));
                rig.acknowledge(*place, &offsets);
            }
        }
        quiet = if did { 0 } else { quiet + 1 };
    }
    for name in &names {
        let of_subject = expected.get(name).cloned().unwrap_or_default();
        let in_order: Vec<String> = of_subject.into_iter().map(|(_, _, body)| body).collect();
        assert_eq!(got.get(name), Some(&in_order), "{name}");
    }
    assert!(peak.window <= WINDOW_MAX, "{peak:?}");
    assert!(peak.ready <= CHECKPOINT_FACTS as usize + 2 * STEP_ENTRIES, "{peak:?}");
    let identity = *rig.node().identity();
    rig.close();
    rig.verify(&identity);
    assert!(rig.clock.read().wall > START.plus(TEN_YEARS_MS));
}
