//! `delaymq-fuzz run [--seconds N | --mutations N] [--seed S] [--target NAME]` gives every target its corpus and
//! mutations of it. `targets` lists them. `export FOLDER` writes the corpus as files for libFuzzer. `show TARGET
//! FILE` runs such a file and prints it in the format of the corpus. `decode` answers each line `what version hex`
//! of its input with the values read from those bytes. The exit code is 1 if a promise was broken, 2 if the
//! arguments are wrong.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a command: it tells what it found")]

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use delaymq_fuzz::corpus::{inputs, text_of};
use delaymq_fuzz::running::{Found, Tally, mutate, replay, tried};
use delaymq_fuzz::targets::{TARGETS, Target, named};
use delaymq_fuzz::telling::answered;

const USAGE: &str = "usage: delaymq-fuzz run [--seconds N] [--mutations N] [--seed S] [--target NAME] | targets | \
                     export FOLDER | show TARGET FILE | decode";

#[derive(Default)]
struct Chosen {
    seconds: Option<u64>,
    mutations: Option<u64>,
    seed: u64,
    target: Option<&'static Target>,
}

fn chosen(arguments: &[String]) -> Result<Chosen, String> {
    let mut found = Chosen { seed: 1, ..Chosen::default() };
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u64>().map_err(|_| format!("{name} needs a number, not {value}"));
        match name.as_str() {
            "--seconds" => found.seconds = Some(number()?),
            "--mutations" => found.mutations = Some(number()?),
            "--seed" => found.seed = number()?,
            "--target" => found.target = Some(named(value).ok_or_else(|| format!("no target is called {value}"))?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(found)
}

fn tell(found: &Found) {
    eprintln!("{}: {}: {}", found.target, found.origin, found.what);
    eprint!("{}", text_of(&found.what, &found.input));
}

/// Runs all chosen targets; false if a promise was broken.
fn run(chosen: &Chosen) -> bool {
    let targets: Vec<&'static Target> = chosen.target.map_or_else(|| TARGETS.iter().collect(), |target| vec![target]);
    let share = chosen.seconds.map(|seconds| Duration::from_secs(seconds) / u32::try_from(targets.len()).unwrap_or(1));
    let mut all = Tally::default();
    for target in &targets {
        let started = Instant::now();
        let count = chosen.mutations.unwrap_or(if share.is_some() { u64::MAX } else { target.mutations });
        let until = share.map(|share| started + share);
        let tried = replay(target).and_then(|corpus| Ok((corpus, mutate(target, chosen.seed, count, until)?)));
        let (corpus, mutations) = match tried {
            Ok(tallies) => tallies,
            Err(found) => {
                tell(&found);
                return false;
            }
        };
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{:24} {:4} of the corpus, {:9} mutations, {:9} taken, {seconds:7.2} s",
            target.name,
            corpus.inputs(),
            mutations.inputs(),
            mutations.taken
        );
        all.taken = all.taken.saturating_add(mutations.taken);
        all.refused = all.refused.saturating_add(mutations.refused);
    }
    println!("mutations: {} of {} targets, {} taken, 0 promises broken", all.inputs(), targets.len(), all.taken);
    true
}

fn export(folder: &Path) -> Result<(), String> {
    for target in TARGETS.iter() {
        let folder = folder.join(target.name);
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        std::fs::create_dir_all(&folder).map_err(wrong)?;
        for input in inputs(target.name)? {
            std::fs::write(folder.join(&input.name), &input.bytes).map_err(wrong)?;
        }
    }
    Ok(())
}

/// True if the file breaks no promise.
fn show(target: &str, file: &str) -> Result<bool, String> {
    let target = named(target).ok_or_else(|| format!("no target is called {target}"))?;
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let judged = tried(target, &bytes);
    print!("{}", text_of(&format!("{judged:?}"), &bytes));
    Ok(judged.is_ok())
}

fn decode() -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        writeln!(out, "{}", answered(&line)).and_then(|()| out.flush()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn done(arguments: &[String]) -> Result<bool, String> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", ..] => chosen(arguments.get(1..).unwrap_or_default()).map(|chosen| run(&chosen)),
        ["targets"] => {
            for target in TARGETS.iter() {
                println!("{}", target.name);
            }
            Ok(true)
        }
        ["export", folder] => export(Path::new(folder)).map(|()| true),
        ["show", target, file] => show(target, file),
        ["decode"] => decode().map(|()| true),
        _ => Err(USAGE.to_owned()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match done(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            eprintln!("{words}");
            ExitCode::from(2)
        }
    }
}
