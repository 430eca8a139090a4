//! Tallies by subject and minute while they are added up. For one subject they are in pages of an hour, since
//! the cells of each run come in the order of minutes. For all subjects they are in a map, since most of such
//! a page might be empty.

use std::collections::BTreeMap;

use crate::schedule_log::count::cells::Cells;
use crate::units::{Minute, SubjectNumber, Tally};

const MINUTES: u32 = 60;

type Hour = (SubjectNumber, u32);
type Page = [Tally; MINUTES as usize];

/// The tallies; see the module.
#[derive(Debug)]
pub(in crate::schedule_log) struct HorizonPages {
    cells: Cells,
    /// False if all tallies are in the map.
    has_pages: bool,
    places: BTreeMap<Hour, usize>,
    pages: Vec<Page>,
    /// The page that was used last.
    last: Option<(Hour, usize)>,
}

impl HorizonPages {
    /// For one subject, or for all.
    pub(in crate::schedule_log) fn new(subject: Option<SubjectNumber>) -> Self {
        let has_pages = subject.is_some();
        Self { cells: Cells::new(), has_pages, places: BTreeMap::new(), pages: Vec::new(), last: None }
    }

    #[inline]
    pub(in crate::schedule_log) fn add(&mut self, subject: SubjectNumber, minute: Minute, tally: Tally) {
        if !self.has_pages {
            if !tally.is_empty() {
                self.cells.entry((subject, minute)).or_default().add(tally);
            }
            return;
        }
        let hour = (subject, minute.0 / MINUTES);
        let place = match self.last {
            Some((last, place)) if last == hour => place,
            _ => self.turn_to(hour),
        };
        let of_minute = self.pages.get_mut(place).and_then(|page| page.get_mut((minute.0 % MINUTES) as usize));
        if let Some(of_minute) = of_minute {
            of_minute.add(tally);
        }
    }

    fn turn_to(&mut self, hour: Hour) -> usize {
        let next = self.pages.len();
        let place = *self.places.entry(hour).or_insert(next);
        if place == next {
            self.pages.push([Tally::default(); MINUTES as usize]);
        }
        self.last = Some((hour, place));
        place
    }

    /// The nonempty tallies, in order.
    pub(super) fn into_cells(self) -> Cells {
        if !self.has_pages {
            return self.cells;
        }
        let of_hour = |(&(subject, hour), &place): (&Hour, &usize)| {
            let first = hour.saturating_mul(MINUTES);
            let page = self.pages.get(place).into_iter().flatten();
            let minutes = page.zip(first..=u32::MAX).filter(|(tally, _)| !tally.is_empty());
            minutes.map(move |(tally, minute)| ((subject, Minute(minute)), *tally)).collect::<Vec<_>>()
        };
        self.places.iter().flat_map(of_hour).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_told_in_order_to_the_last_minute_there_is() {
        for of in [None, Some(SubjectNumber(1))] {
            let mut pages = HorizonPages::new(of);
            let mut expected = Cells::new();
            for (subject, minute) in [(2, 59), (1, 60), (1, 59), (1, 60), (2, u32::MAX), (1, 0), (2, 7_200), (1, 61)] {
                let (subject, minute, tally) = (SubjectNumber(subject), Minute(minute), Tally::one(minute % 100));
                pages.add(subject, minute, tally);
                expected.entry((subject, minute)).or_default().add(tally);
            }
            pages.add(SubjectNumber(3), Minute(5), Tally::default());
            assert_eq!(pages.into_cells(), expected);
        }
    }
}
