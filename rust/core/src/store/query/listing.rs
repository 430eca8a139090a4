//! Lists of groups, consumers and subjects for operators.

use crate::store::names::subject_names::{consumed_at, dead_letter_subject, is_of_users};
use crate::store::state::State;
use crate::units::{ConsumerNumber, GroupNumber, Millis, ReadyNumber, SubjectNumber};

/// A group of a subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupListed {
    /// Its number.
    pub number: GroupNumber,
    /// Its name.
    pub name: String,
    /// The name of its subject.
    pub subject: String,
    /// The ready number that it began with.
    pub start: ReadyNumber,
    /// The next ready number that was never assigned in it.
    pub cursor: ReadyNumber,
    /// The number that the subject's next ready message gets.
    pub next_number: ReadyNumber,
    /// Ready messages that it has not finished, including those in flight.
    pub lag: u64,
    /// Messages that its consumers hold.
    pub in_flight: u64,
    /// Its consumers.
    pub consumers: u64,
    /// Its dead letters.
    pub dead_letters: u64,
}

/// A consumer of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerListed {
    /// Its number.
    pub number: ConsumerNumber,
    /// Its name.
    pub name: String,
    /// The subject that it consumes: the group's subject or its retry subject.
    pub subject: String,
    /// Messages that it holds.
    pub in_flight: u64,
    /// True if a client named it: it outlives its connection and an open.
    pub is_lasting: bool,
    /// True if it receives every message of the subject: the group is its own and ends with it.
    pub is_broadcast: bool,
}

/// A subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubjectListed {
    /// Its number.
    pub number: SubjectNumber,
    /// Its name.
    pub name: String,
    /// Ready messages that some group has not finished; without groups, those that are kept.
    pub ready: u64,
    /// The number that its next ready message gets.
    pub next_number: ReadyNumber,
    /// The names of its groups.
    pub groups: Vec<String>,
    /// Messages that have expired.
    pub expired: u64,
    /// The latest time before which messages have expired; zero if none have.
    pub expired_before: Millis,
}

impl State {
    /// Returns the groups of users' subjects: by subject, in the order in which they were created.
    pub fn list_groups(&self) -> Vec<GroupListed> {
        let subjects = self.subjects.iter().filter(|(_, subject)| is_of_users(&subject.name));
        let groups = subjects.flat_map(|(number, subject)| {
            let groups = subject.groups.iter().filter_map(|group| self.groups.get(group));
            groups.map(move |group| (number, subject, group))
        });
        let listed = groups.map(|(number, subject, group)| {
            let next_number = self.dispatch.next_number(number);
            GroupListed {
                number: group.number,
                name: group.name.clone(),
                subject: subject.name.clone(),
                start: group.start,
                cursor: group.cursor.max(ReadyNumber(group.done.below())),
                next_number,
                lag: group.unfinished(next_number),
                in_flight: group.in_flight(),
                consumers: group.consumers.len() as u64,
                dead_letters: self.count_dead_letters(&subject.name, &group.name),
            }
        });
        listed.collect()
    }

    /// Returns the consumers of a group and of its retry subject, by number. `None` if the group does not exist.
    pub fn list_consumers(&self, subject: &str, group: &str) -> Option<Vec<ConsumerListed>> {
        self.subjects.number(subject).and_then(|number| self.group_named(number, group))?;
        let mut listed = Vec::new();
        for name in consumed_at(subject, group) {
            let number = self.subjects.number(&name).and_then(|number| self.group_named(number, group));
            let Some(found) = number.and_then(|number| self.groups.get(&number)) else { continue };
            listed.extend(found.consumers.values().map(|consumer| ConsumerListed {
                number: consumer.number,
                name: consumer.name.clone(),
                subject: name.clone(),
                in_flight: consumer.held.len() as u64,
                is_lasting: consumer.is_lasting,
                is_broadcast: consumer.is_broadcast,
            }));
        }
        listed.sort_unstable_by_key(|consumer| consumer.number);
        Some(listed)
    }

    fn count_dead_letters(&self, subject: &str, group: &str) -> u64 {
        let Some(dead) = self.subjects.number(&dead_letter_subject(subject, group)) else { return 0 };
        let number = self.group_named(dead, group);
        let group = number.and_then(|number| self.groups.get(&number));
        group.map_or(0, |group| group.unfinished(self.dispatch.next_number(dead)))
    }

    /// Returns the subjects of users, by number.
    pub fn list_subjects(&self) -> Vec<SubjectListed> {
        let subjects = self.subjects.iter().filter(|(_, subject)| is_of_users(&subject.name));
        let listed = subjects.map(|(number, subject)| {
            let groups = subject.groups.iter().filter_map(|group| self.groups.get(group));
            let next_number = self.dispatch.next_number(number);
            SubjectListed {
                number,
                name: subject.name.clone(),
                ready: self.count_unfinished(number),
                next_number,
                groups: groups.map(|group| group.name.clone()).collect(),
                expired: subject.expired,
                expired_before: subject.expired_before,
            }
        });
        listed.collect()
    }

    /// Returns how many ready messages some group has not finished; without groups, how many are kept.
    fn count_unfinished(&self, number: SubjectNumber) -> u64 {
        let Some(subject) = self.subjects.get(number) else { return 0 };
        let (floor, next) = (self.dispatch.finished_below(number).0, self.dispatch.next_number(number).0);
        let groups = subject.groups.iter().filter_map(|group| self.groups.get(group));
        let mut gaps: Vec<(u64, u64)> = groups.flat_map(|group| group.done.gaps(floor, next)).collect();
        if subject.groups.is_empty() {
            gaps = subject.gone.gaps(floor, next);
        }
        count_of(gaps)
    }
}

/// Returns how many numbers are in these ranges, each counted once.
pub(in crate::store) fn count_of(mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let mut counted_to = 0;
    let mut count = 0_u64;
    for (first, end) in ranges {
        count = count.saturating_add(end.saturating_sub(first.max(counted_to)));
        counted_to = counted_to.max(end);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_two_ranges_counts_once() {
        assert_eq!(count_of(vec![(5, 9), (0, 3), (2, 6), (9, 9)]), 9);
        assert_eq!(count_of(Vec::new()), 0);
    }
}
