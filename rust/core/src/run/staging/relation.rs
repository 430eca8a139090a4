//! What a staged run is in the store that adopted it: which sequences, subjects and times its own ones stand for.

use super::LoadName;
use crate::record::message::adopt_message;
use crate::units::{Millis, RunNumber, Sequence, SubjectNumber};

/// Translates what stands in a staged run into what the store means by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relation {
    /// The name of its file.
    pub name: LoadName,
    /// The number that the store has given it.
    pub number: RunNumber,
    /// The sequence of its first row.
    pub base: Sequence,
    /// When its messages count as published: the trusted time of the fact.
    pub published: Millis,
    /// The subjects, by their places.
    subjects: Vec<SubjectNumber>,
    /// The same with their places, by number.
    places: Vec<(SubjectNumber, SubjectNumber)>,
}

impl Relation {
    /// `subjects` stand for the names of the file, in their order, each once.
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

    /// The place in the file of what has this sequence in the store, which is its sequence there; `None` for one below
    /// the base.
    #[inline]
    pub fn relative(&self, sequence: Sequence) -> Option<Sequence> {
        sequence.0.checked_sub(self.base.0).map(Sequence)
    }

    /// The subject at a place; 0, which no subject has, for one that is not there.
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

    /// A sequence of the file as one of the store.
    #[inline]
    pub(in crate::run) fn sequence(&self, relative: Sequence) -> Sequence {
        self.base.plus(relative.0)
    }

    /// A whole record that was read under its own sequence becomes what the log would have under `sequence`; `None`
    /// where it is none.
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
