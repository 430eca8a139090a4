//! Targets over their corpus, and over mutations of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use delaymq_simulation::chance::Chance;

use crate::corpus::{Input, inputs};
use crate::mutation::mutated;
use crate::targets::Target;
use crate::verdict::Verdict;

/// Longer than any input may take, on a machine that does other work, too.
const INPUT_MAX: Duration = Duration::from_secs(5);
/// Inputs that were taken and serve as beginnings of others, beside the corpus.
const GROWN_MAX: usize = 64;

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// By which target.
    pub target: &'static str,
    /// By which input.
    pub input: Vec<u8>,
    /// Where that came from.
    pub origin: String,
    /// Which promise.
    pub what: String,
}

/// What was tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Inputs that were read.
    pub taken: u64,
    /// Inputs that were refused.
    pub refused: u64,
}

impl Tally {
    /// All of them.
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

/// One input. A panic breaks a promise, too, and so does what takes too long.
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

/// The corpus of a target.
///
/// # Errors
/// The first input that breaks a promise; a corpus that cannot be read or in which nothing is taken.
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

/// Mutations of the corpus of a target: so many, or until it is so late.
///
/// # Errors
/// The first that breaks a promise.
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
