//! The plan of a history of copies: everything that its seed decides before it begins.

use crate::chance::Chance;
use crate::options::{Options, Slots, slots};

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
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
}

impl Plan {
    /// The plan of a seed.
    pub(super) fn of(chance: &mut Chance) -> Self {
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
        }
    }
}

impl Options for Plan {
    const LENGTH: &'static str = "turns";

    fn slots(&mut self) -> Slots<'_> {
        slots![
            self: turns, nodes, min_copies, lost_percent, register_percent, crash_permille, cut_permille, wipes, restores
        ]
    }

    fn simpler(name: &str) -> Vec<u64> {
        match name {
            "nodes" => vec![2],
            "min_copies" => vec![1],
            _ => vec![0],
        }
    }
}
