//! The histories of many seeds, on all cores.

use std::ops::Range;

use delaymq_core::planted::Planted;

use crate::chance::TraceHash;
use crate::checker::Counts;
use crate::connected::{self, Connected};
use crate::copies::{self, Copies, Machine, Numbers, StoreMachine};
use crate::parallel::in_parallel;
use crate::world::{Plan, World};

/// One in so many seeds also has a history over connections.
const CONNECTED_EVERY: u64 = 4;
/// Seeds of one piece of work.
const CHUNK: u64 = 64;
/// Broken histories that are kept whole. Of others only the findings are kept.
const ENDINGS_MAX: usize = 8;

/// The kinds of histories that are lived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Histories {
    /// A history of a store from each seed, and from some seeds also one over connections.
    All,
    /// A history over connections from each seed.
    Connected,
    /// A history of copies from each seed, whose logs are lists of numbers.
    Copies,
    /// A history of copies from each seed, which are stores.
    Cluster,
}

impl Histories {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "all" => Some(Self::All),
            "connected" => Some(Self::Connected),
            "copies" => Some(Self::Copies),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }

    /// The arguments that ask for this kind.
    pub fn arguments(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Connected => " --histories connected",
            Self::Copies => " --histories copies",
            Self::Cluster => " --histories cluster",
        }
    }
}

/// A history that broke a promise.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// Its expanded options, in words.
    pub plan: String,
    /// What is wrong.
    pub violations: Vec<String>,
    /// Its plan and its length, for shrinking.
    pub failed: Option<Failed>,
}

/// A history as it failed.
#[derive(Clone, Copy, Debug)]
pub enum Failed {
    /// One of a store, after so many operations.
    World(Plan, u64),
    /// One over connections, after so many turns.
    Connected(connected::Plan, u64),
    /// One of copies, after so many turns.
    Copies(copies::Plan, u64),
    /// One of copies that are stores, after so many turns.
    Cluster(copies::Plan, u64),
}

/// The plans of the histories of a seed.
pub struct Plans<'a> {
    /// Of a store.
    pub world: &'a (dyn Fn(u64) -> Plan + Sync),
    /// Over connections.
    pub connected: &'a (dyn Fn(u64) -> connected::Plan + Sync),
    /// Of copies.
    pub copies: &'a (dyn Fn(u64) -> copies::Plan + Sync),
    /// Of copies that are stores.
    pub cluster: &'a (dyn Fn(u64) -> copies::Plan + Sync),
}

impl Plans<'static> {
    /// Those that the seeds have of their own.
    pub const OF_SEEDS: Self = Self {
        world: &World::plan_of,
        connected: &Connected::plan_of,
        copies: &copies::Plan::of_seed,
        cluster: &copies::Plan::of_stores,
    };
}

/// What histories came to.
#[derive(Debug, Default)]
pub struct Found {
    /// The digest of all that happened.
    pub hash: TraceHash,
    /// Operations done.
    pub operations: u64,
    /// Times the machine or the process ended.
    pub crashes: u64,
    /// What was counted.
    pub counts: Counts,
    /// In how many histories of a store something was punched out of segments.
    pub hollow_segments: u64,
    /// The same of runs.
    pub hollow_runs: u64,
    /// What was counted over connections.
    pub over_connections: connected::Counts,
    /// What was counted of QMQ's clients there.
    pub of_qmq: connected::QmqCounts,
    /// What was counted of copies.
    pub of_copies: copies::Counts,
    /// Those that broke a promise, in the order of their seeds.
    pub broken: Vec<Broken>,
    /// What happened, where it was asked for.
    pub trace: Vec<String>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.hash.add_number(other.hash.value());
        self.operations += other.operations;
        self.crashes += other.crashes;
        self.counts.add(other.counts);
        self.hollow_segments += other.hollow_segments;
        self.hollow_runs += other.hollow_runs;
        self.over_connections.add(other.over_connections);
        self.of_qmq.add(other.of_qmq);
        self.of_copies.add(other.of_copies);
        let room = ENDINGS_MAX.saturating_sub(self.broken.len());
        let kept = |(place, broken): (usize, Broken)| {
            let failed = if place < room { broken.failed } else { None };
            Broken { failed, ..broken }
        };
        self.broken.extend(other.broken.into_iter().enumerate().map(kept));
        self.trace.extend(other.trace);
    }

    fn live(&mut self, seed: u64, histories: Histories, plans: &Plans<'_>, tells: bool) {
        match histories {
            Histories::Copies => {
                return self.live_in_copies::<Numbers>(seed, &(plans.copies)(seed), tells, Failed::Copies);
            }
            Histories::Cluster => {
                return self.live_in_copies::<StoreMachine>(seed, &(plans.cluster)(seed), tells, Failed::Cluster);
            }
            Histories::All | Histories::Connected => {}
        }
        if histories == Histories::All {
            self.live_in_a_world(seed, &(plans.world)(seed), tells);
        }
        if histories == Histories::Connected || tells || seed.is_multiple_of(CONNECTED_EVERY) {
            self.live_connected(seed, &(plans.connected)(seed), tells);
        }
    }

    fn live_in_a_world(&mut self, seed: u64, plan: &Plan, tells: bool) {
        let mut ending = World::of(seed, *plan, tells).run();
        self.trace.append(&mut ending.trace);
        self.hash.add_number(ending.hash);
        self.operations += ending.operations;
        self.crashes += ending.crashes;
        self.counts.add(ending.counts);
        self.hollow_segments += u64::from(ending.punched.segment_bytes > 0);
        self.hollow_runs += u64::from(ending.punched.run_bytes > 0);
        if !ending.violations.is_empty() {
            // The drain changes a plan; what is replayed is what it began with.
            let failed = Some(Failed::World(*plan, ending.operations));
            self.broken.push(Broken { seed, plan: format!("{plan:#?}"), violations: ending.violations, failed });
        }
    }

    fn live_connected(&mut self, seed: u64, plan: &connected::Plan, tells: bool) {
        let ending = Connected::of(seed, *plan, tells).run();
        let connected::Ending { hash, turns, counts, qmq, violations, plan, trace } = ending;
        self.trace.extend(trace);
        self.hash.add_number(hash);
        self.operations += turns;
        self.over_connections.add(counts);
        self.of_qmq.add(qmq);
        if !violations.is_empty() {
            let failed = Some(Failed::Connected(plan, turns));
            self.broken.push(Broken { seed, plan: format!("{plan:#?}"), violations, failed });
        }
    }

    fn live_in_copies<M: Machine>(
        &mut self,
        seed: u64,
        plan: &copies::Plan,
        tells: bool,
        failed: fn(copies::Plan, u64) -> Failed,
    ) {
        let ending = Copies::<M>::of(seed, *plan, tells).run();
        let copies::Ending { hash, turns, counts, violations, plan, trace } = ending;
        self.trace.extend(trace);
        self.hash.add_number(hash);
        self.operations += turns;
        self.crashes += counts.crashes;
        self.of_copies.add(counts);
        if !violations.is_empty() {
            let failed = Some(failed(plan, turns));
            self.broken.push(Broken { seed, plan: format!("{plan:#?}"), violations, failed });
        }
    }
}

/// Lives the histories of these seeds on so many threads. `plans` has the plan of each seed.
pub fn run_seeds(
    seeds: Range<u64>,
    histories: Histories,
    threads: usize,
    tells: bool,
    planted: Option<Planted>,
    plans: &Plans<'_>,
) -> Found {
    let count = seeds.end.saturating_sub(seeds.start);
    let chunks = in_parallel(count.div_ceil(CHUNK), threads, planted, |chunk| {
        let mut found = Found::default();
        let first = seeds.start + chunk * CHUNK;
        for seed in first..first.saturating_add(CHUNK).min(seeds.end) {
            found.live(seed, histories, plans, tells);
        }
        found
    });
    let mut found = Found::default();
    chunks.for_each(|chunk| found.add(chunk));
    found
}
