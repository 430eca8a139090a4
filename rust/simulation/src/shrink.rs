//! Shrinks a history that breaks a promise, as far as it gets within bounds.

use std::time::{Duration, Instant};

use crate::options::Options;

/// Histories that are lived at most.
const LIVES_MAX: usize = 300;
/// The longest time that shrinking takes.
const TIME_MAX: Duration = Duration::from_secs(20);

/// A failing history after shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk<P> {
    /// Its plan.
    pub plan: P,
    /// Its findings.
    pub violations: Vec<String>,
    /// The options in which its plan differs from that of its seed.
    pub set: Vec<(&'static str, u64)>,
    /// How many histories were lived for it.
    pub lives: usize,
}

/// The options in which two plans differ.
pub fn differences<P: Options>(from: P, to: P) -> Vec<(&'static str, u64)> {
    let pairs = from.options().into_iter().zip(to.options());
    pairs.filter(|((_, before), (_, after))| before != after).map(|(_, after)| after).collect()
}

/// Simplifies the options of a failed history, one after the other, as long as it still breaks a promise. `lived` is
/// its length until it failed. `live` returns the findings of a plan.
pub fn shrink<P: Options>(
    of_seed: P,
    failed: (P, Vec<String>),
    lived: u64,
    live: impl Fn(P) -> Vec<String>,
) -> Shrunk<P> {
    let (began, mut lives) = (Instant::now(), 0);
    let (mut plan, mut violations) = failed;
    let mut try_option = |plan: &mut P, violations: &mut Vec<String>, name: &str, value: u64| {
        if lives >= LIVES_MAX || began.elapsed() > TIME_MAX {
            return false;
        }
        let mut simpler = *plan;
        simpler.set(name, value);
        lives += 1;
        let found = live(simpler);
        let fails = !found.is_empty();
        if fails {
            (*plan, *violations) = (simpler, found);
        }
        fails
    };
    // Operations after the failure are not needed.
    try_option(&mut plan, &mut violations, P::LENGTH, lived);
    loop {
        let before = plan.options();
        for (name, _) in &before {
            let value = plan.options().iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
            for simpler in P::simpler_than(name, value) {
                if try_option(&mut plan, &mut violations, name, simpler) {
                    break;
                }
            }
        }
        if plan.options() == before {
            break;
        }
    }
    Shrunk { set: differences(of_seed, plan), plan, violations, lives }
}
