//! Targets over their corpus, and over mutations of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use delaymq_simulation::chance::Chance;

use crate::corpus::{Input, inputs};
use crate::mutation::mutated;
use crate::targets::Target;
use crate::verdict::Verdict;

/// The most time for one input, also on a machine that does other work.
const INPUT_MAX: Duration = Duration::from_secs(5);
/// Accepted inputs that are mutated further, in addition to the corpus.
const GROWN_MAX: usize = 64;

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The target.
    pub target: &'static str,
    /// The input.
    pub input: Vec<u8>,
    /// The origin of the input.
    pub origin: String,
    /// The promise.
    pub what: String,
}

/// The counts of inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Inputs that were read.
    pub taken: u64,
    /// Inputs that were refused.
    pub refused: u64,
}

impl Tally {
    /// All inputs.
    pub fn inputs(&self) -> u64 {
        self.taken.saturating_add(self.refused)
    }

    fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Taken => self.taken = self.taken.saturating_add(1),
            Verdict::Refused => self.refused = self.refused.saturating_add(1),
        }
    }
}

/// Runs one input. A panic also counts as a broken promise, and so does an input that takes too long.
///
/// # Errors
/// The promise that was broken.
pub fn tried(target: &Target, input: &[u8]) -> Result<Verdict, String> {
    let started = Instant::now();
    let judged = catch_unwind(AssertUnwindSafe(|| target.judge(input)));
    let taken = started.elapsed();
    if taken > INPUT_MAX {
        return Err(format!("it took {taken:?}"));
    }
    judged.unwrap_or_else(|panicked| {
        let words = panicked.downcast_ref::<String>().cloned();
        let words = words.or_else(|| panicked.downcast_ref::<&str>().map(|words| (*words).to_owned()));
        Err(format!("panicked: {}", words.unwrap_or_default()))
    })
}

/// Runs the corpus of a target.
///
/// # Errors
/// The first input that breaks a promise; a corpus that cannot be read, or of which no input is accepted.
pub fn replay(target: &'static Target) -> Result<Tally, Found> {
    let broken =
        |origin: String, input: &[u8], what| Found { target: target.name, input: input.to_vec(), origin, what };
    let corpus = inputs(target.name).map_err(|what| broken("corpus".to_owned(), &[], what))?;
    let mut tally = Tally::default();
    for Input { name, bytes } in &corpus {
        tally.count(tried(target, bytes).map_err(|what| broken(name.clone(), bytes, what))?);
    }
    if tally.taken == 0 {
        let what = format!("no input of {} is taken", corpus.len());
        return Err(broken("corpus".to_owned(), &[], what));
    }
    Ok(tally)
}

/// Runs mutations of the corpus of a target: this number, or until this time.
///
/// # Errors
/// The first mutation that breaks a promise.
pub fn mutate(target: &'static Target, seed: u64, count: u64, until: Option<Instant>) -> Result<Tally, Found> {
    let mut pool: Vec<Vec<u8>> = inputs(target.name).unwrap_or_default().into_iter().map(|input| input.bytes).collect();
    let corpus = pool.len();
    let mut chance = Chance::new(seed);
    let mut tally = Tally::default();
    for number in 0..count {
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        let from = chance.pick(&pool).cloned().unwrap_or_default();
        let other = chance.pick(&pool).cloned().unwrap_or_default();
        let input = mutated(&from, &other, target.length_max, &mut chance);
        let verdict = tried(target, &input).map_err(|what| Found {
            target: target.name,
            input: input.clone(),
            origin: format!("mutation {number} of seed {seed}"),
            what,
        })?;
        tally.count(verdict);
        if verdict == Verdict::Taken && chance.percent(5) {
            if pool.len() < corpus.saturating_add(GROWN_MAX) {
                pool.push(input);
            } else if let Some(place) =
                pool.iter_mut().skip(corpus).nth(usize::try_from(chance.below(GROWN_MAX as u64)).unwrap_or(0))
            {
                *place = input;
            }
        }
    }
    Ok(tally)
}
