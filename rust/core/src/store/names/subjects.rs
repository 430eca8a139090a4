//! Names and numbers of subjects, and which groups each has.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

use crate::dispatch_log::BySubject;
use crate::queues::RangeSet;
use crate::units::{GroupNumber, Millis, Sequence, SubjectNumber};

/// The groups of a subject, in the order in which they came to be, and by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubjectGroups {
    numbers: Vec<GroupNumber>,
    by_name: BTreeMap<String, GroupNumber>,
}

impl SubjectGroups {
    /// The group of this name.
    pub fn named(&self, name: &str) -> Option<GroupNumber> {
        self.by_name.get(name).copied()
    }

    /// Adds one whose number and name nobody has.
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

/// A subject, as applied.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its groups.
    pub groups: SubjectGroups,
    /// Ready numbers that are finished for groups to come, too: what is finished, was voided or has
    /// expired.
    pub gone: RangeSet,
    /// Entries of facts before this one are finished as soon as they are ready: their group was
    /// removed with all that it gave back.
    pub ended_before: Sequence,
    /// Messages that have expired.
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
    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<SubjectNumber> {
        self.by_name.get(name).copied()
    }

    /// A subject by its number.
    pub fn get(&self, number: SubjectNumber) -> Option<&Subject> {
        self.by_number.get(number)?.as_ref()
    }

    /// A subject by its number, to change it.
    pub fn get_mut(&mut self, number: SubjectNumber) -> Option<&mut Subject> {
        self.by_number.get_mut(number)?.as_mut()
    }

    /// Adds a subject. True where it was added; a number or name that is taken changes nothing.
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

    /// The lowest number above all that are taken.
    pub fn next_number(&self) -> SubjectNumber {
        self.by_number.end().max(SubjectNumber(1))
    }

    /// All subjects, by number.
    pub fn iter(&self) -> impl Iterator<Item = (SubjectNumber, &Subject)> {
        self.by_number.iter().filter_map(|(number, subject)| subject.as_ref().map(|subject| (number, subject)))
    }
}
