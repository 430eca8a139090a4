//! Subject numbers as publishers give them out, before the facts that name them are applied.
//!
//! A number is decided in memory; each publish repeats the subject's fact until one of them is
//! known to be visible. Since a log keeps a prefix of what was submitted, a message is never kept
//! without the fact that names its subject.

use std::collections::HashMap;

use super::subjects::Subjects;
use crate::dispatch_log::SUBJECT_NUMBER_MAX;
use crate::error::{Error, Result};
use crate::units::SubjectNumber;

/// A subject's number, and whether its fact must go along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedSubject {
    /// The number.
    pub number: SubjectNumber,
    /// True while no fact of this name is known to be visible.
    pub needs_fact: bool,
}

/// Names to numbers, ahead of the state.
#[derive(Clone, Debug)]
pub struct SubjectDirectory {
    by_name: HashMap<String, NamedSubject>,
    next: SubjectNumber,
}

impl SubjectDirectory {
    /// What the applied state knows.
    pub fn of(subjects: &Subjects) -> Self {
        let by_name = subjects
            .iter()
            .map(|(number, subject)| (subject.name.clone(), NamedSubject { number, needs_fact: false }))
            .collect();
        Self { by_name, next: subjects.next_number() }
    }

    /// The subject of this name, if it has a number.
    pub fn get(&self, name: &str) -> Option<NamedSubject> {
        self.by_name.get(name).copied()
    }

    /// How many names have a number.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True where none has.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The subject of this name, given the next number where it has none.
    ///
    /// # Errors
    /// `TooLarge` where the store has as many subjects as it can.
    pub fn assign(&mut self, name: &str) -> Result<NamedSubject> {
        if let Some(known) = self.get(name) {
            return Ok(known);
        }
        if self.next.0 > SUBJECT_NUMBER_MAX {
            return Err(Error::TooLarge {
                argument: "subject",
                limit: u64::from(SUBJECT_NUMBER_MAX),
                found: u64::from(self.next.0),
            });
        }
        let named = NamedSubject { number: self.next, needs_fact: true };
        self.next = self.next.next();
        self.by_name.insert(name.to_owned(), named);
        Ok(named)
    }

    /// A fact of this name is visible: publishes need not repeat it.
    pub fn confirm(&mut self, name: &str) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.needs_fact = false;
        }
    }
}
