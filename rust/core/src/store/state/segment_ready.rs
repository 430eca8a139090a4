//! The messages that the facts of one segment made ready: where a group that reads again finds a message by its ready
//! number, and the files that are kept for it.
//!
//! A checkpoint has it in part 19 of `docs/format.md`, behind the subjects of each segment: `is_known u32`, then a count
//! and `subject u32 | number u64` for each, ascending; then a count and `file u32` for each file, ascending, as in the
//! footer of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Result;
use crate::run::{file_code, file_of};
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{LocationFile, ReadyNumber, SubjectNumber};

/// If the facts of a segment made messages of more subjects ready, no group can read them again.
const SUBJECTS_MAX: usize = 4_096;

/// What the facts of one segment made ready; see the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentReady {
    /// The number of the first message of each subject, by ascending subject; `None` for too many subjects. Shared with
    /// frozen checkpoints.
    first: Option<Arc<Vec<(SubjectNumber, ReadyNumber)>>>,
    /// The codes of the files with the payloads and the rows of these messages, without the segment itself.
    files: Arc<BTreeSet<u32>>,
    /// The file that was noted last.
    last_file: Option<LocationFile>,
}

impl SegmentReady {
    /// A segment whose facts made nothing ready.
    pub(in crate::store) fn none() -> Self {
        Self { first: Some(Arc::default()), files: Arc::default(), last_file: None }
    }

    /// Notes the first message of a subject that a fact of the segment made ready. A later one changes nothing.
    pub(in crate::store) fn note_first(&mut self, subject: SubjectNumber, number: ReadyNumber) {
        let Some(first) = &mut self.first else { return };
        let Err(place) = first.binary_search_by_key(&subject, |(of, _)| *of) else { return };
        if first.len() < SUBJECTS_MAX {
            Arc::make_mut(first).insert(place, (subject, number));
        } else {
            self.first = None;
        }
    }

    /// Notes a file with the payload or the row of a message.
    #[inline]
    pub(in crate::store) fn note_file(&mut self, file: LocationFile) {
        if self.last_file != Some(file) {
            self.last_file = Some(file);
            let code = file_code(file);
            if !self.files.contains(&code) {
                Arc::make_mut(&mut self.files).insert(code);
            }
        }
    }

    /// The number of the first message of the subject that a fact of the segment made ready. `None` if there is none,
    /// or if the segment made messages of too many subjects ready.
    pub fn first(&self, subject: SubjectNumber) -> Option<ReadyNumber> {
        let first = self.first.as_ref()?;
        let place = first.binary_search_by_key(&subject, |(of, _)| *of).ok()?;
        first.get(place).map(|(_, number)| *number)
    }

    /// False if the segment made messages of too many subjects ready: it does not say of which.
    pub(in crate::store) fn is_known(&self) -> bool {
        self.first.is_some()
    }

    /// The files with the payloads and the rows of the messages, without the segment itself.
    pub(in crate::store) fn files(&self) -> impl Iterator<Item = LocationFile> + '_ {
        self.files.iter().map(|code| file_of(*code))
    }

    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        out.u32(u32::from(self.first.is_some()));
        let first = self.first.as_deref().map_or(&[][..], Vec::as_slice);
        out.count(first.len());
        for (subject, number) in first {
            out.u32(subject.0);
            out.u64(number.0);
        }
        out.count(self.files.len());
        self.files.iter().for_each(|code| out.u32(*code));
    }

    pub(in crate::store) fn read(from: &mut FieldReader<'_>) -> Result<Self> {
        let is_known = from.u32()?;
        let mut first: Vec<(SubjectNumber, ReadyNumber)> = Vec::new();
        for _ in 0..from.count(12)? {
            let (subject, number) = (SubjectNumber(from.u32()?), ReadyNumber(from.u64()?));
            if first.last().is_some_and(|(last, _)| *last >= subject) {
                return Err(from.malformed("subjects of a segment that ascend"));
            }
            first.push((subject, number));
        }
        let mut files = BTreeSet::new();
        for _ in 0..from.count(4)? {
            let code = from.u32()?;
            if files.last().is_some_and(|last| *last >= code) {
                return Err(from.malformed("files of a segment that ascend"));
            }
            files.insert(code);
        }
        let first = match is_known {
            0 if first.is_empty() => None,
            1 if first.len() <= SUBJECTS_MAX => Some(Arc::new(first)),
            _ => return Err(from.malformed("what a segment made ready, or nothing where it is not known")),
        };
        Ok(Self { first, files: Arc::new(files), last_file: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{RunNumber, SegmentNumber};

    fn read(bytes: &[u8]) -> Result<SegmentReady> {
        SegmentReady::read(&mut FieldReader::new("checkpoints/1", bytes))
    }

    fn written(ready: &SegmentReady) -> Vec<u8> {
        let mut out = FieldWriter::default();
        ready.write(&mut out);
        out.bytes
    }

    fn of(subjects: impl Iterator<Item = u32>) -> SegmentReady {
        let mut ready = SegmentReady::none();
        subjects.for_each(|subject| ready.note_first(SubjectNumber(subject), ReadyNumber(u64::from(subject) * 10)));
        ready
    }

    #[test]
    fn the_first_number_of_a_subject_stays_and_too_many_subjects_are_unknown() {
        let mut ready = of((1..=4_096).rev());
        ready.note_first(SubjectNumber(7), ReadyNumber(99));
        assert_eq!(ready.first(SubjectNumber(7)), Some(ReadyNumber(70)));
        assert_eq!(ready.first(SubjectNumber(4_097)), None);
        ready.note_first(SubjectNumber(4_097), ReadyNumber(1));
        assert_eq!((ready.first(SubjectNumber(7)), ready.first), (None, None));
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_is_taken() {
        let mut ready = of([3, 1, 2].into_iter());
        for file in [LocationFile::Run(RunNumber(4)), LocationFile::Segment(SegmentNumber(9))] {
            ready.note_file(file);
            ready.note_file(file);
        }
        for ready in [SegmentReady::none(), of(1..=4_096), SegmentReady { first: None, ..SegmentReady::none() }] {
            assert_eq!(read(&written(&ready)).unwrap(), ready);
        }
        let again = read(&written(&ready)).unwrap();
        assert_eq!((&again.first, &again.files), (&ready.first, &ready.files));
        let found: Vec<_> = again.files().collect();
        assert_eq!(found, [LocationFile::Segment(SegmentNumber(9)), LocationFile::Run(RunNumber(4))]);
        let crafted = |is_known: u32, subjects: &[u32], files: &[u32]| {
            let mut out = FieldWriter::default();
            out.u32(is_known);
            out.count(subjects.len());
            for subject in subjects {
                out.u32(*subject);
                out.u64(5);
            }
            out.count(files.len());
            for file in files {
                out.u32(*file);
            }
            read(&out.bytes)
        };
        let many: Vec<u32> = (1..=4_097).collect();
        for (is_known, subjects, files) in
            [(0, &[1][..], &[][..]), (2, &[], &[]), (1, &[2, 1], &[]), (1, &[], &[4, 4]), (1, &many, &[])]
        {
            assert!(crafted(is_known, subjects, files).is_err(), "{is_known} {} {files:?}", subjects.len());
        }
        assert!(crafted(1, &[1, 2], &[3, 4]).is_ok());
    }
}
