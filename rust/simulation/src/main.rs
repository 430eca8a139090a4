//! `delaymq-simulation --seeds N [--start S] [--planted NAME]` runs histories, each from its seed;
//! `--seed X` runs one and tells all that happens. The exit code is 1 where a promise was broken,
//! 2 where the arguments are wrong.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command: it tells what it found")]

use std::process::ExitCode;
use std::time::Instant;

use delaymq_simulation::chance::TraceHash;
use delaymq_simulation::checker::Counts;
use delaymq_simulation::planted::{Plant, fault_named, names};
use delaymq_simulation::world::{Ending, World};

/// Seeds that break a promise are told in full up to so many.
const TOLD_MAX: u64 = 3;
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

fn tell(seed: u64, ending: &Ending, arguments: &Arguments) {
    println!("seed {seed} breaks a promise, with {:#?}", ending.plan);
    for violation in ending.violations.iter().take(VIOLATIONS_MAX) {
        println!("  {violation}");
    }
    let planted = arguments.planted.as_deref().map(|name| format!(" --planted {name}")).unwrap_or_default();
    println!("  replay: cargo run --release -p delaymq-simulation -- --seed {seed}{planted}");
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
    let mut hash = TraceHash::default();
    let (mut operations, mut crashes, mut broken, mut first_broken) = (0, 0, 0, None);
    let mut counts = Counts::default();
    for seed in arguments.first..arguments.first.saturating_add(arguments.seeds) {
        let ending = World::new(seed, arguments.tells).run();
        for line in &ending.trace {
            println!("{line}");
        }
        hash.add_number(ending.hash);
        operations += ending.operations;
        crashes += ending.crashes;
        counts.add(ending.counts);
        if !ending.violations.is_empty() {
            broken += 1;
            first_broken.get_or_insert(seed);
            if broken <= TOLD_MAX {
                tell(seed, &ending, &arguments);
            }
        }
    }
    let Counts { published, delivered, duplicated, cancelled, dead, redriven, expired, resets, removals } = counts;
    println!(
        "{} seeds from {}, {operations} operations, {crashes} crashes, {published} published, {delivered} delivered, \
         {duplicated} again, {cancelled} cancelled, {dead} dead, {redriven} redriven, {expired} expired, \
         {resets} resets, {removals} removals, hash {:016x}, {:.1} s",
        arguments.seeds,
        arguments.first,
        hash.value(),
        began.elapsed().as_secs_f64()
    );
    match first_broken {
        None => ExitCode::SUCCESS,
        Some(seed) => {
            println!("{broken} seeds break a promise, the first is {seed}");
            ExitCode::FAILURE
        }
    }
}
