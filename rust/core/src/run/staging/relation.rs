//! The relation of a staged run to the store that adopted it: translates its sequences, subjects and times.

use super::LoadName;
use crate::record::message::adopt_message;
use crate::units::{Millis, RunNumber, Sequence, SubjectNumber};

/// Translates the contents of a staged run for the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation {
    /// The name of its file.
    pub name: LoadName,
    /// The number that the store has given the run.
    pub number: RunNumber,
    /// The sequence of its first row.
    pub base: Sequence,
    /// The publish time of its messages: the trusted time of the fact.
    pub published: Millis,
    /// The store's subjects, by their places in the file.
    subjects: Vec<SubjectNumber>,
    /// The store's subjects with their places, sorted by subject.
    places: Vec<(SubjectNumber, SubjectNumber)>,
}

impl Relation {
    /// `subjects` are the store's numbers for the names of the file, in their order, each once.
    pub(in crate::run) fn new(
        name: LoadName,
        number: RunNumber,
        base: Sequence,
        published: Millis,
        subjects: Vec<SubjectNumber>,
    ) -> Self {
        let mut places: Vec<(SubjectNumber, SubjectNumber)> =
            subjects.iter().copied().zip((1..).map(SubjectNumber)).collect();
        places.sort_unstable();
        Self { name, number, base, published, subjects, places }
    }

    /// The subjects, in the order of their places.
    pub fn subjects(&self) -> &[SubjectNumber] {
        &self.subjects
    }

    /// The sequence, and place, in the file of a message with this sequence in the store. `None` for a
    /// sequence below the base.
    #[inline]
    pub fn relative(&self, sequence: Sequence) -> Option<Sequence> {
        sequence.0.checked_sub(self.base.0).map(Sequence)
    }

    /// The subject at a place. 0, which is not a subject, if there is no such place.
    #[inline]
    pub fn subject_at(&self, place: SubjectNumber) -> SubjectNumber {
        let at = (place.0 as usize).checked_sub(1);
        at.and_then(|at| self.subjects.get(at)).copied().unwrap_or_default()
    }

    /// The place of a subject, if it has one.
    pub(in crate::run) fn place_of(&self, subject: SubjectNumber) -> Option<SubjectNumber> {
        let at = self.places.binary_search_by_key(&subject, |(subject, _)| *subject).ok()?;
        self.places.get(at).map(|(_, place)| *place)
    }

    /// Translates a sequence of the file to one of the store.
    #[inline]
    pub(in crate::run) fn sequence(&self, relative: Sequence) -> Sequence {
        self.base.plus(relative.0)
    }

    /// Changes a whole record, read with its own sequence, to the record that the log would have with
    /// `sequence`. `None` if it is not a message.
    pub(in crate::run) fn record(&self, bytes: &mut [u8], sequence: Sequence) -> Option<()> {
        adopt_message(bytes, self.published, &|place| self.subject_at(place), sequence)
    }

    /// Bytes of memory.
    pub(in crate::run) fn memory_bytes(&self) -> usize {
        let places = self.places.capacity().saturating_mul(size_of::<(SubjectNumber, SubjectNumber)>());
        let subjects = self.subjects.capacity().saturating_mul(size_of::<SubjectNumber>());
        size_of::<Self>().saturating_add(places).saturating_add(subjects)
    }
}
