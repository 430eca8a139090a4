//! Postings that were read from runs and are about to be delivered. Each load is kept as one piece, in number order.
//!
//! A piece is dropped when its group has passed it. If all groups together keep too many postings, the oldest load is
//! dropped first, but never the latest.

use std::collections::BTreeMap;

use crate::queues::Group;
use crate::schedule_log::Entry;
use crate::units::{GroupNumber, ReadyNumber};

/// Rows that one load reads at most.
pub(in crate::store) const LOAD_ROWS_MAX: u64 = 4_096;
/// Rows that one load reads at least, if the run has as many.
const LOAD_ROWS_MIN: u64 = 32;
/// Loaded postings kept for all groups together, at most.
pub(super) const LOADED_MAX: usize = 1 << 18;
/// How many pieces are searched for a number. A number that none of them has is loaded again.
const PIECES_LOOKED: usize = 4;

type Place = (GroupNumber, ReadyNumber);

#[derive(Debug)]
struct Piece {
    /// Its place among all loads.
    age: u64,
    /// By ascending number, without damaged ones.
    entries: Vec<(ReadyNumber, Entry)>,
}

impl Piece {
    fn first(&self) -> ReadyNumber {
        self.entries.first().map(|(number, _)| *number).unwrap_or_default()
    }

    fn last(&self) -> ReadyNumber {
        self.entries.last().map(|(number, _)| *number).unwrap_or_default()
    }

    fn get(&self, number: ReadyNumber) -> Option<Entry> {
        // If no row was damaged, the number gives the place.
        let guess = usize::try_from(number.since(self.first())).ok().and_then(|at| self.entries.get(at));
        if let Some((_, entry)) = guess.filter(|(found, _)| *found == number) {
            return Some(*entry);
        }
        let at = self.entries.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.entries.get(at).map(|(_, entry)| *entry)
    }
}

/// The loaded postings of all groups.
#[derive(Debug)]
pub(in crate::store) struct Loaded {
    /// By group and first number.
    pieces: BTreeMap<Place, Piece>,
    by_age: BTreeMap<u64, Place>,
    entries: usize,
    entries_max: usize,
    next_age: u64,
}

impl Default for Loaded {
    fn default() -> Self {
        Self::of(LOADED_MAX)
    }
}

impl Loaded {
    fn of(entries_max: usize) -> Self {
        Self { pieces: BTreeMap::new(), by_age: BTreeMap::new(), entries: 0, entries_max, next_age: 0 }
    }

    /// How many rows the next load should read. If many groups load, each gets a share.
    pub(super) fn rows_wanted(&self) -> u64 {
        let groups = self.pieces.len().saturating_add(1);
        ((self.entries_max / 2 / groups) as u64).clamp(LOAD_ROWS_MIN, LOAD_ROWS_MAX)
    }

    /// How many postings are kept.
    pub(in crate::store) fn len(&self) -> usize {
        self.entries
    }

    /// The posting of a number, if it is loaded.
    pub(in crate::store) fn get(&self, group: GroupNumber, number: ReadyNumber) -> Option<Entry> {
        let pieces = self.pieces.range((group, ReadyNumber(0))..=(group, number));
        pieces.rev().take(PIECES_LOOKED).find_map(|(_, piece)| piece.get(number))
    }

    /// Keeps the entries that a load read, in ascending order.
    pub(in crate::store) fn keep(&mut self, group: GroupNumber, entries: Vec<(ReadyNumber, Entry)>) {
        let Some((first, _)) = entries.first() else { return };
        let place = (group, *first);
        // Two consumers may have loaded the same range.
        self.forget(place);
        let age = self.next_age;
        self.next_age = age.saturating_add(1);
        self.entries = self.entries.saturating_add(entries.len());
        self.pieces.insert(place, Piece { age, entries });
        self.by_age.insert(age, place);
        while self.entries > self.entries_max
            && let Some((oldest, place)) = self.by_age.first_key_value().map(|(age, place)| (*age, *place))
            && oldest != age
        {
            self.forget(place);
        }
    }

    /// Drops the pieces that the group has passed, unless it has a returned message in them.
    pub(in crate::store) fn pass(&mut self, group: &Group, cursor: ReadyNumber) {
        while let Some((place, last)) = self.first_piece(group.number)
            && last < cursor
            && group.returned.range(place.1..=last).next().is_none()
        {
            self.forget(place);
        }
    }

    fn first_piece(&self, group: GroupNumber) -> Option<(Place, ReadyNumber)> {
        let of_group = (group, ReadyNumber(0))..=(group, ReadyNumber(u64::MAX));
        self.pieces.range(of_group).next().map(|(place, piece)| (*place, piece.last()))
    }

    /// Keeps only the pieces of groups that still exist.
    pub(in crate::store) fn retain(&mut self, is_there: impl Fn(GroupNumber) -> bool) {
        let gone: Vec<Place> = self.pieces.keys().filter(|(group, _)| !is_there(*group)).copied().collect();
        for place in gone {
            self.forget(place);
        }
    }

    fn forget(&mut self, place: Place) {
        if let Some(piece) = self.pieces.remove(&place) {
            self.by_age.remove(&piece.age);
            self.entries = self.entries.saturating_sub(piece.entries.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{DueKey, Location, Millis, PullOffset, SegmentNumber, Sequence, SubjectNumber};

    const SUBJECT: SubjectNumber = SubjectNumber(1);

    fn entries(first: u64, count: u64) -> Vec<(ReadyNumber, Entry)> {
        let entry = |number: u64| {
            let key = DueKey { due: Millis(1), sequence: Sequence(number) };
            Entry::new(key, 1, Sequence(number), Location::in_segment(SegmentNumber(1), 0), SUBJECT)
        };
        (first..first + count).map(|number| (ReadyNumber(number), entry(number))).collect()
    }

    fn group(number: u32) -> Group {
        Group::new(GroupNumber(number), SUBJECT, "billing", ReadyNumber(0), PullOffset(0))
    }

    fn numbers(loaded: &Loaded, group: &Group, end: u64) -> Vec<u64> {
        (0..end).filter(|number| loaded.get(group.number, ReadyNumber(*number)).is_some()).collect()
    }

    #[test]
    fn what_a_group_has_passed_goes_and_what_lies_before_it_stays() {
        let (mut loaded, group) = (Loaded::of(100), group(1));
        loaded.keep(group.number, entries(0, 4));
        loaded.keep(group.number, entries(4, 4));
        loaded.pass(&group, ReadyNumber(3));
        assert_eq!(numbers(&loaded, &group, 10), (0..8).collect::<Vec<_>>(), "3 is yet to come");
        loaded.pass(&group, ReadyNumber(4));
        assert_eq!(numbers(&loaded, &group, 10), (4..8).collect::<Vec<_>>());
        assert_eq!(loaded.len(), 4);
    }

    #[test]
    fn what_was_given_back_keeps_its_piece() {
        let (mut loaded, mut group) = (Loaded::of(100), group(1));
        loaded.keep(group.number, entries(0, 4));
        group.returned.insert(ReadyNumber(2), 1);
        loaded.pass(&group, ReadyNumber(9));
        assert_eq!(loaded.len(), 4);
        group.returned.clear();
        loaded.pass(&group, ReadyNumber(9));
        assert_eq!(loaded.len(), 0);
    }

    #[test]
    fn all_groups_together_keep_so_many_and_the_oldest_load_goes_first() {
        let mut loaded = Loaded::of(10);
        let groups: Vec<Group> = (1..=4).map(group).collect();
        for group in &groups {
            loaded.keep(group.number, entries(0, 4));
        }
        let kept: Vec<usize> = groups.iter().map(|group| numbers(&loaded, group, 10).len()).collect();
        assert_eq!((kept, loaded.len()), (vec![0, 0, 4, 4], 8));
        // A load above the limit is still kept, for one use.
        loaded.keep(groups[0].number, entries(4, 30));
        assert_eq!((numbers(&loaded, &groups[0], 40).len(), loaded.len()), (30, 30));
        loaded.retain(|_| false);
        assert_eq!((loaded.len(), loaded.by_age.len()), (0, 0));
    }

    #[test]
    fn the_same_load_twice_is_kept_once_and_damage_leaves_gaps() {
        let (mut loaded, group) = (Loaded::of(100), group(1));
        loaded.keep(group.number, entries(0, 8));
        let mut found = entries(0, 8);
        found.remove(3);
        loaded.keep(group.number, found);
        assert_eq!(numbers(&loaded, &group, 10), [0, 1, 2, 4, 5, 6, 7]);
        assert_eq!((loaded.len(), loaded.by_age.len()), (7, 1));
        loaded.keep(group.number, Vec::new());
        // A piece that overlaps a later one is still found.
        loaded.keep(group.number, entries(2, 1));
        assert!(loaded.get(group.number, ReadyNumber(6)).is_some());
        assert!(loaded.get(group.number, ReadyNumber(8)).is_none());
    }

    #[test]
    fn a_load_is_smaller_where_many_groups_load() {
        let mut loaded = Loaded::of(1_000);
        let mut before = LOAD_ROWS_MAX;
        for number in 1..=20 {
            let wanted = loaded.rows_wanted();
            assert!(wanted <= before && wanted >= LOAD_ROWS_MIN);
            before = wanted;
            loaded.keep(GroupNumber(number), entries(0, wanted));
        }
        assert_eq!(before, LOAD_ROWS_MIN);
    }
}
