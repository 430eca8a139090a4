//! Subjects by name: the numbers that messages carry instead of their names.
//!
//! A number is given out before its fact is in the log. Whoever submits first with a new name puts
//! the fact in front of its own; since the log keeps the order of submissions, those who come after
//! an accepted one need not repeat it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use delaymq_core::error::{Error, Result};
use delaymq_core::units::SubjectNumber;

/// The longest subject or group name, in characters.
pub const NAME_CHARACTERS_MAX: usize = 100;
/// What the names of retry subjects start with; names of users cannot.
const RETRY_PREFIX: &str = "%RETRY%";

/// A subject as publishers and consumers use it.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) number: SubjectNumber,
    pub(crate) name: Arc<str>,
    /// Its fact is in the log, or on its way there ahead of everything that is submitted from now.
    pub(crate) in_log: bool,
}

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Arc<str>, Subject>,
    by_number: HashMap<SubjectNumber, Arc<str>>,
    last: SubjectNumber,
}

impl Table {
    fn insert(&mut self, number: SubjectNumber, name: &str, in_log: bool) -> Subject {
        let name: Arc<str> = Arc::from(name);
        let subject = Subject { number, name: Arc::clone(&name), in_log };
        self.by_number.insert(number, Arc::clone(&name));
        self.by_name.insert(name, subject.clone());
        self.last = self.last.max(number);
        subject
    }
}

#[derive(Debug, Default)]
pub(crate) struct Names {
    table: RwLock<Table>,
}

impl Names {
    /// Takes in what recovery found.
    pub(crate) fn adopt<'a>(&self, subjects: impl Iterator<Item = (SubjectNumber, &'a str)>) {
        let mut table = self.write();
        for (number, name) in subjects {
            table.insert(number, name, true);
        }
    }

    /// The subject of this name, which gets a number now where it has none.
    pub(crate) fn subject(&self, name: &str) -> Subject {
        if let Some(subject) = self.read().by_name.get(name) {
            return subject.clone();
        }
        let mut table = self.write();
        match table.by_name.get(name) {
            Some(subject) => subject.clone(),
            None => {
                let number = table.last.next();
                table.insert(number, name, false)
            }
        }
    }

    /// The subject of this name, where it has a number.
    pub(crate) fn find(&self, name: &str) -> Option<Subject> {
        self.read().by_name.get(name).cloned()
    }

    /// The name of a number; empty where there is none.
    pub(crate) fn name_of(&self, number: SubjectNumber) -> Arc<str> {
        self.read().by_number.get(&number).cloned().unwrap_or_else(|| Arc::from(""))
    }

    /// The facts of these subjects were accepted into the log's queue.
    pub(crate) fn submitted(&self, subjects: &[Subject]) {
        if subjects.is_empty() {
            return;
        }
        let mut table = self.write();
        for subject in subjects {
            if let Some(known) = table.by_name.get_mut(&subject.name) {
                known.in_log = true;
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subject that takes what a group gives back.
pub(crate) fn retry_subject(subject: &str, group: &str) -> String {
    format!("{RETRY_PREFIX}{subject}%{group}")
}

/// Checks a subject or group name given by a user: 1 to 100 characters, none of them a control
/// character, white space, `/` or `%`.
///
/// # Errors
/// `InvalidArgument` naming `argument`.
pub fn check_name(argument: &'static str, name: &str) -> Result<()> {
    let refused = |found: String| Error::InvalidArgument {
        argument,
        expected: format!("1 to {NAME_CHARACTERS_MAX} characters without white space, control characters, '/' and '%'"),
        found,
    };
    let characters = name.chars().count();
    if characters == 0 || characters > NAME_CHARACTERS_MAX {
        return Err(refused(format!("{characters} characters")));
    }
    match name.chars().find(|letter| letter.is_control() || letter.is_whitespace() || matches!(letter, '/' | '%')) {
        Some(letter) => Err(refused(format!("{letter:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_needs_one_fact() {
        let names = Names::default();
        names.adopt([(SubjectNumber(4), "old")].into_iter());
        let new = names.subject("new");
        assert_eq!((new.number, new.in_log), (SubjectNumber(5), false));
        assert!(!names.subject("new").in_log);
        names.submitted(&[new]);
        assert!(names.subject("new").in_log);
        assert!(names.subject("old").in_log);
        assert_eq!(&*names.name_of(SubjectNumber(5)), "new");
    }

    #[test]
    fn bad_names_are_refused_by_argument() {
        for name in ["", " ", "a b", "a/b", "100%", "a\nb", &"x".repeat(101)] {
            assert!(matches!(check_name("subject", name), Err(Error::InvalidArgument { argument: "subject", .. })), "{name}");
        }
        assert!(check_name("subject", &"ä".repeat(100)).is_ok());
        assert!(check_name("group", "order.timeout").is_ok());
    }
}
