//! Sorted cells of ended entries, encoded in about five bytes each. A map takes forty bytes for each.

use std::sync::Arc;

use crate::run::{Cell, decode_cell, encode_cell, sum_neighbours};
use crate::units::{Minute, SubjectNumber, Tally};

/// Cells between two places at which a reader can begin.
const CELLS_PER_PLACE: usize = 128;

/// Cells by subject and minute, each key once. Immutable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndedCells {
    bytes: Vec<u8>,
    count: usize,
    /// The first and the last minute of all cells.
    minutes: (Minute, Minute),
    places: Vec<Place>,
}

/// A place at which a reader can begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    /// The key of the previous cell.
    before: (SubjectNumber, Minute),
    /// The first byte of the cell.
    offset: u32,
}

/// Layers of ended entries. A key may be in several layers, and its tallies add up.
pub type EndedLayers = Vec<Arc<EndedCells>>;

impl EndedCells {
    /// Encodes cells that are sorted by their keys, each key once.
    pub fn of(cells: impl IntoIterator<Item = Cell>) -> Self {
        let mut of = Self { minutes: (Minute(u32::MAX), Minute(0)), ..Self::default() };
        let mut before = (SubjectNumber(0), Minute(0));
        for cell in cells {
            debug_assert!(of.count == 0 || before < cell.key(), "{cell:?} stands behind {before:?}");
            if of.count.is_multiple_of(CELLS_PER_PLACE) {
                let offset = u32::try_from(of.bytes.len()).unwrap_or(u32::MAX);
                of.places.push(Place { before, offset });
            }
            encode_cell(&mut of.bytes, before, cell);
            before = cell.key();
            of.minutes = (of.minutes.0.min(cell.minute), of.minutes.1.max(cell.minute));
            of.count = of.count.saturating_add(1);
        }
        of.bytes.shrink_to_fit();
        of
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True if a cell is below a minute.
    pub(super) fn reaches_below(&self, minute: Minute) -> bool {
        self.minutes.0 < minute
    }

    /// True if all cells are below a minute.
    pub(super) fn is_below(&self, minute: Minute) -> bool {
        self.minutes.1 < minute
    }

    /// The cells of a subject, or of all, in order.
    pub fn iter(&self, subject: Option<SubjectNumber>) -> impl Iterator<Item = Cell> + '_ {
        let first = subject.map_or(0, |subject| {
            // The cell at a place may be of the subject even if the cell before it is not.
            self.places.partition_point(|place| place.before.0 < subject).saturating_sub(1)
        });
        let place = self.places.get(first).copied().unwrap_or(Place { before: Default::default(), offset: 0 });
        let mut rest = self.bytes.get(place.offset as usize..).unwrap_or_default();
        let mut before = place.before;
        let all = std::iter::from_fn(move || {
            let cell = decode_cell(&mut rest, before)?;
            before = cell.key();
            Some(cell)
        });
        all.skip_while(move |cell| subject.is_some_and(|subject| cell.subject < subject))
            .take_while(move |cell| subject.is_none_or(|subject| cell.subject == subject))
    }

    /// Bytes of memory.
    pub(in crate::schedule_log) fn memory_bytes(&self) -> usize {
        let places = self.places.capacity().saturating_mul(size_of::<Place>());
        size_of::<Self>().saturating_add(self.bytes.capacity()).saturating_add(places)
    }
}

/// Sorts cells, adds up those with the same key, and drops those below a minute.
pub(in crate::schedule_log) fn in_order(mut cells: Vec<Cell>, below: Minute) -> Vec<Cell> {
    cells.retain(|cell| cell.minute >= below);
    // Layers are sorted already, which makes this sort fast.
    cells.sort_by_key(Cell::key);
    sum_neighbours(&mut cells);
    cells
}

/// Joins layers to one, without the minutes before `below`.
pub(in crate::schedule_log) fn joined(layers: &[Arc<EndedCells>], below: Minute) -> Arc<EndedCells> {
    let cells = layers.iter().flat_map(|layer| layer.iter(None)).collect();
    Arc::new(EndedCells::of(in_order(cells, below)))
}

/// Adds a layer on top, and joins it with the layers under it that are at most twice as large. This keeps the
/// layers few, and writes a cell again about once for each doubling.
pub(super) fn push_layer(layers: &mut EndedLayers, cells: EndedCells, below: Minute) {
    if cells.count() > 0 {
        layers.push(Arc::new(cells));
    }
    while let [.., under, top] = layers.as_slice()
        && under.count() <= top.count().saturating_mul(2)
    {
        let from = layers.len().saturating_sub(2);
        let one = joined(layers.get(from..).unwrap_or_default(), below);
        layers.truncate(from);
        if one.count() > 0 {
            layers.push(one);
        }
    }
}

/// Ended entries, to be looked up in roughly ascending order of keys.
#[derive(Debug)]
pub(in crate::schedule_log) struct InOrder {
    cells: Vec<Cell>,
    next: usize,
}

impl InOrder {
    /// Takes cells in any order.
    pub(in crate::schedule_log) fn of(cells: Vec<Cell>, below: Minute) -> Self {
        Self { cells: in_order(cells, below), next: 0 }
    }

    /// Takes one layer, which is sorted and has each key once. An idle store has one layer.
    pub(super) fn of_one(layer: &EndedCells, subject: Option<SubjectNumber>, below: Minute) -> Self {
        Self { cells: layer.iter(subject).filter(|cell| cell.minute >= below).collect(), next: 0 }
    }

    /// The tally of the ended entries of this subject and minute.
    #[inline]
    pub(in crate::schedule_log) fn at(&mut self, key: (SubjectNumber, Minute)) -> Tally {
        loop {
            match self.cells.get(self.next) {
                Some(cell) if cell.key() < key => self.next = self.next.saturating_add(1),
                Some(cell) if cell.key() == key => return cell.tally,
                _ => break,
            }
        }
        if self.next.checked_sub(1).and_then(|last| self.cells.get(last)).is_some_and(|last| last.key() >= key) {
            // The key went back: the cells of a loaded run are in the order of its own names.
            self.next = self.cells.partition_point(|cell| cell.key() < key);
            return self
                .cells
                .get(self.next)
                .filter(|cell| cell.key() == key)
                .map_or(Tally::default(), |cell| cell.tally);
        }
        Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use std::collections::BTreeMap;

    type Map = BTreeMap<(SubjectNumber, Minute), Tally>;

    fn cells() -> impl Strategy<Value = Vec<Cell>> {
        let tally = (1_u64..400, any::<u32>()).prop_map(|(messages, bytes)| Tally { messages, bytes: bytes.into() });
        let cell = (0_u32..5, 0_u32..300, tally).prop_map(|(subject, minute, tally)| Cell {
            subject: SubjectNumber(subject),
            minute: Minute(minute),
            tally,
        });
        prop::collection::vec(cell, 0..1_500)
    }

    fn map(cells: &[Cell], below: Minute) -> Map {
        let mut map = Map::new();
        for cell in cells.iter().filter(|cell| cell.minute >= below) {
            map.entry(cell.key()).or_default().add(cell.tally);
        }
        map
    }

    proptest! {
        /// For any layers, their sum is all cells, of one subject and of all subjects.
        #[test]
        fn layers_add_up(all in cells(), pieces in 1_usize..40, below in 0_u32..100) {
            let below = Minute(below);
            let expected = map(&all, below);
            let mut layers = EndedLayers::new();
            for piece in all.chunks(all.len().div_ceil(pieces).max(1)) {
                push_layer(&mut layers, EndedCells::of(in_order(piece.to_vec(), below)), below);
            }
            prop_assert!(layers.len() <= 12, "{} layers", layers.len());
            prop_assert_eq!(map(&joined(&layers, below).iter(None).collect::<Vec<_>>(), below), expected.clone());
            for layer in &layers {
                let (one, any) = (InOrder::of_one(layer, None, below), InOrder::of(layer.iter(None).collect(), below));
                prop_assert_eq!(one.cells, any.cells);
            }
            for subject in (0..6).map(SubjectNumber) {
                let told: Vec<Cell> = layers.iter().flat_map(|layer| layer.iter(Some(subject))).collect();
                let of_subject: Map = expected.iter().filter(|(key, _)| key.0 == subject).map(|(k, v)| (*k, *v)).collect();
                prop_assert_eq!(map(&told, below), of_subject);
            }
        }

        /// Each key is found, in any order of look-ups.
        #[test]
        fn any_key_is_found_in_any_order(all in cells(), asked in prop::collection::vec((0_u32..6, 0_u32..310), 0..200)) {
            let expected = map(&all, Minute(0));
            let mut in_order = InOrder::of(all, Minute(0));
            let mut ascending = asked.clone();
            ascending.sort_unstable();
            for (subject, minute) in ascending.into_iter().chain(asked) {
                let key = (SubjectNumber(subject), Minute(minute));
                prop_assert_eq!(in_order.at(key), expected.get(&key).copied().unwrap_or_default());
            }
        }
    }
}
