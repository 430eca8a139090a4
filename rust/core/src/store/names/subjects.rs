//! The names, numbers and groups of subjects.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

use crate::dispatch_log::BySubject;
use crate::queues::RangeSet;
use crate::units::{GroupNumber, Millis, Sequence, SubjectNumber};

/// The groups of a subject, in order of creation and by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubjectGroups {
    numbers: Vec<GroupNumber>,
    by_name: BTreeMap<String, GroupNumber>,
}

impl SubjectGroups {
    /// The group with this name.
    pub fn named(&self, name: &str) -> Option<GroupNumber> {
        self.by_name.get(name).copied()
    }

    /// Adds a group with an unused number and name.
    pub(in crate::store) fn add(&mut self, number: GroupNumber, name: &str) {
        self.numbers.push(number);
        self.by_name.insert(name.to_owned(), number);
    }

    pub(in crate::store) fn remove(&mut self, number: GroupNumber, name: &str) {
        self.numbers.retain(|other| *other != number);
        self.by_name.remove(name);
    }
}

impl Deref for SubjectGroups {
    type Target = [GroupNumber];

    fn deref(&self) -> &Self::Target {
        &self.numbers
    }
}

/// The state of a subject.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its groups.
    pub groups: SubjectGroups,
    /// Ready numbers that no future group receives either, since the messages are finished, voided or expired.
    pub gone: RangeSet,
    /// Entries of facts before this sequence are finished as soon as they become ready: their group was removed with
    /// all its retries.
    pub ended_before: Sequence,
    /// The number of expired messages.
    pub expired: u64,
    /// The latest time before which messages have expired.
    pub expired_before: Millis,
}

/// All subjects. Numbers are never reused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subjects {
    by_number: BySubject<Option<Subject>>,
    by_name: HashMap<String, SubjectNumber>,
}

impl Subjects {
    /// The number of the subject with this name.
    pub fn number(&self, name: &str) -> Option<SubjectNumber> {
        self.by_name.get(name).copied()
    }

    /// A subject by its number.
    pub fn get(&self, number: SubjectNumber) -> Option<&Subject> {
        self.by_number.get(number)?.as_ref()
    }

    /// A subject by its number, for changes.
    pub fn get_mut(&mut self, number: SubjectNumber) -> Option<&mut Subject> {
        self.by_number.get_mut(number)?.as_mut()
    }

    /// Adds a subject and returns true. If the number or the name is taken, changes nothing and returns false.
    pub fn add(&mut self, number: SubjectNumber, name: &str) -> bool {
        if self.by_name.contains_key(name) || self.get(number).is_some() {
            return false;
        }
        self.by_number.admit(number);
        if let Some(slot) = self.by_number.get_mut(number) {
            *slot = Some(Subject { name: name.to_owned(), ..Subject::default() });
        }
        self.by_name.insert(name.to_owned(), number);
        true
    }

    /// The lowest number above all used ones.
    pub fn next_number(&self) -> SubjectNumber {
        self.by_number.end().max(SubjectNumber(1))
    }

    /// All subjects, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SubjectNumber, &Subject)> {
        self.by_number.iter().filter_map(|(number, subject)| subject.as_ref().map(|subject| (number, subject)))
    }
}
