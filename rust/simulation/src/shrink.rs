//! A history that breaks a promise, made as small as it gets within bounds.

use std::time::{Duration, Instant};

use crate::world::{Ending, Plan, World};

/// Histories that are lived at most.
const LIVES_MAX: usize = 300;
/// And for at most so long.
const TIME_MAX: Duration = Duration::from_secs(20);

/// What is left of a failing history.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// How the smaller one ended.
    pub ending: Ending,
    /// The options in which its plan differs from that of its seed.
    pub set: Vec<(&'static str, u64)>,
    /// How many histories were lived to find it.
    pub lives: usize,
}

/// The options in which two plans differ.
pub fn differences(from: Plan, to: Plan) -> Vec<(&'static str, u64)> {
    let pairs = from.options().into_iter().zip(to.options());
    pairs.filter(|((_, before), (_, after))| before != after).map(|(_, after)| after).collect()
}

/// Lives the history of a seed with ever simpler options, as long as it still breaks a promise.
pub fn shrink(seed: u64, failing: Ending) -> Shrunk {
    let of_seed = World::plan_of(seed);
    let (began, mut lives, mut best) = (Instant::now(), 0, failing);
    let mut try_plan = |best: &mut Ending, name: &str, value: u64| {
        if lives >= LIVES_MAX || began.elapsed() > TIME_MAX {
            return false;
        }
        let mut plan = best.plan;
        plan.set(name, value);
        lives += 1;
        let ending = World::of(seed, plan, false).run();
        let fails = !ending.violations.is_empty();
        if fails {
            // The drain changes a plan; what is replayed is what it began with.
            *best = Ending { plan, ..ending };
        }
        fails
    };
    // What happened behind the failing operation is not needed.
    let operations = best.operations.min(best.plan.operations);
    try_plan(&mut best, "operations", operations);
    loop {
        let before = best.plan.options();
        for (name, _) in &before {
            let value = best.plan.options().iter().find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
            for simpler in Plan::simpler(name, value) {
                if try_plan(&mut best, name, simpler) {
                    break;
                }
            }
        }
        if best.plan.options() == before {
            break;
        }
    }
    Shrunk { set: differences(of_seed, best.plan), ending: best, lives }
}
