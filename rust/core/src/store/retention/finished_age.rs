//! How long a file is kept after everything in it is finished, which depends on the subjects of its messages. This only
//! delays the removal of finished files; unfinished files stay in any case.

use std::collections::BTreeMap;

use crate::planted::{Planted, is_on};
use crate::record::limits::group_subject;
use crate::store::names::subjects::Subjects;
use crate::store::options::OwnerOptions;
use crate::store::state::file_subjects::FileSubjects;
use crate::units::{Millis, Sequence, SubjectNumber};

/// The retention options of an open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepFinished {
    /// How long finished messages are kept of all subjects that `of` does not name, in milliseconds.
    pub rest_ms: u64,
    /// The same for single subjects, by name. The retry and dead-letter subjects of their groups count as part of the
    /// subject.
    pub of: BTreeMap<String, u64>,
}

impl Default for KeepFinished {
    fn default() -> Self {
        Self { rest_ms: OwnerOptions::default().keep_finished_ms, of: BTreeMap::new() }
    }
}

impl KeepFinished {
    /// Applies the options to the current subjects at time `now`.
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

/// The user's subject that the messages of a subject with this name belong to.
pub(in crate::store) fn users_subject(name: &str) -> &str {
    group_subject(name).map_or(name, |own| own.subject)
}

/// Decides which files are too young to be removed at one moment.
#[derive(Clone, Debug)]
pub(in crate::store) struct Keeping {
    rest_ms: u64,
    longest_ms: u64,
    of: BTreeMap<SubjectNumber, u64>,
    now: Millis,
    /// Facts from this sequence on are not archived yet, and retention waits for an archive.
    awaited_from: Option<Sequence>,
}

/// Why a file is kept for its age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct Held {
    /// The subject that is kept longest; `None` if the default of unnamed subjects decides, or if the subjects of the
    /// file are unknown.
    pub(in crate::store) subject: Option<SubjectNumber>,
    /// The end of the retention.
    pub(in crate::store) until: Millis,
}

impl Keeping {
    /// Keeps segments with facts from `from` on, regardless of their age.
    pub(in crate::store) fn await_archives(&mut self, from: Option<Sequence>) {
        self.awaited_from = from;
    }

    /// True if retention waits for an archive to read facts of a segment that ends before `end`.
    pub(super) fn is_awaited(&self, end: Sequence) -> bool {
        self.awaited_from.is_some_and(|from| end > from) && !is_on(Planted::ArchiveMarkIgnored)
    }

    /// True if the file was last written too recently to be removed, whether or not it is finished.
    pub(in crate::store) fn is_young(&self, written: Millis, subjects: &FileSubjects) -> bool {
        self.held(written, subjects).until > self.now
    }

    /// The same for a segment that ended at `end`; `None` for the one that is being written.
    pub(super) fn is_young_segment(&self, end: Option<Millis>, subjects: &FileSubjects) -> bool {
        self.is_young(end.unwrap_or(self.now), subjects)
    }

    /// Returns how long a file with last write at `written` is kept, and for which subject.
    pub(in crate::store) fn held(&self, written: Millis, subjects: &FileSubjects) -> Held {
        let rest = (self.rest_ms, None);
        let (keep_ms, subject) = match subjects.known() {
            _ if is_on(Planted::RetentionForgetsSubjects) => rest,
            None => (self.longest_ms, None),
            // A file without messages of any subject, or a store without named subjects, gets the default.
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
        // Retries and dead letters count as messages of their subject.
        assert_eq!((until(&[2, 4]), until(&[5])), ((5_010, Some(4)), (10, Some(5))));
        // A file with unknown subjects may contain messages of the subject that is kept longest.
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
