//! Subjects by name, for publishers and consumers on many threads. The core's directory decides.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use delaymq_core::error::Result;
use delaymq_core::record::limits::at_most;
pub use delaymq_core::record::limits::{NAME_CHARACTERS_MAX, check_name};
use delaymq_core::store::{SubjectDirectory, Subjects};
use delaymq_core::units::SubjectNumber;

use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A subject as publishers and consumers use it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) number: SubjectNumber,
    pub(crate) name: Arc<str>,
    /// The subject's own fact must go along with the fact that names it.
    pub(crate) needs_fact: bool,
}

#[derive(Debug)]
struct Table {
    directory: SubjectDirectory,
    by_number: HashMap<SubjectNumber, Arc<str>>,
}

impl Table {
    fn of(subjects: &Subjects) -> Self {
        let by_number = subjects.iter().map(|(number, subject)| (number, Arc::from(subject.name.as_str()))).collect();
        Self { directory: SubjectDirectory::of(subjects), by_number }
    }

    fn subject(&self, name: &str) -> Option<Subject> {
        let named = self.directory.get(name)?;
        let name = self.by_number.get(&named.number).cloned().unwrap_or_else(|| Arc::from(name));
        Some(Subject { number: named.number, name, needs_fact: named.needs_fact })
    }
}

#[derive(Debug)]
pub(crate) struct Names {
    table: RwLock<Table>,
}

impl Names {
    /// The subjects that recovery found.
    pub(crate) fn of(subjects: &Subjects) -> Self {
        Self { table: RwLock::new(Table::of(subjects)) }
    }

    /// These subjects are there, before any was used.
    pub(crate) fn renew(&self, subjects: &Subjects) {
        *self.write() = Table::of(subjects);
    }

    /// The subject of this name. A new name gets a number now.
    /// Fails with `TooLarge` if the store has as many subjects as it can.
    pub(crate) fn subject(&self, name: &str) -> Result<Subject> {
        self.subject_within(name, u32::MAX)
    }

    /// The number of this name, if it has one.
    pub(crate) fn subject_if_known(&self, name: &str) -> Option<SubjectNumber> {
        self.read().directory.get(name).map(|named| named.number)
    }

    /// As [`Self::subject`], but refuses a new name if `count_max` names have a number.
    /// Fails with `TooLarge` naming `subjects`; as [`Self::subject`].
    pub(crate) fn subject_within(&self, name: &str, count_max: u32) -> Result<Subject> {
        if let Some(subject) = self.read().subject(name) {
            return Ok(subject);
        }
        let mut table = self.write();
        if table.directory.get(name).is_none() {
            at_most("subjects", count_max as usize, table.directory.len().saturating_add(1))?;
        }
        let named = table.directory.assign(name)?;
        let name: Arc<str> = Arc::clone(table.by_number.entry(named.number).or_insert_with(|| Arc::from(name)));
        Ok(Subject { number: named.number, name, needs_fact: named.needs_fact })
    }

    /// The name of a number; empty if there is none.
    pub(crate) fn name_of(&self, number: SubjectNumber) -> Arc<str> {
        self.read().by_number.get(&number).cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// The log's queue has accepted the facts of these subjects. Since the log keeps a prefix of what was accepted,
    /// later submissions need not repeat them.
    pub(crate) fn submitted(&self, subjects: &[Subject]) {
        if subjects.is_empty() {
            return;
        }
        let mut table = self.write();
        for subject in subjects {
            table.directory.confirm(&subject.name);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_needs_one_fact() {
        let mut subjects = Subjects::default();
        subjects.add(SubjectNumber(4), "old");
        let names = Names::of(&subjects);
        let new = names.subject("new").unwrap();
        assert_eq!((new.number, new.needs_fact), (SubjectNumber(5), true));
        assert!(names.subject("new").unwrap().needs_fact);
        names.submitted(&[new]);
        assert!(!names.subject("new").unwrap().needs_fact);
        assert!(!names.subject("old").unwrap().needs_fact);
        assert_eq!(&*names.name_of(SubjectNumber(5)), "new");
    }

    #[test]
    fn a_new_name_beyond_the_limit_is_refused_and_a_known_one_is_not() {
        let names = Names::of(&Subjects::default());
        assert!(names.subject_within("a", 1).is_ok());
        let refused = names.subject_within("b", 1);
        assert!(
            matches!(refused, Err(delaymq_core::error::Error::TooLarge { argument: "subjects", limit: 1, found: 2 })),
            "{refused:?}"
        );
        assert!(names.subject_within("a", 1).is_ok());
        assert!(names.subject_within("b", 2).is_ok(), "the refused one took no place");
        assert!(names.subject("c").is_ok(), "who may bring in names is not held up");
    }
}
