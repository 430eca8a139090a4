//! The k-th call of each kind fails, k = 0, 1, 2, … until none fails, in five ways, once and permanently. Then the k-th
//! call of one kind and the m-th of another fail in one life. A store refuses or poisons itself, and loses nothing that
//! it acknowledged.
#![expect(clippy::panic, clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may")]

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::message_log::Durability;
use delaymq_core::planted::Planted;
use delaymq_core::storage::{CALLS, Call, Crash, ERRNOS, Errno, MemoryStorage};
use delaymq_core::store::OwnerOptions;
use delaymq_simulation::chance::Chance;
use delaymq_simulation::node::NodeOptions;
use delaymq_simulation::planted::Plant;
use delaymq_simulation::small_worlds::judge::{goes_on, keeps, recovers};
use delaymq_simulation::small_worlds::machine::Machine;
use delaymq_simulation::small_worlds::tape::Tape;

/// The calls that the script makes of one kind stay below this.
const CALLS_MAX: u64 = 2_000;
/// Pairs of failing calls that are tried; where there are more, so many are drawn.
const PAIRS_MAX: u64 = 4_000;
/// What the trait offers and no call of the disk stands for, and why.
const WITHOUT_CALL: [(&str, &str); 6] = [
    ("path", "asks the disk nothing"),
    ("view", "is memory that was mapped"),
    ("view_at", "is some of it, or nothing"),
    ("prefetch", "is advice"),
    ("room", "is asked by who inspects alone, and changes nothing where it fails"),
    ("free_bytes", "is asked by who looks at marks alone, and changes nothing where it fails"),
];

fn options(durability: Durability) -> NodeOptions {
    let owner = OwnerOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_facts: u64::MAX,
        keep_finished_ms: 0,
        copy_after_ms: 100,
        ready_entries_max: 2,
        reclaim_bytes: 1,
        hole_bytes_min: 1,
        hole_block_bytes: 64,
        ..OwnerOptions::default()
    };
    NodeOptions { durability, owner, ..NodeOptions::default() }
}

/// Some of everything that a store does. Where something is refused, what follows is tried all the same.
fn live(machine: &mut Machine) -> u32 {
    let mut refused = 0;
    let mut did = |result: Result<()>| refused += u32::from(result.is_err());
    did(machine.open());
    if !machine.is_open() {
        did(machine.open());
    }
    let consumer = machine.consumer("s", "g");
    // Nobody takes it, so that it holds the log, and what is finished behind it becomes a hole.
    did(machine.consumer("slow", "g").map(drop));
    did(machine.publish("slow", &[0], 40).map(drop));
    did(machine.publish("s", &[0, 0, 0, 30, 90_000], 500).map(drop));
    if let Ok(consumer) = consumer {
        did(machine.pull(consumer, 2).and_then(|handed| machine.acknowledge(consumer, &handed)));
    }
    did(machine.checkpoint(300));
    did(machine.prepare());
    for _ in 0..3 {
        did(machine.publish("s", &[0, 86_400_000], 900).map(drop));
    }
    did(machine.pass(31));
    if let Ok(consumer) = consumer {
        did(machine.take_all(consumer).map(drop));
    }
    did(machine.checkpoint(u64::MAX));
    did(machine.witness());
    did(machine.publish("s", &[5], 40).map(drop));
    did(machine.checkpoint(u64::MAX));
    did(machine.close());
    refused
}

/// The call of this kind behind so many fails, in this way, once or for ever.
#[derive(Clone, Copy, Debug)]
struct Fault {
    call: Call,
    calls: u64,
    errno: Errno,
    lasts: bool,
}

/// How the script was met by the faults of one life.
#[derive(Clone, Copy, Default)]
struct Met {
    /// All of them.
    fired: bool,
    refused: u32,
}

fn sweep_one(faults: &[Fault], durability: Durability) -> Met {
    let what = format!("{faults:?} {durability:?}");
    let options = options(durability);
    let calls = faults.iter().map(|fault| fault.calls).sum();
    let storage = MemoryStorage::new(calls);
    for fault in faults {
        storage.fail_call_as(fault.call, fault.calls, fault.errno, fault.lasts);
    }
    let mut machine = Machine::on(storage.clone(), Tape::new(), options, 1);
    let refused = live(&mut machine);
    let fired = faults.iter().all(|fault| storage.counts().of(fault.call) > fault.calls);
    let met = Met { fired, refused };
    // What was promised must be found by whoever comes next, however this one has ended.
    let (promise, tree) = {
        let tape = machine.disk().tape();
        (tape.promise(), tape.tree.clone())
    };
    for crash in [Crash::Kill, Crash::PowerCutLosesAll, Crash::PowerCut] {
        let left = storage.crash(crash, calls);
        let copy = left.crash(Crash::Kill, 0);
        let came = match recovers(&copy, options, &tree) {
            Ok(came) => came,
            Err(wrong) => panic!("{what}, {crash:?}: {wrong}"),
        };
        if let Err(wrong) = keeps(came, &promise, crash != Crash::Kill, &tree) {
            panic!("{what}, {crash:?}: {wrong}");
        }
        if crash == Crash::PowerCut
            && let Err(wrong) = goes_on(&left, options, &tree, came, calls)
        {
            panic!("{what}, {crash:?}: {wrong}");
        }
    }
    met
}

/// Every place of one kind; how many there are, and how often the script was refused something.
fn sweep(call: Call) -> (u64, u64) {
    let mut refused = 0;
    for calls in 0..CALLS_MAX {
        let durability = if calls.is_multiple_of(2) { Durability::Disk } else { Durability::Os };
        let mut fired = false;
        for errno in ERRNOS {
            for lasts in [false, true] {
                let met = sweep_one(&[Fault { call, calls, errno, lasts }], durability);
                fired |= met.fired;
                refused += u64::from(met.refused);
            }
        }
        if !fired {
            return (calls, refused);
        }
    }
    panic!("{call:?}: more than {CALLS_MAX} places");
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    let kinds: Vec<Call> = CALLS.to_vec();
    let (first, second) = kinds.split_at(kinds.len() / 2);
    std::thread::scope(|scope| {
        for part in [first, second] {
            scope.spawn(move || {
                for call in part {
                    let (places, refused) = sweep(*call);
                    println!("{call:?}: {places} places, {refused} refusals");
                    assert!(places > 0 && refused > 0, "{call:?} is never met, or nobody is told");
                }
            });
        }
    });
}

/// Every place in the script, of every kind, when nothing fails.
fn places() -> Vec<(Call, u64)> {
    let storage = MemoryStorage::new(0);
    let mut machine = Machine::on(storage.clone(), Tape::new(), options(Durability::Disk), 1);
    assert_eq!(live(&mut machine), 0, "something is refused although nothing fails");
    let counts = storage.counts();
    CALLS.iter().flat_map(|call| (0..counts.of(*call)).map(|calls| (*call, calls))).collect()
}

/// A fault at one of the places, each kind as likely as any other.
fn drawn(chance: &mut Chance, places: &[(Call, u64)]) -> Fault {
    let call = *chance.pick(&CALLS).unwrap();
    let of_kind: Vec<u64> = places.iter().filter(|(kind, _)| *kind == call).map(|(_, calls)| *calls).collect();
    let (calls, errno) = (chance.one_of(&of_kind), *chance.pick(&ERRNOS).unwrap());
    Fault { call, calls, errno, lasts: chance.percent(30) }
}

/// Two faults in one life, every `step`-th pair from `first` on; how many pairs there were, and in how many
/// of them both calls were made.
fn sweep_pairs(first: u64, step: usize) -> (u64, u64) {
    let places = places();
    let all = (places.len() as u64).saturating_pow(2);
    let (mut tried, mut fired) = (0, 0);
    for pair in (first..all.min(PAIRS_MAX)).step_by(step) {
        let mut chance = Chance::new(pair);
        let mut faults = [drawn(&mut chance, &places), drawn(&mut chance, &places)];
        if all <= PAIRS_MAX {
            for (fault, place) in faults.iter_mut().zip([pair / places.len() as u64, pair % places.len() as u64]) {
                (fault.call, fault.calls) = places[usize::try_from(place).unwrap_or_default()];
            }
        }
        let durability = if chance.percent(50) { Durability::Disk } else { Durability::Os };
        tried += 1;
        fired += u64::from(sweep_one(&faults, durability).fired);
    }
    (tried, fired)
}

#[test]
fn whatever_two_calls_fail_nothing_acknowledged_is_lost() {
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|first| scope.spawn(move || sweep_pairs(first, 2)));
        let counts = halves.map(|half| half.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        let (tried, fired) = counts.iter().fold((0, 0), |sum, half| (sum.0 + half.0, sum.1 + half.1));
        println!("{tried} pairs, both met in {fired}");
        assert!(fired > tried / 4, "the second fault is hardly ever met: {fired} of {tried}");
    });
}

/// The methods of a trait, as its source names them.
fn methods(source: &str, name: &str) -> Vec<String> {
    let from = source.split(&format!("pub trait {name}:")).nth(1).unwrap_or_default();
    let body = from.split("\n}\n").next().unwrap_or_default();
    let named = body.lines().filter_map(|line| line.trim().strip_prefix("fn "));
    named.filter_map(|rest| rest.split('(').next()).map(str::to_owned).collect()
}

#[test]
fn every_method_of_the_disk_is_swept() {
    let source = include_str!("../../../core/src/storage/mod.rs");
    let swept: BTreeMap<&str, Call> = BTreeMap::from([
        ("create", Call::Create),
        ("open", Call::Open),
        ("list", Call::List),
        ("rename", Call::Rename),
        ("remove", Call::Remove),
        ("create_folder", Call::CreateFolder),
        ("sync_folder", Call::SyncFolder),
        ("length", Call::Length),
        ("read_at", Call::Read),
        ("write_at", Call::Write),
        ("allocate", Call::Allocate),
        ("punch", Call::Punch),
        ("sync_data", Call::Sync),
    ]);
    let mut found = methods(source, "Storage");
    found.extend(methods(source, "StorageFile"));
    assert!(found.len() >= 15, "{found:?}");
    for method in &found {
        let exempt = WITHOUT_CALL.iter().any(|(name, _)| name == method);
        assert!(exempt != swept.contains_key(method.as_str()), "{method} is not swept");
    }
    assert!(swept.keys().all(|method| found.iter().any(|other| other == method)));
    assert!(CALLS.iter().all(|call| swept.values().any(|other| other == call)), "a kind is not swept");
}

#[test]
fn an_error_of_a_sync_that_is_swallowed_is_found() {
    let found = std::panic::catch_unwind(|| {
        let _plant = Plant::new(Some(Planted::SyncErrorSwallowed));
        sweep(Call::Sync)
    });
    assert!(found.is_err(), "the planted fault was not found");
}

#[test]
fn an_error_of_a_sync_that_is_swallowed_beside_another_fault_is_found() {
    let found = std::panic::catch_unwind(|| {
        let _plant = Plant::new(Some(Planted::SyncErrorSwallowed));
        sweep_pairs(0, 1)
    });
    assert!(found.is_err(), "the planted fault was not found");
}
