//! The plan of a history of copies: everything that its seed decides before it begins.

use crate::chance::Chance;
use crate::options::{Options, Slots, slots};

/// A history of stores is so many times as long as one of numbers.
const STORES_TURNS: u64 = 5;

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Plan {
    /// Turns before the end.
    pub turns: u64,
    /// Nodes.
    pub nodes: u64,
    /// The least size of the set in which a publish is answered as stored.
    pub min_copies: u64,
    /// Percent of the messages between nodes that are lost; as many come twice.
    pub lost_percent: u64,
    /// Percent of the requests to the register that have trouble.
    pub register_percent: u64,
    /// In how many of a thousand turns a node crashes.
    pub crash_permille: u64,
    /// In how many of a thousand turns two nodes lose their connection, or get it back.
    pub cut_permille: u64,
    /// True if the folder of one node may be emptied.
    pub wipes: bool,
    /// True if a backup of the register may be restored.
    pub restores: bool,
    /// True if a node that lags may get a snapshot.
    pub snapshots: bool,
    /// The most calls of users in a turn of theirs.
    pub calls: u64,
    /// True if an operator removes nodes that are down.
    pub removes: bool,
    /// True if all machines of a set may be lost while another node is complete.
    pub loses: bool,
    /// True if an operator changes `min_copies`.
    pub demands: bool,
    /// True if wall clocks may be wrong by an hour. Machines that hold numbers have no time.
    pub clocks: bool,
    /// True if finished messages are not kept, so that segments of logs go. Machines that hold numbers keep them.
    pub retention: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let chance = &mut Chance::new(seed ^ u64::from_be_bytes(*b"CopyPlan"));
        let operators = &mut Chance::new(seed ^ u64::from_be_bytes(*b"Operates"));
        Self {
            turns: chance.between(200, 900),
            nodes: chance.between(2, 3),
            min_copies: chance.between(1, 2),
            lost_percent: chance.one_of(&[0, 5, 20]),
            register_percent: chance.one_of(&[0, 10, 30]),
            crash_permille: chance.one_of(&[2, 10, 30]),
            cut_permille: chance.one_of(&[0, 10, 30]),
            wipes: chance.percent(20),
            restores: chance.percent(25),
            snapshots: false,
            calls: 1,
            removes: operators.percent(25),
            loses: operators.percent(25),
            demands: operators.percent(25),
            clocks: false,
            retention: false,
        }
    }

    /// The plan of a seed whose copies are stores: a longer one, with more users.
    pub fn of_stores(seed: u64) -> Self {
        let plan = Self::of_seed(seed);
        let calls = Chance::new(seed ^ u64::from_be_bytes(*b"Callings")).between(1, 6);
        // The users of a store do not ask on how many copies a message was when they were answered.
        let (turns, snapshots) = (plan.turns * STORES_TURNS, seed.is_multiple_of(2));
        let retention = Chance::new(seed ^ u64::from_be_bytes(*b"Retained")).percent(50);
        Self { turns, snapshots, calls, loses: false, clocks: true, retention, ..plan }
    }
}

impl Options for Plan {
    const LENGTH: &'static str = "turns";

    fn slots(&mut self) -> Slots<'_> {
        slots![
            self: turns, nodes, min_copies, lost_percent, register_percent, crash_permille, cut_permille, wipes, restores, snapshots,
            calls, removes, loses, demands, clocks, retention
        ]
    }

    fn simpler(name: &str) -> Vec<u64> {
        match name {
            "nodes" => vec![2],
            "min_copies" | "calls" => vec![1],
            _ => vec![0],
        }
    }
}
