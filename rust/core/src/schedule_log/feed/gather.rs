//! Gathers one slice of the schedule: the first pending entries of a range of keys, up to a limit.

use std::sync::Arc;

use crate::schedule_log::entry::{Entry, sort_by_key};
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::units::{DueKey, SubjectNumber};

/// The subjects whose entries are wanted. Subjects are sorted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::schedule_log) enum Of {
    /// All subjects.
    All,
    /// These subjects.
    Only(Arc<[SubjectNumber]>),
    /// All subjects except these.
    Without(Arc<[SubjectNumber]>),
}

impl Of {
    /// True if the entries of this subject are wanted.
    #[inline]
    pub(in crate::schedule_log) fn has(&self, subject: SubjectNumber) -> bool {
        match self {
            Self::All => true,
            Self::Only(subjects) => subjects.binary_search(&subject).is_ok(),
            Self::Without(subjects) => subjects.binary_search(&subject).is_err(),
        }
    }

    /// The subjects that it names, sorted.
    pub(in crate::schedule_log) fn named(&self) -> &[SubjectNumber] {
        match self {
            Self::All => &[],
            Self::Only(subjects) | Self::Without(subjects) => subjects,
        }
    }

    /// Removes the subjects of `other`, which must name its subjects.
    pub(super) fn without(&self, other: &Self) -> Self {
        match self {
            Self::Only(subjects) => Self::Only(subjects.iter().copied().filter(|one| !other.has(*one)).collect()),
            Self::All | Self::Without(_) => {
                let subjects = both(self.named(), other.named());
                if subjects.is_empty() { Self::All } else { Self::Without(subjects) }
            }
        }
    }

    /// Adds the subjects of `other`, which must name its subjects.
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

/// A slice that is being gathered. It never holds more than about a quarter above the limit, because the
/// range is cut back when the slice is full.
///
/// Entries are offered in any order of due time, but those of one millisecond in the order of sequences:
/// windows come oldest first, and each keeps that order. It is therefore enough to sort by due time and then
/// by the order of offering, which takes one number for each entry instead of its 36 bytes.
#[derive(Debug)]
pub(in crate::schedule_log) struct Gather {
    from: DueKey,
    to: DueKey,
    limit: usize,
    of: Of,
    entries: Vec<Entry>,
    /// The number of entries in the range that are of unwanted subjects.
    passed: usize,
    cut: bool,
}

/// A gathered slice.
#[derive(Debug)]
pub(in crate::schedule_log) struct Gathered {
    /// The entries, in order, at most `limit`.
    pub(in crate::schedule_log) entries: Vec<Entry>,
    /// The last key that the slice covers.
    pub(in crate::schedule_log) to: DueKey,
    /// True if the range was cut back, by the limit or because a run had many entries of other subjects.
    pub(in crate::schedule_log) cut: bool,
}

impl Gather {
    /// Gathers the first `limit` entries above `from` and up to `to`, inclusive.
    pub(in crate::schedule_log) fn new(from: DueKey, to: DueKey, limit: usize) -> Self {
        Self { from, to, limit: limit.max(1), of: Of::All, entries: Vec::new(), passed: 0, cut: false }
    }

    /// The same slice for these subjects only. Moved entries that are not resolved come in any case, since
    /// only the origin knows their subject.
    pub(in crate::schedule_log) fn of(mut self, of: &Of) -> Self {
        self.of = of.clone();
        self
    }

    /// The number of entries in the range that were skipped because they are of unwanted subjects.
    pub(in crate::schedule_log) fn passed(&self) -> usize {
        self.passed
    }

    /// Excludes the entries above `to` from now on.
    pub(in crate::schedule_log) fn cut_to(&mut self, to: DueKey) {
        if to < self.to {
            self.to = to;
            self.cut = true;
            self.entries.retain(|entry| entry.key() <= to);
        }
    }

    /// Only entries above this key are wanted.
    pub(in crate::schedule_log) fn from(&self) -> DueKey {
        self.from
    }

    /// Only entries up to this key are wanted. The key goes down when the slice is full.
    pub(in crate::schedule_log) fn to(&self) -> DueKey {
        self.to
    }

    /// The number of entries that the slice still takes without being cut.
    pub(in crate::schedule_log) fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Takes an entry if it is in the range and pending according to `bits`.
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

    /// The slice, sorted and without spare memory.
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

    /// Cuts the range back to the first `limit` of the offered entries. The kept entries stay in their order.
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

/// For each entry, a number that sorts as the entry does: its due time relative to the first one, and below
/// that its place.
struct Order {
    numbers: Vec<u64>,
    place_bits: u32,
}

impl Order {
    /// `None` if the due times are too far apart for the numbers: 278 years for a million entries.
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

    /// Gathers the first `limit` of 200,000 entries that are spread over nine thousand years.
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
        // The limits are cut during gathering and at the end, only at the end, and never.
        for limit in [70_000, 190_000, 200_000] {
            gathers_the_first(limit);
        }
    }
}
