//! What a connected history is like: everything that its seed decides before it begins.

use delaymq_core::message_log::Durability;
use delaymq_core::store::OwnerOptions;
use delaymq_core::wire::caller::CallerLimits;
use delaymq_core::wire::connection_limits::ConnectionLimits;

use super::client::Client;
use crate::chance::Chance;
use crate::node::NodeOptions;

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How the store is opened.
    pub node: NodeOptions,
    /// Turns before the end.
    pub turns: u64,
    /// Subjects.
    pub subjects: u64,
    /// Groups of each subject.
    pub groups: u64,
    /// Clients of each group.
    pub consumers: u64,
    /// What each consumer may hold.
    pub in_flight_max: u32,
    /// Bytes that the network moves at once, at most.
    pub piece_bytes_max: usize,
    /// Requests that a client has under way, at most.
    pub calls_max: usize,
    /// What the server bounds.
    pub connection_limits: ConnectionLimits,
    /// Percent of the troubles that cut a connection.
    pub cut_percent: u64,
    /// Percent of the troubles that stop one for a while.
    pub pause_percent: u64,
    /// Percent of the troubles that end the server.
    pub crash_percent: u64,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(chance: &mut Chance) -> Self {
        let index = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let owner = OwnerOptions {
            checkpoint_bytes: u64::MAX,
            checkpoint_facts: u64::MAX,
            window_ms: chance.one_of(&[16, 1_000, 5_000]),
            ready_entries_max: index(chance.one_of(&[0, 3, 1_000])),
            copy_after_ms: chance.one_of(&[10, 600_000]),
            ..OwnerOptions::default()
        };
        let node = NodeOptions {
            durability: if chance.percent(70) { Durability::Disk } else { Durability::Os },
            segment_bytes: 64 << 10,
            owner,
            ..NodeOptions::default()
        };
        let connection_limits = ConnectionLimits {
            requests_max: index(chance.one_of(&[1, 3, 1_024])),
            output_bytes_max: index(chance.one_of(&[200, 2_000, 1 << 20])),
            ..ConnectionLimits::default()
        };
        Self {
            node,
            turns: chance.between(100, 800),
            subjects: chance.between(1, 2),
            groups: chance.between(1, 2),
            consumers: chance.between(1, 2),
            in_flight_max: u32::try_from(chance.one_of(&[1, 2, 8])).unwrap_or(1),
            piece_bytes_max: index(chance.one_of(&[3, 40, 500, 10_000])),
            calls_max: index(chance.one_of(&[1, 4, 64])),
            connection_limits,
            cut_percent: chance.one_of(&[0, 10, 30]),
            pause_percent: chance.one_of(&[0, 20]),
            crash_percent: chance.one_of(&[0, 4, 12]),
        }
    }

    /// True where an answer does not wait for the disk: no power is cut then.
    pub(super) fn is_os(&self) -> bool {
        self.node.durability == Durability::Os
    }

    /// What a client bounds.
    pub(super) fn caller_limits(&self) -> CallerLimits {
        CallerLimits { requests_max: self.calls_max, ..CallerLimits::default() }
    }

    /// The names of all subjects.
    pub(super) fn subject_names(&self) -> Vec<String> {
        (0..self.subjects).map(|subject| format!("subject-{subject}")).collect()
    }

    /// Every group, with its subject.
    pub(super) fn groups_of_subjects(&self) -> Vec<(String, String)> {
        let subjects = self.subject_names();
        let groups = subjects.iter().enumerate().flat_map(|(index, subject)| {
            (0..self.groups).map(move |group| (subject.clone(), format!("group-{index}-{group}")))
        });
        groups.collect()
    }

    /// The clients: so many for each group.
    pub(super) fn clients(&self) -> Vec<Client> {
        let groups = self.groups_of_subjects();
        let each = groups.iter().flat_map(|place| (0..self.consumers).map(move |_| place));
        each.map(|(subject, group)| Client::new(subject, group, self.in_flight_max)).collect()
    }
}
