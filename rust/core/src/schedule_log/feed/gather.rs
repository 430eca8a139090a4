//! Gathering one slice of the schedule: the first so many pending entries of a range of keys.

use std::sync::Arc;

use crate::schedule_log::entry::{Entry, sort_by_key};
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::units::{DueKey, SubjectNumber};

/// Whose entries are wanted. Subjects are in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::schedule_log) enum Of {
    /// Everybody's.
    All,
    /// Those of these subjects.
    Only(Arc<[SubjectNumber]>),
    /// Those of all others.
    Without(Arc<[SubjectNumber]>),
}

impl Of {
    /// True where the entries of this subject are wanted.
    #[inline]
    pub(in crate::schedule_log) fn has(&self, subject: SubjectNumber) -> bool {
        match self {
            Self::All => true,
            Self::Only(subjects) => subjects.binary_search(&subject).is_ok(),
            Self::Without(subjects) => subjects.binary_search(&subject).is_err(),
        }
    }

    /// The subjects that it names, in order.
    pub(in crate::schedule_log) fn named(&self) -> &[SubjectNumber] {
        match self {
            Self::All => &[],
            Self::Only(subjects) | Self::Without(subjects) => subjects,
        }
    }

    /// Without those that the other one has, which names its own.
    pub(super) fn without(&self, other: &Self) -> Self {
        match self {
            Self::Only(subjects) => Self::Only(subjects.iter().copied().filter(|one| !other.has(*one)).collect()),
            Self::All | Self::Without(_) => {
                let subjects = both(self.named(), other.named());
                if subjects.is_empty() { Self::All } else { Self::Without(subjects) }
            }
        }
    }

    /// With those that the other one has, which names its own.
    pub(in crate::schedule_log) fn with(&self, other: &Self) -> Self {
        match self {
            Self::All => Self::All,
            Self::Only(subjects) => Self::Only(both(subjects, other.named())),
            Self::Without(subjects) => {
                let left: Arc<[_]> = subjects.iter().copied().filter(|one| !other.has(*one)).collect();
                if left.is_empty() { Self::All } else { Self::Without(left) }
            }
        }
    }
}

fn both(left: &[SubjectNumber], right: &[SubjectNumber]) -> Arc<[SubjectNumber]> {
    let mut both = [left, right].concat();
    both.sort_unstable();
    both.into()
}

/// A slice that is being gathered. What is kept never exceeds the limit by more than a quarter,
/// because the range is cut back when it fills up.
///
/// Entries are offered in any order of due time, but those of one millisecond in the order of
/// their sequences: windows come oldest first, and each keeps that order. So sorting by due time
/// alone, and by the order of offering, is enough: one number for each entry instead of its 36
/// bytes.
#[derive(Debug)]
pub(in crate::schedule_log) struct Gather {
    from: DueKey,
    to: DueKey,
    limit: usize,
    of: Of,
    entries: Vec<Entry>,
    /// How many in the range were somebody else's.
    passed: usize,
    cut: bool,
}

/// A gathered slice.
#[derive(Debug)]
pub(in crate::schedule_log) struct Gathered {
    /// In order, at most as many as the limit.
    pub(in crate::schedule_log) entries: Vec<Entry>,
    /// The last key that the slice covers.
    pub(in crate::schedule_log) to: DueKey,
    /// True where the range was cut back: by the limit, or as a run had much of others.
    pub(in crate::schedule_log) cut: bool,
}

impl Gather {
    /// The first `limit` entries above `from` and up to `to`, which is included.
    pub(in crate::schedule_log) fn new(from: DueKey, to: DueKey, limit: usize) -> Self {
        Self { from, to, limit: limit.max(1), of: Of::All, entries: Vec::new(), passed: 0, cut: false }
    }

    /// The same, of these subjects. What was moved and not looked up yet comes in any case: whose it is,
    /// only its origin knows.
    pub(in crate::schedule_log) fn of(mut self, of: &Of) -> Self {
        self.of = of.clone();
        self
    }

    /// How many entries in the range were not wanted since they are somebody else's.
    pub(in crate::schedule_log) fn passed(&self) -> usize {
        self.passed
    }

    /// Nothing above this is wanted any more.
    pub(in crate::schedule_log) fn cut_to(&mut self, to: DueKey) {
        if to < self.to {
            self.to = to;
            self.cut = true;
            self.entries.retain(|entry| entry.key() <= to);
        }
    }

    /// Nothing at or below this is wanted.
    pub(in crate::schedule_log) fn from(&self) -> DueKey {
        self.from
    }

    /// Nothing above this is wanted; it moves down as the slice fills up.
    pub(in crate::schedule_log) fn to(&self) -> DueKey {
        self.to
    }

    /// How many entries more the slice holds without being cut.
    pub(in crate::schedule_log) fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Takes an entry, if it is in the range and pending by `bits`.
    #[inline]
    pub(in crate::schedule_log) fn offer(&mut self, entry: Entry, bits: &TwoBits) {
        let key = entry.key();
        if key <= self.from || key > self.to {
            return;
        }
        if !self.of.has(entry.subject()) && entry.origin().is_none() {
            self.passed = self.passed.saturating_add(1);
            return;
        }
        if bits.get(key.sequence) != EntryState::Pending {
            return;
        }
        self.entries.push(entry);
        if self.entries.len() > self.limit.saturating_add(self.limit / 4).saturating_add(64) {
            self.cut_back();
        }
    }

    /// The slice, in order and without room to spare.
    pub(in crate::schedule_log) fn finish(mut self) -> Gathered {
        let Some(mut order) = Order::of(&self.entries) else {
            sort_by_key(&mut self.entries);
            if self.entries.len() > self.limit {
                self.to = self.entries.get(self.limit.saturating_sub(1)).map_or(self.to, Entry::key);
                self.cut = true;
            }
            self.entries.truncate(self.limit);
            self.entries.shrink_to_fit();
            return Gathered { entries: self.entries, to: self.to, cut: self.cut };
        };
        order.numbers.sort_unstable();
        if order.numbers.len() > self.limit {
            order.numbers.truncate(self.limit);
            self.to = order.last(&self.entries).map_or(self.to, |last| last.key());
            self.cut = true;
        }
        let mut entries = Vec::with_capacity(order.numbers.len());
        entries.extend(order.numbers.iter().filter_map(|number| order.entry(&self.entries, *number)));
        Gathered { entries, to: self.to, cut: self.cut }
    }

    /// Cuts the range back to the first `limit` of what was offered; the rest keep their order.
    fn cut_back(&mut self) {
        let last = self.limit.saturating_sub(1);
        let kept = match Order::of(&self.entries) {
            Some(mut order) if last < order.numbers.len() => {
                let number = *order.numbers.select_nth_unstable(last).1;
                order.entry(&self.entries, number).map(|entry| entry.key())
            }
            Some(_) => None,
            None => {
                sort_by_key(&mut self.entries);
                self.entries.get(last).map(Entry::key)
            }
        };
        if let Some(kept) = kept {
            self.cut_to(kept);
        }
    }
}

/// For each entry a number that sorts as the entry does: how long after the first it is due, and
/// below that its place.
struct Order {
    numbers: Vec<u64>,
    place_bits: u32,
}

impl Order {
    /// `None` where due times lie so far apart that the numbers would not fit: with a million
    /// entries, 278 years.
    fn of(entries: &[Entry]) -> Option<Self> {
        let dues = || entries.iter().map(|entry| entry.due().0);
        let first = dues().min().unwrap_or_default();
        let span = dues().max().unwrap_or_default().saturating_sub(first);
        let place_bits = usize::BITS.saturating_sub(entries.len().leading_zeros());
        if place_bits > span.leading_zeros() {
            return None;
        }
        let number = |(due, place): (u64, u64)| (due.saturating_sub(first) << place_bits) | place;
        Some(Self { numbers: dues().zip(0_u64..).map(number).collect(), place_bits })
    }

    #[inline]
    fn entry(&self, entries: &[Entry], number: u64) -> Option<Entry> {
        let place = number & ((1 << self.place_bits) - 1);
        entries.get(usize::try_from(place).ok()?).copied()
    }

    fn last(&self, entries: &[Entry]) -> Option<Entry> {
        self.entry(entries, *self.numbers.last()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Location, Millis, Sequence, SubjectNumber};

    /// The first so many of 200,000 entries that are spread over nine thousand years.
    fn gathers_the_first(limit: usize) {
        let mut bits = TwoBits::new(Sequence(1));
        let mut gather = Gather::new(DueKey::START, DueKey::end_of(crate::schedule_log::DUE_MAX), limit);
        let due_of = |sequence: u64| sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
        for sequence in 1..=200_000_u64 {
            bits.push(EntryState::Pending);
            let key = DueKey { due: Millis(due_of(sequence)), sequence: Sequence(sequence) };
            gather.offer(Entry::new(key, 1, key.sequence, Location(0), SubjectNumber(1)), &bits);
        }
        let gathered = gather.finish();
        let mut dues: Vec<u64> = (1..=200_000).map(due_of).collect();
        dues.sort_unstable();
        dues.truncate(limit);
        assert_eq!(gathered.entries.iter().map(|entry| entry.due().0).collect::<Vec<_>>(), dues);
        assert_eq!(gathered.cut, limit < 200_000);
        if gathered.cut {
            assert_eq!(gathered.entries.last().unwrap().key(), gathered.to);
        }
    }

    #[test]
    fn a_range_of_nine_thousand_years_is_sorted_as_well() {
        gathers_the_first(50_000);
    }

    #[test]
    fn so_many_entries_of_such_a_range_that_numbers_do_not_fit_are_sorted_as_well() {
        // Cut back on the way and at the end, cut at the end alone, and not cut at all.
        for limit in [70_000, 190_000, 200_000] {
            gathers_the_first(limit);
        }
    }
}
