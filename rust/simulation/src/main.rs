//! `delaymq-simulation --seeds N [--start S]` runs histories, one from each seed, of a store over a disk and a clock
//! that fail, and from every fourth seed one more, of clients and a server over a network that fails. A history that
//! breaks a promise is shrunk. `--seed X [--set OPTION=VALUE]…` runs both histories of one seed and prints all events.
//! With `--histories connected` only histories over connections run, one from each seed, and with `--histories copies`
//! only histories of copies on several nodes; `--set` then sets their options. `--small-worlds N` tries at least N different disks that a crash may leave. `--planted NAME` plants a fault
//! in the core. The exit code is 1 if a promise was broken or fewer disks were tried, 2 if the arguments are wrong.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command: it tells what it found")]

use std::process::ExitCode;
use std::time::Instant;

use delaymq_core::planted::Planted;
use delaymq_simulation::connected::Connected;
use delaymq_simulation::copies::{self, Copies, Numbers, StoreMachine};
use delaymq_simulation::options::Options;
use delaymq_simulation::planted::{Plant, names};
use delaymq_simulation::seeds::{Broken, Failed, Found, Histories, Plans, run_seeds};
use delaymq_simulation::shrink::shrink;
use delaymq_simulation::small_worlds::{self, scenes::SCENES};
use delaymq_simulation::world::World;

/// The most broken histories that are reported in full.
const TOLD_MAX: usize = 3;
/// The most findings that are printed of one history.
const VIOLATIONS_MAX: usize = 6;
/// The number of threads if the machine does not report its own.
const THREADS: usize = 2;
const USAGE: &str = "usage: delaymq-simulation --seeds N [--start S] | --seed X [--set OPTION=VALUE]… | \
                     --small-worlds N, [--histories all|connected|copies] [--planted NAME] [--threads N]";

struct Arguments {
    first: u64,
    seeds: u64,
    histories: Histories,
    states: u64,
    tells: bool,
    threads: usize,
    set: Vec<(String, u64)>,
    planted: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(THREADS, usize::from);
    let (histories, set, planted) = (Histories::All, Vec::new(), None);
    let mut found = Arguments { first: 1, seeds: 0, histories, states: 0, tells: false, threads, set, planted };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value}"));
        match name.as_str() {
            "--seeds" => found.seeds = number()?,
            "--start" => found.first = number()?,
            "--seed" => (found.first, found.seeds, found.tells) = (number()?, 1, true),
            "--histories" => {
                found.histories = Histories::named(&value).ok_or_else(|| format!("there are no {value} histories"))?;
            }
            "--small-worlds" => found.states = number()?,
            "--threads" => found.threads = usize::try_from(number()?).unwrap_or(THREADS).max(1),
            "--set" => found.set.push(setting(&value)?),
            "--planted" => found.planted = Some(value),
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    match (found.seeds, found.states) {
        (0, 0) => Err("--seeds N, --seed X or --small-worlds N is needed".to_owned()),
        _ if !found.set.is_empty() && !found.tells => Err("--set needs --seed".to_owned()),
        _ => {
            match found.histories {
                Histories::All => check_set(World::plan_of(1), &found.set)?,
                Histories::Connected => check_set(Connected::plan_of(1), &found.set)?,
                Histories::Copies | Histories::Cluster => check_set(copies::Plan::of_seed(1), &found.set)?,
            }
            Ok(found)
        }
    }
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("--set needs OPTION=VALUE, not {text}"))?;
    let value = value.parse().map_err(|_| format!("{name} needs a number, not {value}"))?;
    Ok((name.to_owned(), value))
}

/// Checks that the requested histories have each option that is set.
fn check_set<P: Options>(of_any: P, set: &[(String, u64)]) -> Result<(), String> {
    let names: Vec<&str> = of_any.options().iter().map(|(name, _)| *name).collect();
    match set.iter().find(|(name, _)| !names.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("no such option: {name}; there are: {}", names.join(", "))),
        None => Ok(()),
    }
}

/// The plan with the options that the command line sets.
fn with_set<P: Options>(mut plan: P, set: &[(String, u64)]) -> P {
    for (name, value) in set {
        plan.set(name, *value);
    }
    plan
}

fn command(seed: u64, histories: Histories, set: &[(&str, u64)], arguments: &Arguments) -> String {
    let planted = arguments.planted.as_deref().map(|name| format!(" --planted {name}")).unwrap_or_default();
    let set: Vec<String> = set.iter().map(|(name, value)| format!(" --set {name}={value}")).collect();
    let set = set.concat();
    let histories = histories.arguments();
    format!("cargo run --release -p delaymq-simulation -- --seed {seed}{histories}{set}{planted}")
}

/// Prints a history that broke a promise: its expanded options, the command that replays it, and the smallest history
/// found that also breaks a promise.
fn tell(broken: &Broken, arguments: &Arguments) {
    let seed = broken.seed;
    println!("seed {seed} breaks a promise, with {}", broken.plan);
    for violation in broken.violations.iter().take(VIOLATIONS_MAX) {
        println!("  {violation}");
    }
    match broken.failed {
        Some(Failed::World(plan, lived)) => {
            let live = |plan| World::of(seed, plan, false).run().violations;
            tell_smallest(broken, Histories::All, (World::plan_of(seed), plan), lived, live, arguments);
        }
        Some(Failed::Connected(plan, lived)) => {
            let live = |plan| Connected::of(seed, plan, false).run().violations;
            tell_smallest(broken, Histories::Connected, (Connected::plan_of(seed), plan), lived, live, arguments);
        }
        Some(Failed::Copies(plan, lived)) => {
            let live = |plan| Copies::<Numbers>::of(seed, plan, false).run().violations;
            tell_smallest(broken, Histories::Copies, (copies::Plan::of_seed(seed), plan), lived, live, arguments);
        }
        Some(Failed::Cluster(plan, lived)) => {
            let live = |plan| Copies::<StoreMachine>::of(seed, plan, false).run().violations;
            tell_smallest(broken, Histories::Cluster, (copies::Plan::of_stores(seed), plan), lived, live, arguments);
        }
        None => {}
    }
}

/// Prints how to replay a history, and the smallest one like it. The plans are that of its seed, and the one that failed.
fn tell_smallest<P: Options>(
    broken: &Broken,
    histories: Histories,
    (of_seed, plan): (P, P),
    lived: u64,
    live: impl Fn(P) -> Vec<String>,
    arguments: &Arguments,
) {
    let seed = broken.seed;
    println!("  replay: {}", command(seed, histories, &[], arguments));
    let shrunk = shrink(of_seed, (plan, broken.violations.clone()), lived, live);
    let lengths = shrunk.plan.options();
    let length = lengths.iter().find(|(name, _)| *name == P::LENGTH).map_or(0, |(_, value)| *value);
    println!("  shrunk in {} histories to {length} {}:", shrunk.lives, P::LENGTH);
    for violation in shrunk.violations.iter().take(VIOLATIONS_MAX) {
        println!("    {violation}");
    }
    println!("    replay: {}", command(seed, histories, &shrunk.set, arguments));
}

fn tell_all(found: &Found, arguments: &Arguments, began: Instant) {
    println!(
        "{} seeds from {}, {} operations, {} crashes, {:?}, holes in segments of {} and in runs of {}",
        arguments.seeds,
        arguments.first,
        found.operations,
        found.crashes,
        found.counts,
        found.hollow_segments,
        found.hollow_runs,
    );
    println!("over connections: {:?}", found.over_connections);
    println!("of QMQ's clients: {:?}", found.of_qmq);
    println!("of copies: {:?}", found.of_copies);
    println!("hash {:016x}, {:.1} s", found.hash.value(), began.elapsed().as_secs_f64());
}

/// Runs the histories of the seeds. True if no promise was broken.
fn live_seeds(arguments: &Arguments, began: Instant) -> bool {
    let fault = arguments.planted.as_deref().and_then(Planted::named);
    let plans = Plans {
        world: &|seed| with_set(World::plan_of(seed), &arguments.set),
        // `--set` sets the options of one kind of history.
        connected: &|seed| match arguments.histories {
            Histories::Connected => with_set(Connected::plan_of(seed), &arguments.set),
            Histories::All | Histories::Copies | Histories::Cluster => Connected::plan_of(seed),
        },
        copies: &|seed| with_set(copies::Plan::of_seed(seed), &arguments.set),
        cluster: &|seed| with_set(copies::Plan::of_stores(seed), &arguments.set),
    };
    let seeds = arguments.first..arguments.first.saturating_add(arguments.seeds);
    let found = run_seeds(seeds, arguments.histories, arguments.threads, arguments.tells, fault, &plans);
    for line in &found.trace {
        println!("{line}");
    }
    let _plant = Plant::new(fault);
    for broken in found.broken.iter().take(TOLD_MAX) {
        tell(broken, arguments);
    }
    tell_all(&found, arguments, began);
    if let Some(first) = found.broken.first() {
        println!("{} histories break a promise, the first is of seed {}", found.broken.len(), first.seed);
    }
    found.broken.is_empty()
}

/// Tries the small worlds. True if no promise was broken and as many disks as requested were tried.
fn try_small_worlds(arguments: &Arguments, began: Instant) -> bool {
    let fault = arguments.planted.as_deref().and_then(Planted::named);
    let found = small_worlds::try_all(&SCENES, arguments.states, arguments.threads, fault);
    let mut all = small_worlds::Found::default();
    for scene in &SCENES {
        let mut sum = small_worlds::Found::default();
        let lives = found.iter().filter(|one| one.scene == scene.name).inspect(|one| sum.add(one)).count();
        println!(
            "{:>34}: {:>8} states at {:>5} moments of {lives:>3} lives, {:>6} drained, {:>6} of a second end",
            scene.name, sum.states, sum.moments, sum.drained, sum.states_again
        );
        for violation in &sum.violations {
            println!("  {violation}");
        }
        all.add(&sum);
    }
    println!(
        "{} crash states at {} moments, {} of them of a second end, {} drained, {} clean tails called corrupt, \
         {} promises broken, {:.1} s",
        all.states,
        all.moments,
        all.states_again,
        all.drained,
        all.called_corrupt,
        all.broken,
        began.elapsed().as_secs_f64()
    );
    if all.broken == 0 && all.states < arguments.states {
        println!("these are fewer states than the {} that were asked for", arguments.states);
        return false;
    }
    all.broken == 0
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if arguments.planted.as_deref().is_some_and(|name| Planted::named(name).is_none()) {
        eprintln!("no such fault; there are: {}", names());
        return ExitCode::from(2);
    }
    let began = Instant::now();
    let mut sound = true;
    if arguments.states > 0 {
        sound &= try_small_worlds(&arguments, began);
    }
    if arguments.seeds > 0 {
        sound &= live_seeds(&arguments, began);
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
