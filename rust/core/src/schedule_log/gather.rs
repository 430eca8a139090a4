//! Gathering one slice of the schedule: the first so many pending entries of a range of keys.

use super::bits::{EntryState, TwoBits};
use super::entry::{Entry, sort_by_key};
use crate::units::DueKey;

/// A slice that is being gathered. Entries are offered in any order; what is kept never exceeds
/// the limit by more than a quarter, because the range is cut back when it fills up.
#[derive(Debug)]
pub(super) struct Gather {
    from: DueKey,
    to: DueKey,
    limit: usize,
    entries: Vec<Entry>,
    cut: bool,
}

/// A gathered slice.
#[derive(Debug)]
pub(super) struct Gathered {
    /// In order, at most as many as the limit.
    pub(super) entries: Vec<Entry>,
    /// The last key that the slice covers.
    pub(super) to: DueKey,
    /// True where the limit cut the range back.
    pub(super) cut: bool,
}

impl Gather {
    /// The first `limit` entries above `from` and up to `to`, which is included.
    pub(super) fn new(from: DueKey, to: DueKey, limit: usize) -> Self {
        Self { from, to, limit: limit.max(1), entries: Vec::new(), cut: false }
    }

    /// Nothing at or below this is wanted.
    pub(super) fn from(&self) -> DueKey {
        self.from
    }

    /// Nothing above this is wanted; it moves down as the slice fills up.
    pub(super) fn to(&self) -> DueKey {
        self.to
    }

    /// How many entries more the slice holds without being cut.
    pub(super) fn room(&self) -> usize {
        self.limit.saturating_sub(self.entries.len())
    }

    /// Takes an entry, if it is in the range and pending by `bits`.
    #[inline]
    pub(super) fn offer(&mut self, entry: Entry, bits: &TwoBits) {
        let key = entry.key();
        if key <= self.from || key > self.to {
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
    pub(super) fn finish(mut self) -> Gathered {
        if self.entries.len() > self.limit {
            self.cut_back();
        }
        self.entries.shrink_to_fit();
        sort_by_key(&mut self.entries);
        Gathered { entries: self.entries, to: self.to, cut: self.cut }
    }

    fn cut_back(&mut self) {
        let last = self.limit.saturating_sub(1);
        if last < self.entries.len() {
            let (_, kept, _) = self.entries.select_nth_unstable_by_key(last, Entry::key);
            self.to = kept.key();
            self.cut = true;
            self.entries.truncate(self.limit);
        }
    }
}
