//! The subjects with messages in a segment or a run, on which its retention depends. They are unknown for a file with
//! more subjects than the limit.
//!
//! A checkpoint has them in part 19 of `docs/format.md`: for the segments of part 14, then for the runs of parts 15 and
//! 16, in the order of these parts, `is_known u32`, then a count and `subject u32` for each, ascending.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::run::{Run, RunKind};
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{RunNumber, SubjectNumber};

/// The subjects of a file with more than this are unknown.
const SUBJECTS_MAX: usize = 1_024;

/// Looks up the subjects of a run; unknown if `subjects` does not have the run.
pub(in crate::store) fn subjects_of(subjects: &BTreeMap<RunNumber, FileSubjects>, run: RunNumber) -> FileSubjects {
    subjects.get(&run).cloned().unwrap_or(FileSubjects::unknown())
}

/// The subjects of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSubjects {
    /// Ascending; `None` if unknown. Shared with frozen checkpoints.
    known: Option<Arc<Vec<SubjectNumber>>>,
}

impl FileSubjects {
    /// The subjects of a file without messages.
    pub(in crate::store) fn none() -> Self {
        Self { known: Some(Arc::default()) }
    }

    /// Unknown subjects.
    pub(in crate::store) const fn unknown() -> Self {
        Self { known: None }
    }

    /// Notes that the file has a message of the subject.
    #[inline]
    pub(in crate::store) fn note(&mut self, subject: SubjectNumber) {
        let Some(known) = &mut self.known else { return };
        let Err(place) = known.binary_search(&subject) else { return };
        if known.len() < SUBJECTS_MAX {
            Arc::make_mut(known).insert(place, subject);
        } else {
            self.known = None;
        }
    }

    /// The subjects of the rows of a run; unknown if the blocks that give them are damaged.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::store) fn of_run(run: &Run) -> Result<Self> {
        let mut found = Self::none();
        if run.kind() == RunKind::Dispatch {
            run.subjects().iter().for_each(|range| found.note(range.subject));
            return Ok(found);
        }
        match run.each_cell(None, &mut |cell| found.note(cell.subject)) {
            Err(error @ Error::Storage { .. }) => Err(error),
            Err(_) => Ok(Self::unknown()),
            Ok(()) => Ok(found),
        }
    }

    /// The subjects, ascending; `None` if unknown.
    pub fn known(&self) -> Option<&[SubjectNumber]> {
        self.known.as_ref().map(|known| known.as_slice())
    }

    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        let known = self.known().unwrap_or_default();
        out.u32(u32::from(self.known.is_some()));
        out.count(known.len());
        for subject in known {
            out.u32(subject.0);
        }
    }

    pub(in crate::store) fn read(from: &mut FieldReader<'_>) -> Result<Self> {
        let is_known = from.u32()?;
        let mut known: Vec<SubjectNumber> = Vec::new();
        for _ in 0..from.count(4)? {
            let subject = SubjectNumber(from.u32()?);
            if known.last().is_some_and(|last| *last >= subject) {
                return Err(from.malformed("subjects of a file that ascend"));
            }
            known.push(subject);
        }
        match is_known {
            0 if known.is_empty() => Ok(Self::unknown()),
            1 if known.len() <= SUBJECTS_MAX => Ok(Self { known: Some(Arc::new(known)) }),
            _ => Err(from.malformed("the subjects of a file, or none where they are not known")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: impl IntoIterator<Item = u32>) -> FileSubjects {
        let mut subjects = FileSubjects::none();
        numbers.into_iter().for_each(|number| subjects.note(SubjectNumber(number)));
        subjects
    }

    fn read(bytes: &[u8]) -> Result<FileSubjects> {
        FileSubjects::read(&mut FieldReader::new("checkpoints/1", bytes))
    }

    fn written(subjects: &FileSubjects) -> Vec<u8> {
        let mut out = FieldWriter::default();
        subjects.write(&mut out);
        out.bytes
    }

    #[test]
    fn so_many_subjects_are_known_and_with_one_more_none_is() {
        let full = of((1..=1_024).rev().chain([7, 1_024]));
        assert_eq!(full.known().map(<[_]>::len), Some(SUBJECTS_MAX));
        assert!(full.known().unwrap().is_sorted());
        let mut over = full.clone();
        over.note(SubjectNumber(9_999));
        over.note(SubjectNumber(1));
        assert_eq!(over, FileSubjects::unknown());
        assert_eq!(full.known().map(<[_]>::len), Some(SUBJECTS_MAX), "what was frozen stays");
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_taken() {
        for subjects in [FileSubjects::none(), FileSubjects::unknown(), of([3, 1, 2]), of(1..=1_024)] {
            assert_eq!(read(&written(&subjects)).unwrap(), subjects);
        }
        let crafted = |is_known: u32, numbers: &[u32]| {
            let mut out = FieldWriter::default();
            out.u32(is_known);
            out.count(numbers.len());
            for number in numbers {
                out.u32(*number);
            }
            read(&out.bytes)
        };
        let many: Vec<u32> = (1..=1_025).collect();
        for (is_known, numbers) in [(0, &[1][..]), (2, &[]), (1, &[2, 1]), (1, &[1, 1]), (1, &many)] {
            assert!(crafted(is_known, numbers).is_err(), "{is_known} {}", numbers.len());
        }
        assert!(crafted(1, &[1, 2]).is_ok());
    }
}
