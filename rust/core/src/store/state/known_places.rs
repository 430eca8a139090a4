//! Places in the log that readers of a subject's history have passed.

use std::collections::BTreeMap;

use crate::units::{Location, ReadyNumber, SubjectNumber};

/// So many places are remembered.
const PLACES_MAX: usize = 1 << 16;

/// Batches of the log before which the ready number of a subject's next message is known. They are never saved: without
/// them, a reader begins at a segment.
#[derive(Debug, Default)]
pub(in crate::store) struct KnownPlaces {
    places: BTreeMap<(SubjectNumber, ReadyNumber), Location>,
}

impl KnownPlaces {
    pub(in crate::store) fn note(&mut self, subject: SubjectNumber, number: ReadyNumber, place: Location) {
        if self.places.len() >= PLACES_MAX {
            self.places.pop_first();
        }
        let there = self.places.entry((subject, number)).or_insert(place);
        *there = (*there).max(place);
    }

    pub(in crate::store) fn before(
        &self,
        subject: SubjectNumber,
        number: ReadyNumber,
    ) -> Option<(ReadyNumber, Location)> {
        let below = self.places.range((subject, ReadyNumber(0))..=(subject, number)).next_back();
        below.map(|((_, number), place)| (*number, *place))
    }
}
