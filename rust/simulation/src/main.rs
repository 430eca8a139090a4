//! `delaymq-simulation --seeds N [--start S] [--planted NAME]` runs histories, each from its seed: of a
//! store under a cruel disk and clock, and from every fourth seed one more, of clients and a server over a
//! cruel network. `--seed X` runs both of one seed and tells all that happens. The exit code is 1 where a
//! promise was broken, 2 where the arguments are wrong.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command: it tells what it found")]

use std::process::ExitCode;
use std::time::Instant;

use delaymq_simulation::chance::TraceHash;
use delaymq_simulation::checker::Counts;
use delaymq_simulation::connected::{self, Connected};
use delaymq_simulation::planted::{Plant, fault_named, names};
use delaymq_simulation::world::{Ending, World};

/// Seeds that break a promise are told in full up to so many.
const TOLD_MAX: u64 = 3;
/// One in so many seeds has a history over connections, too.
const CONNECTED_EVERY: u64 = 4;
/// Of each, so many findings.
const VIOLATIONS_MAX: usize = 6;

struct Arguments {
    first: u64,
    seeds: u64,
    tells: bool,
    planted: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { first: 1, seeds: 0, tells: false, planted: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let value = given.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value}"));
        match name.as_str() {
            "--seeds" => found.seeds = number()?,
            "--start" => found.first = number()?,
            "--seed" => (found.first, found.seeds, found.tells) = (number()?, 1, true),
            "--planted" => found.planted = Some(value),
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    if found.seeds == 0 {
        return Err("--seeds N or --seed X is needed".to_owned());
    }
    Ok(found)
}

fn tell(seed: u64, plan: &dyn std::fmt::Debug, violations: &[String], arguments: &Arguments) {
    println!("seed {seed} breaks a promise, with {plan:#?}");
    for violation in violations.iter().take(VIOLATIONS_MAX) {
        println!("  {violation}");
    }
    let planted = arguments.planted.as_deref().map(|name| format!(" --planted {name}")).unwrap_or_default();
    println!("  replay: cargo run --release -p delaymq-simulation -- --seed {seed}{planted}");
}

/// What all histories came to.
#[derive(Default)]
struct Found {
    hash: TraceHash,
    operations: u64,
    crashes: u64,
    counts: Counts,
    over_connections: connected::Counts,
    broken: u64,
    first_broken: Option<u64>,
}

impl Found {
    fn broke(&mut self, seed: u64, plan: &dyn std::fmt::Debug, violations: &[String], arguments: &Arguments) {
        if violations.is_empty() {
            return;
        }
        self.broken += 1;
        self.first_broken.get_or_insert(seed);
        if self.broken <= TOLD_MAX {
            tell(seed, plan, violations, arguments);
        }
    }

    fn live(&mut self, seed: u64, arguments: &Arguments) {
        let Ending { hash, operations, crashes, counts, violations, plan, trace } =
            World::new(seed, arguments.tells).run();
        for line in &trace {
            println!("{line}");
        }
        self.hash.add_number(hash);
        self.operations += operations;
        self.crashes += crashes;
        self.counts.add(counts);
        self.broke(seed, &plan, &violations, arguments);
        if arguments.tells || seed.is_multiple_of(CONNECTED_EVERY) {
            self.live_connected(seed, arguments);
        }
    }

    fn live_connected(&mut self, seed: u64, arguments: &Arguments) {
        let connected::Ending { hash, turns, counts, violations, plan, trace } =
            Connected::new(seed, arguments.tells).run();
        for line in &trace {
            println!("{line}");
        }
        self.hash.add_number(hash);
        self.operations += turns;
        self.over_connections.add(counts);
        self.broke(seed, &plan, &violations, arguments);
    }

    fn tell(&self, arguments: &Arguments, began: Instant) {
        let Counts { published, delivered, duplicated, cancelled, dead, redriven, expired, resets, removals } =
            self.counts;
        println!(
            "{} seeds from {}, {} operations, {} crashes, {published} published, {delivered} delivered, \
             {duplicated} again, {cancelled} cancelled, {dead} dead, {redriven} redriven, {expired} expired, \
             {resets} resets, {removals} removals",
            arguments.seeds, arguments.first, self.operations, self.crashes,
        );
        let over = self.over_connections;
        println!(
            "over connections: {} published, {} ambiguous ({} of them stored), {} delivered, {} again, {} retried, \
             {} cancelled, {} stale, {} cuts, {} crashes",
            over.published,
            over.ambiguous,
            over.ambiguous_stored,
            over.delivered,
            over.repeated,
            over.retried,
            over.cancelled,
            over.stale,
            over.cuts,
            over.crashes,
        );
        println!("hash {:016x}, {:.1} s", self.hash.value(), began.elapsed().as_secs_f64());
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\nusage: delaymq-simulation --seeds N [--start S] | --seed X, [--planted NAME]");
            return ExitCode::from(2);
        }
    };
    let fault = match arguments.planted.as_deref().map(fault_named) {
        Some(None) => {
            eprintln!("no such fault; there are: {}", names());
            return ExitCode::from(2);
        }
        Some(Some((fault, _))) => Some(fault),
        None => None,
    };
    let _plant = Plant::new(fault);
    let began = Instant::now();
    let mut found = Found::default();
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        found.live(seed, &arguments);
    }
    found.tell(&arguments, began);
    match found.first_broken {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            println!("{} histories break a promise, the first is of seed {seed}", found.broken);
            ExitCode::FAILURE
        }
    }
}
