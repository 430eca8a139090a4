//! How long files are kept after all in them is finished: by the subjects that have messages in them. It only says
//! when a finished file goes, never whether an unfinished one does.

use std::collections::BTreeMap;

use crate::planted::{Planted, is_on};
use crate::record::limits::group_subject;
use crate::store::names::subjects::Subjects;
use crate::store::options::OwnerOptions;
use crate::store::state::file_subjects::FileSubjects;
use crate::units::{Millis, Sequence, SubjectNumber};

/// What was chosen when the store was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepFinished {
    /// For how long what is finished of a subject is kept that is not named below, in milliseconds.
    pub rest_ms: u64,
    /// The same of single subjects, by name. What is in the retry and dead-letter subjects of their groups counts as
    /// theirs.
    pub of: BTreeMap<String, u64>,
}

impl Default for KeepFinished {
    fn default() -> Self {
        Self { rest_ms: OwnerOptions::default().keep_finished_ms, of: BTreeMap::new() }
    }
}

impl KeepFinished {
    /// As of now: with the subjects that there are.
    pub(in crate::store) fn at(&self, subjects: &Subjects, now: Millis) -> Keeping {
        let mut of = BTreeMap::new();
        if !self.of.is_empty() {
            let chosen = |name: &str| self.of.get(users_subject(name)).copied();
            of.extend(subjects.iter().filter_map(|(number, subject)| Some((number, chosen(&subject.name)?))));
        }
        let longest_ms = self.of.values().copied().fold(self.rest_ms, u64::max);
        Keeping { rest_ms: self.rest_ms, longest_ms, of, now, awaited_from: None }
    }
}

/// The subject whose messages lie in a subject of this name.
pub(in crate::store) fn users_subject(name: &str) -> &str {
    group_subject(name).map_or(name, |own| own.subject)
}

/// Which files are too young to go, as of one moment.
#[derive(Clone, Debug)]
pub(in crate::store) struct Keeping {
    rest_ms: u64,
    longest_ms: u64,
    of: BTreeMap<SubjectNumber, u64>,
    now: Millis,
    /// Facts from here on are not archived yet, and somebody waits for that.
    awaited_from: Option<Sequence>,
}

/// Why a file is kept for its age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct Held {
    /// The subject with the longest time; `None` where that is the time of all that are not named, or of a file
    /// whose subjects are not known.
    pub(in crate::store) subject: Option<SubjectNumber>,
    /// Until when.
    pub(in crate::store) until: Millis,
}

impl Keeping {
    /// Keeps segments with facts from `from` on, however old they are.
    pub(in crate::store) fn await_archives(&mut self, from: Option<Sequence>) {
        self.awaited_from = from;
    }

    /// True where a segment whose facts end before `end` is awaited.
    pub(super) fn is_awaited(&self, end: Sequence) -> bool {
        self.awaited_from.is_some_and(|from| end > from) && !is_on(Planted::ArchiveMarkIgnored)
    }

    /// True where a file was written last so short a time ago that it stays, finished or not.
    pub(in crate::store) fn is_young(&self, written: Millis, subjects: &FileSubjects) -> bool {
        self.held(written, subjects).until > self.now
    }

    /// Until when a file stays that was written last at `written`, and for whom.
    pub(in crate::store) fn held(&self, written: Millis, subjects: &FileSubjects) -> Held {
        let rest = (self.rest_ms, None);
        let (keep_ms, subject) = match subjects.known() {
            _ if is_on(Planted::RetentionForgetsSubjects) => rest,
            None => (self.longest_ms, None),
            // With nobody's messages in it, or where nobody is named, it is as all others are.
            Some([]) => rest,
            Some(_) if self.of.is_empty() => rest,
            Some(known) => {
                let time_of = |subject: &SubjectNumber| match self.of.get(subject) {
                    Some(keep_ms) => (*keep_ms, Some(*subject)),
                    None => rest,
                };
                known.iter().map(time_of).max_by_key(|(keep_ms, _)| *keep_ms).unwrap_or(rest)
            }
        };
        Held { subject, until: written.plus(keep_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> Subjects {
        let mut subjects = Subjects::default();
        let names = ["settlement", "noise", "order", "%RETRY%settlement%billing", "%DEAD_RETRY%noise%billing"];
        for (number, name) in (1_u32..).zip(names) {
            subjects.add(SubjectNumber(number), name);
        }
        subjects
    }

    fn keeping(rest_ms: u64, of: &[(&str, u64)]) -> Keeping {
        let of = of.iter().map(|(name, keep_ms)| ((*name).to_owned(), *keep_ms)).collect();
        KeepFinished { rest_ms, of }.at(&subjects(), Millis(1_000))
    }

    fn file(numbers: &[u32]) -> FileSubjects {
        let mut found = FileSubjects::none();
        for number in numbers {
            found.note(SubjectNumber(*number));
        }
        found
    }

    #[test]
    fn a_file_is_kept_for_its_longest_subject() {
        let keeping = keeping(100, &[("settlement", 5_000), ("noise", 0), ("nobody", 9_000)]);
        let until = |numbers: &[u32]| {
            let held = keeping.held(Millis(10), &file(numbers));
            (held.until.0, held.subject.map(|subject| subject.0))
        };
        assert_eq!(until(&[1, 2, 3]), (5_010, Some(1)));
        assert_eq!(until(&[2]), (10, Some(2)));
        assert_eq!(until(&[2, 3]), (110, None));
        assert_eq!(until(&[]), (110, None));
        // What groups gave back or put away is the subject's.
        assert_eq!((until(&[2, 4]), until(&[5])), ((5_010, Some(4)), (10, Some(5))));
        // One that nobody knows may have messages of whoever is kept longest.
        let unknown = keeping.held(Millis(10), &FileSubjects::unknown());
        assert_eq!((unknown.until, unknown.subject), (Millis(9_010), None));
    }

    #[test]
    fn with_nobody_named_all_files_are_kept_for_one_time() {
        let keeping = keeping(100, &[]);
        for subjects in [FileSubjects::none(), FileSubjects::unknown(), file(&[1, 4])] {
            assert_eq!(keeping.held(Millis(10), &subjects), Held { subject: None, until: Millis(110) });
            assert!(keeping.is_young(Millis(901), &subjects) && !keeping.is_young(Millis(900), &subjects));
        }
    }

    #[test]
    fn a_time_without_end_does_not_overflow() {
        let keeping = keeping(0, &[("order", u64::MAX)]);
        assert!(keeping.is_young(Millis(u64::MAX - 1), &file(&[3])));
    }
}
