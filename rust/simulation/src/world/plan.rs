//! What a history is like: everything that its seed decides before it begins.

use delaymq_core::message_log::Durability;
use delaymq_core::store::OwnerOptions;

use crate::chance::Chance;
use crate::node::NodeOptions;

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one kind of trouble happens")]
pub struct Plan {
    /// How the store is opened.
    pub node: NodeOptions,
    /// Operations before the drain.
    pub operations: u64,
    /// Subjects.
    pub subjects: u64,
    /// Groups of each subject.
    pub groups: u64,
    /// Consumers of each group.
    pub consumers: u64,
    /// What each consumer may hold.
    pub in_flight_max: u32,
    /// Percent of the operations after which everything is committed and applied.
    pub settle_percent: u64,
    /// Percent of the operations that end the machine.
    pub crash_percent: u64,
    /// Percent of openings in which the machine ends.
    pub crash_in_open_percent: u64,
    /// True where storage calls fail now and then.
    pub faults: bool,
    /// True where the disk fills up now and then.
    pub fills: bool,
    /// Percent of openings that find the newest checkpoint unreadable; it reads well again later.
    pub unreadable_percent: u64,
    /// True where somebody turns the wall clock.
    pub clock_steps: bool,
    /// True where groups are removed and made again.
    pub removes_groups: bool,
    /// Bodies are at most this long.
    pub body_bytes_max: u64,
    /// Percent of the operations that an operator does.
    pub operator_percent: u64,
    /// True where dead letters are brought back before the end.
    pub redrives: bool,
    /// True where messages are let expire.
    pub expires: bool,
    /// True where dead letters are brought back at the end.
    pub redrives_at_the_end: bool,
    /// True where the drain begins with a restart.
    pub restart_before_drain: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(chance: &mut Chance) -> Self {
        let owner = OwnerOptions {
            checkpoint_bytes: u64::MAX,
            checkpoint_facts: chance.one_of(&[5, 12, 30, 1_000]),
            window_ms: chance.one_of(&[2, 16, 128, 1_000, 5_000]),
            window_entries_max: index(chance.one_of(&[2, 3, 8, 1_000])),
            ready_entries_max: index(chance.one_of(&[0, 3, 1_000])),
            copy_after_ms: chance.one_of(&[0, 10, 200, 600_000]),
            keep_finished_ms: chance.one_of(&[0, 0, 300, 600_000]),
            ..OwnerOptions::default()
        };
        let node = NodeOptions {
            durability: if chance.percent(60) { Durability::Disk } else { Durability::Os },
            segment_bytes: u32::try_from(chance.one_of(&[8, 8, 12, 20])).unwrap_or(8) << 10,
            keeps_consumers: chance.percent(40),
            owner,
            ..NodeOptions::default()
        };
        Self {
            node,
            operations: chance.between(40, 220),
            subjects: chance.between(1, 3),
            groups: chance.between(1, 2),
            consumers: chance.between(1, 2),
            in_flight_max: u32::try_from(chance.one_of(&[1, 2, 4, 16])).unwrap_or(1),
            settle_percent: chance.one_of(&[0, 20, 70]),
            crash_percent: chance.one_of(&[0, 1, 3, 6]),
            crash_in_open_percent: chance.one_of(&[0, 20, 50]),
            faults: chance.percent(25),
            fills: chance.percent(20),
            unreadable_percent: chance.one_of(&[0, 0, 20, 60]),
            clock_steps: chance.percent(25),
            removes_groups: chance.percent(30),
            body_bytes_max: chance.one_of(&[8, 60, 300, 700]),
            operator_percent: chance.one_of(&[0, 5, 15, 30]),
            redrives: chance.percent(60),
            expires: chance.percent(50),
            redrives_at_the_end: chance.percent(60),
            restart_before_drain: chance.percent(50),
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
