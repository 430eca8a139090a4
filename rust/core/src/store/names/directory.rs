//! Assigns numbers to subjects for publishers, before the facts that name the subjects are applied.
//!
//! A number is assigned in memory, and each publish repeats the fact that names the subject until one such fact is
//! known to be visible. A log always keeps a prefix of what was submitted, so it never keeps a message without the
//! fact that names its subject.

use std::collections::HashMap;

use super::subjects::Subjects;
use crate::dispatch_log::SUBJECT_NUMBER_MAX;
use crate::error::{Error, Result};
use crate::units::SubjectNumber;

/// A subject's number, and whether a publish must include the subject's fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedSubject {
    /// The number.
    pub number: SubjectNumber,
    /// True while no fact with this name is known to be visible.
    pub needs_fact: bool,
}

/// Numbers by name, ahead of the applied state.
#[derive(Clone, Debug)]
pub struct SubjectDirectory {
    by_name: HashMap<String, NamedSubject>,
    next: SubjectNumber,
}

impl SubjectDirectory {
    /// The directory of the applied state.
    pub fn of(subjects: &Subjects) -> Self {
        let by_name = subjects
            .iter()
            .map(|(number, subject)| (subject.name.clone(), NamedSubject { number, needs_fact: false }))
            .collect();
        Self { by_name, next: subjects.next_number() }
    }

    /// The subject with this name, if it has a number.
    pub fn get(&self, name: &str) -> Option<NamedSubject> {
        self.by_name.get(name).copied()
    }

    /// The number of names with a number.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True if no name has a number.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Returns the subject with this name, and assigns the next number to a new name.
    ///
    /// # Errors
    /// `TooLarge` if the store has the maximum number of subjects.
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

    /// Notes that a fact with this name is visible: publishes no longer repeat the fact.
    pub fn confirm(&mut self, name: &str) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.needs_fact = false;
        }
    }
}
