//! A set of numbers that fills up from below: a floor, below which all numbers are in the set, and ranges above it.

use std::collections::BTreeMap;

/// Numbers that are finished. Its memory depends on the number of ranges, not of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeSet {
    below: u64,
    /// First number of a range to the number after its last; disjoint, not adjacent, all above
    /// `below`.
    above: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// The set of all numbers below `below`.
    pub fn starting_at(below: u64) -> Self {
        Self { below, above: BTreeMap::new() }
    }

    /// The floor: the lowest number that is not in the set.
    pub fn below(&self) -> u64 {
        self.below
    }

    /// The ranges above [`Self::below`], as first and end (exclusive), ascending.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.above.iter().map(|(first, end)| (*first, *end))
    }

    /// All ranges, including the one below the floor, ascending.
    pub fn all_ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        std::iter::once((0, self.below)).chain(self.ranges())
    }

    /// The number of ranges above the floor.
    pub fn range_count(&self) -> usize {
        self.above.len()
    }

    /// True if `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        number < self.below || self.above.range(..=number).next_back().is_some_and(|(_, end)| number < *end)
    }

    /// The count of numbers in the set below `end`.
    pub fn count_below(&self, end: u64) -> u64 {
        let above = self.above.range(..end).map(|(first, last)| end.min(*last).saturating_sub(*first));
        above.fold(self.below.min(end), u64::saturating_add)
    }

    /// The parts of `first..end` that are not in the set, ascending.
    pub fn gaps(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut from = first.max(self.below);
        let before = self.above.range(..from).next_back().map(|(_, last)| *last);
        from = from.max(before.unwrap_or(0));
        for (start, last) in self.above.range(from..end.max(from)) {
            if from < *start {
                gaps.push((from, *start));
            }
            from = *last;
        }
        if from < end {
            gaps.push((from, end));
        }
        gaps
    }

    /// The number behind the range of the set that has `number`; `number` itself if the set does not have it.
    pub fn end_from(&self, number: u64) -> u64 {
        let before = self.above.range(..=number).next_back().map(|(_, end)| *end);
        number.max(self.below).max(before.unwrap_or_default())
    }

    /// Joins the lowest two ranges, with all numbers between them, if both end at `end` or below.
    pub fn join_lowest(&mut self, end: u64) {
        let lowest = self.ranges().next();
        if let Some((_, upper)) = lowest.filter(|(_, upper)| *upper <= end) {
            self.insert_range(0, upper);
        }
    }

    /// Adds one number. Returns true if it was not in the set.
    pub fn insert(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        self.insert_range(number, number.saturating_add(1));
        true
    }

    /// Adds `first..end`, which may touch or overlap existing ranges.
    pub fn insert_range(&mut self, first: u64, end: u64) {
        let (mut first, mut end) = (first.max(self.below), end);
        if first >= end {
            return;
        }
        if let Some((before, before_end)) = self.above.range(..=first).next_back().map(|(key, value)| (*key, *value))
            && before_end >= first
        {
            first = before;
            end = end.max(before_end);
            self.above.remove(&before);
        }
        while let Some((after, after_end)) = self.above.range(first..=end).next().map(|(key, value)| (*key, *value)) {
            end = end.max(after_end);
            self.above.remove(&after);
        }
        if first == self.below {
            self.below = end;
        } else {
            self.above.insert(first, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_floor_rises_over_ranges_that_it_meets() {
        let mut set = RangeSet::default();
        set.insert(1);
        set.insert(2);
        set.insert(4);
        assert_eq!((set.below(), set.range_count()), (0, 2));
        set.insert(0);
        assert_eq!((set.below(), set.range_count()), (3, 1));
        set.insert(3);
        assert_eq!((set.below(), set.range_count()), (5, 0));
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(inserts in prop::collection::vec((0_u64..60, 1_u64..6), 0..60)) {
            let mut set = RangeSet::default();
            let mut plain = BTreeSet::new();
            for (first, count) in inserts {
                set.insert_range(first, first + count);
                plain.extend(first..first + count);
                for number in 0..70 {
                    prop_assert_eq!(set.contains(number), plain.contains(&number));
                    let end = (number..1_000).find(|number| !plain.contains(number));
                    prop_assert_eq!(Some(set.end_from(number)), end);
                }
                prop_assert!(!set.contains(set.below()));
                for (first, end) in [(0, 70), (7, 9), (20, 41)] {
                    let gaps: Vec<u64> = set.gaps(first, end).into_iter().flat_map(|(from, to)| from..to).collect();
                    let missing: Vec<u64> = (first..end).filter(|number| !plain.contains(number)).collect();
                    prop_assert_eq!(gaps, missing);
                    prop_assert_eq!(set.count_below(end), plain.range(..end).count() as u64);
                }
                let ranges: Vec<_> = set.ranges().collect();
                for pair in ranges.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0);
                }
            }
        }
    }
}
