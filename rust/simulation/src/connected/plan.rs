//! The plan of a connected history: everything that its seed decides before it begins.

use std::collections::BTreeMap;

use delaymq_core::message_log::{Durability, SEGMENT_BYTES_MIN};
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::store::{OwnerOptions, RetryRule, dead_letter_subject, retry_subject};
use delaymq_core::wire::client::caller::CallerLimits;
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;

use super::client::{Client, Consumes, series_of};
use super::labels::Wants;
use super::ledger::{GroupName, Place};
use super::qmq::Wants as QmqWants;
use super::server::{LastingOptions, ServerOptions};
use crate::chance::Chance;
use crate::node::NodeOptions;
use crate::options::{Options, Slots, slots};

/// The subjects are selected by a prefix.
pub(super) const BY_PREFIX: u64 = 2;
/// Subjects with the prefix that nobody publishes to before the history begins.
const NEW_SUBJECTS: u64 = 2;

/// The expanded options of one history.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something else that may be or not")]
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
    /// True where clients must say hello with a token, but for those of QMQ.
    pub needs_token: bool,
    /// How the server treats QMQ's consumers.
    pub(super) lasting: LastingOptions,
    /// Groups of QMQ's consumers.
    pub qmq_groups: u64,
    /// Consumers of each that may die.
    pub qmq_consumers: u64,
    /// True where consumers let their group begin again.
    pub resets: bool,
    /// True where the second group has a filter.
    pub has_filter: bool,
    /// True where an operator switches consumers off and on.
    pub switches: bool,
    /// Percent of the messages of QMQ whose check is wrong.
    pub damaged_percent: u64,
    /// True where the wall clock steps.
    pub clock_steps: bool,
    /// Percent of the troubles that are the disk's.
    pub disk_percent: u64,
    /// True where clients have messages sent again and again.
    pub recurs: bool,
    /// Broadcast consumers of QMQ. Drawn apart, as `changes`.
    pub broadcasts: u64,
    /// True where clients move messages, and have some stored under ids. Drawn apart from all else, so that the seeds
    /// of histories without it are what they were.
    pub changes: bool,
    /// The kind of the filters of the last group of each subject; 0 for none. Drawn apart, as `changes`.
    pub filters: u64,
    /// How each own client consumes many subjects: 0 not, 1 by their names, 2 by a prefix, and there are new ones. Drawn
    /// apart.
    pub together: u64,
    /// True where messages may expire. Drawn apart.
    pub expires: bool,
    /// True where the wall clock steps too far to be believed, and an operator accepts such steps. Drawn apart.
    pub accepts: bool,
    /// How long own clients may have a message before they settle it; 0 is for ever. Drawn apart.
    pub handle_within_ms: u64,
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
            opening_bytes: SEGMENT_BYTES_MIN,
            owner,
            ..NodeOptions::default()
        };
        let connection_limits = ConnectionLimits {
            requests_max: index(chance.one_of(&[1, 3, 1_024])),
            output_bytes_max: index(chance.one_of(&[200, 2_000, 1 << 20])),
            ..ConnectionLimits::default()
        };
        let mut plan = Self {
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
            needs_token: chance.percent(30),
            lasting: LastingOptions {
                lease_ms: chance.one_of(&[2_000, 20_000, 180_000]),
                broadcast_lease_ms: 0,
                rule: RetryRule {
                    delay_ms: chance.one_of(&[0, 50, 5_000]),
                    attempts_max: u32::try_from(chance.one_of(&[1, 3, 32])).unwrap_or(1),
                    reason: None,
                },
                in_flight_min: u32::try_from(chance.one_of(&[1, 2, 8, 256])).unwrap_or(1),
                held_max: 100,
            },
            qmq_groups: chance.between(0, 2),
            qmq_consumers: chance.between(0, 2),
            resets: chance.percent(15),
            has_filter: chance.percent(40),
            switches: chance.percent(20),
            damaged_percent: chance.one_of(&[0, 5]),
            clock_steps: chance.percent(25),
            disk_percent: chance.one_of(&[0, 0, 0, 10]),
            recurs: chance.percent(35),
            changes: false,
            broadcasts: 0,
            filters: 0,
            together: 0,
            expires: false,
            accepts: false,
            handle_within_ms: 0,
        };
        plan.lasting.broadcast_lease_ms = 10 * plan.lasting.lease_ms;
        plan
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
        let new = if self.together == BY_PREFIX { NEW_SUBJECTS } else { 0 };
        (0..self.subjects.saturating_add(new)).map(|subject| format!("subject-{subject}")).collect()
    }

    /// Every group, with its subject.
    pub(super) fn groups_of_subjects(&self) -> Vec<(String, String)> {
        let subjects = self.subject_names();
        let groups = (0..).zip(&subjects).flat_map(|(index, subject)| {
            (0..self.groups).map(move |group| (subject.clone(), self.group_of(index, group)))
        });
        groups.collect()
    }

    /// The groups that exist from the beginning: those of new subjects are made by who meets these.
    pub(super) fn first_groups(&self) -> Vec<(String, String)> {
        let count = usize::try_from(self.subjects.saturating_mul(self.groups)).unwrap_or(usize::MAX);
        self.groups_of_subjects().into_iter().take(count).collect()
    }

    /// The name of a group of own clients.
    fn group_of(&self, subject: u64, group: u64) -> String {
        let subject = if self.together == 0 { subject } else { 0 };
        format!("group-{subject}-{group}")
    }

    /// The groups that have filters.
    pub(super) fn filtered_groups(&self) -> BTreeMap<String, Wants> {
        let last = self.groups.saturating_sub(1);
        let subjects = (0..self.subjects).filter(|_| self.filters > 0);
        subjects.map(|subject| (self.group_of(subject, last), Wants(self.filters))).collect()
    }

    /// How the server is begun.
    pub(super) fn server_options(&self) -> ServerOptions {
        let Self { connection_limits, needs_token, lasting, .. } = *self;
        ServerOptions { connection_limits, needs_token, lasting }
    }

    /// The subjects that QMQ's clients send to.
    pub(super) fn qmq_subjects(&self) -> Vec<String> {
        if self.qmq_groups == 0 { vec!["qmq".to_owned()] } else { vec!["qmq".to_owned(), "qmq-too".to_owned()] }
    }

    /// The groups of QMQ's consumers, with the tag that each wants.
    pub(super) fn qmq_groups(&self) -> Vec<(GroupName, Option<&'static str>)> {
        let wants = |group: u64| (self.has_filter && group == 1).then_some("left");
        let name = |group: u64| ("qmq".to_owned(), format!("qmq-group-{group}"));
        (0..self.qmq_groups).map(|group| (name(group), wants(group))).collect()
    }

    /// The groups of QMQ's broadcast consumers, whose names they have.
    pub(super) fn broadcast_groups(&self) -> Vec<GroupName> {
        (0..self.broadcasts).map(|number| ("qmq".to_owned(), format!("host-{number}"))).collect()
    }

    /// QMQ's clients: some that may die for each group, and one that does not for each subject of a group.
    pub(super) fn qmq_clients(&self, chance: &mut Chance) -> Vec<QmqWants> {
        let mut clients = Vec::new();
        for (of, tag) in self.qmq_groups() {
            let mut add = |subject: String, consumer: String, is_immortal: bool| {
                let is_main = subject == of.0;
                let tags = tag.filter(|_| is_main).map(str::to_owned);
                let filters: Vec<Filter> =
                    tags.into_iter().map(|tag| Filter::Tags { rule: TagRule::Any, tags: vec![tag] }).collect();
                let versions: &[u64] = if filters.is_empty() { &[7, 8, 9] } else { &[8, 9] };
                clients.push(QmqWants {
                    place: Place { subject, of: of.clone(), consumer },
                    filters,
                    version: i16::try_from(chance.one_of(versions)).unwrap_or(9),
                    pulls_max: usize::try_from(chance.one_of(&[1, 1, 3])).unwrap_or(1),
                    is_immortal,
                    is_broadcast: false,
                    resets: self.resets && is_main,
                });
            };
            for index in 0..self.qmq_consumers {
                let subject = if index == 0 { of.0.clone() } else { retry_subject(&of.0, &of.1) };
                add(subject, format!("mortal-{index}"), false);
            }
            add(of.0.clone(), "main".to_owned(), true);
            add(retry_subject(&of.0, &of.1), "main".to_owned(), true);
            add(dead_letter_subject(&of.0, &of.1), "main".to_owned(), true);
        }
        for (number, of) in (0..).zip(self.broadcast_groups()) {
            let own = [retry_subject(&of.0, &of.1), dead_letter_subject(&of.0, &of.1)];
            clients.extend(own.into_iter().chain([of.0.clone()]).map(|subject| QmqWants {
                place: Place { subject, of: of.clone(), consumer: of.1.clone() },
                filters: Vec::new(),
                version: 7 + number % 3,
                pulls_max: 1,
                is_immortal: true,
                is_broadcast: true,
                resets: false,
            }));
        }
        clients
    }

    /// The subject and the group of each client.
    fn places(&self) -> Vec<(String, String)> {
        let mut groups = self.first_groups();
        if self.together > 0 {
            groups.truncate(usize::try_from(self.groups).unwrap_or(usize::MAX));
        }
        groups.iter().flat_map(|place| (0..self.consumers).map(move |_| place.clone())).collect()
    }

    /// The clients: so many for each group.
    pub(super) fn clients(&self) -> Vec<Client> {
        let filtered = self.filtered_groups();
        let new = |(number, (subject, group)): (usize, (String, String))| {
            let filters = filtered.get(&group).map(|wants| wants.filters()).unwrap_or_default();
            let subjects = match self.together {
                0 => vec![subject.clone()],
                BY_PREFIX => vec!["subject-*".to_owned()],
                _ => self.subject_names(),
            };
            let within_ms = Some(self.handle_within_ms).filter(|within_ms| *within_ms > 0);
            let consumes = Consumes { subject, subjects, group, filters, within_ms };
            Client::new(number, consumes, self.in_flight_max, self.needs_token)
        };
        self.places().into_iter().enumerate().map(new).collect()
    }

    /// The subject and the name of each client's series.
    pub(super) fn series(&self) -> Vec<(String, String)> {
        self.places().into_iter().enumerate().map(|(number, (subject, _))| (subject, series_of(number))).collect()
    }
}

impl Options for Plan {
    const LENGTH: &'static str = "turns";

    fn slots(&mut self) -> Slots<'_> {
        let mut all = slots![self: turns, disk_percent, recurs, changes, crash_percent, cut_percent, pause_percent,
            clock_steps, switches, resets, has_filter, damaged_percent, needs_token, qmq_groups, qmq_consumers, broadcasts, filters, together, expires, accepts, handle_within_ms,
            subjects, groups, consumers, in_flight_max, piece_bytes_max, calls_max];
        let (os, owner) = (&mut self.node.durability, &mut self.node.owner);
        all.push(("os", os));
        all.extend(slots![owner: window_ms, ready_entries_max, copy_after_ms]);
        all
    }

    fn simpler(name: &str) -> Vec<u64> {
        match name {
            "subjects" | "groups" | "consumers" | "in_flight_max" | "calls_max" => vec![1],
            "piece_bytes_max" => vec![10_000],
            "window_ms" | "ready_entries_max" => vec![1_000],
            "copy_after_ms" => vec![600_000],
            _ => vec![0],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::tests::are_set_by_their_names;

    #[test]
    fn every_option_is_set_by_its_name() {
        are_set_by_their_names(Plan::of(&mut Chance::new(1)));
    }
}
