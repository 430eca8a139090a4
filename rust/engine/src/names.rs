//! Subjects by name, for publishers and consumers on many threads; the core's directory decides.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use delaymq_core::error::Result;
pub use delaymq_core::record::limits::{NAME_CHARACTERS_MAX, check_name};
use delaymq_core::store::{SubjectDirectory, Subjects};
use delaymq_core::units::SubjectNumber;

/// A subject as publishers and consumers use it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) number: SubjectNumber,
    pub(crate) name: Arc<str>,
    /// Its fact must go along with what names it.
    pub(crate) needs_fact: bool,
}

#[derive(Debug)]
struct Table {
    directory: SubjectDirectory,
    by_number: HashMap<SubjectNumber, Arc<str>>,
}

impl Table {
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
    /// What recovery found.
    pub(crate) fn of(subjects: &Subjects) -> Self {
        let by_number = subjects.iter().map(|(number, subject)| (number, Arc::from(subject.name.as_str()))).collect();
        Self { table: RwLock::new(Table { directory: SubjectDirectory::of(subjects), by_number }) }
    }

    /// The subject of this name, which gets a number now where it has none.
    ///
    /// # Errors
    /// `TooLarge` where the store has as many subjects as it can.
    pub(crate) fn subject(&self, name: &str) -> Result<Subject> {
        if let Some(subject) = self.read().subject(name) {
            return Ok(subject);
        }
        let mut table = self.write();
        let named = table.directory.assign(name)?;
        let name: Arc<str> = Arc::clone(table.by_number.entry(named.number).or_insert_with(|| Arc::from(name)));
        Ok(Subject { number: named.number, name, needs_fact: named.needs_fact })
    }

    /// The name of a number; empty where there is none.
    pub(crate) fn name_of(&self, number: SubjectNumber) -> Arc<str> {
        self.read().by_number.get(&number).cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// The facts of these subjects were accepted by the log's queue. Since the log keeps a prefix
    /// of what it accepted, whoever submits after this need not repeat them.
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
}
