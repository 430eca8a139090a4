//! The entries of a queue, in pages that clones share and a write copies, so that a checkpoint takes a
//! million entries between two steps.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::schedule_log::Entry;

/// Entries of each page except the last, which may have fewer.
const PAGE_ENTRIES: usize = 256;
/// Entries for which the last page keeps memory, even if it holds fewer.
const ROOM_KEPT: usize = 16;

/// A queue of entries: added at the end, removed at the front.
#[derive(Clone, Debug, Default)]
pub struct Paged {
    pages: VecDeque<Arc<Vec<Entry>>>,
    /// The number of entries of the first page that were removed.
    skipped: usize,
    length: usize,
}

impl Paged {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The entry at a place.
    pub fn get(&self, at: usize) -> Option<&Entry> {
        let at = at.checked_add(self.skipped)?;
        self.pages.get(at / PAGE_ENTRIES)?.get(at % PAGE_ENTRIES)
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.pages.iter().flat_map(|page| page.iter()).skip(self.skipped)
    }

    pub(super) fn push(&mut self, entry: Entry) {
        match self.pages.back_mut() {
            Some(page) if page.len() < PAGE_ENTRIES => Arc::make_mut(page).push(entry),
            last => {
                // Most queues are short. A queue that filled one page will probably fill the next one.
                let mut page = Vec::with_capacity(if last.is_some() { PAGE_ENTRIES } else { 1 });
                page.push(entry);
                self.pages.push_back(Arc::new(page));
            }
        }
        self.length = self.length.saturating_add(1);
    }

    /// Removes the first `count` entries, or all if there are fewer.
    pub(super) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.length);
        self.length = self.length.saturating_sub(count);
        self.skipped = self.skipped.saturating_add(count);
        while self.skipped >= PAGE_ENTRIES {
            self.skipped = self.skipped.saturating_sub(PAGE_ENTRIES);
            self.pages.pop_front();
        }
        if self.length > 0 {
            return;
        }
        self.skipped = 0;
        match self.pages.front_mut().and_then(Arc::get_mut) {
            Some(page) => page.clear(),
            None => self.pages.clear(),
        }
    }

    /// The same without the first `count` entries. Only the addresses of the pages are copied.
    pub(super) fn after(&self, count: usize) -> Self {
        let skipped = self.skipped.saturating_add(count.min(self.length));
        let pages = self.pages.iter().skip(skipped / PAGE_ENTRIES).cloned().collect();
        Self { pages, skipped: skipped % PAGE_ENTRIES, length: self.length.saturating_sub(count) }
    }

    /// Frees memory after a flood. With many queues, the spare memory of each counts.
    pub(super) fn give_back_room(&mut self) {
        if self.pages.capacity() > ROOM_KEPT && self.pages.capacity() / 4 > self.pages.len() {
            self.pages.shrink_to(self.pages.len().saturating_mul(2));
        }
        let room = self.room();
        if self.pages.len() == 1 && room > ROOM_KEPT && room / 4 > self.length {
            let mut page = Vec::with_capacity(self.length.saturating_mul(2));
            page.extend(self.iter().copied());
            self.pages = VecDeque::from([Arc::new(page)]);
            self.skipped = 0;
        }
    }

    /// The number of entries that fit the allocated memory.
    pub(super) fn room(&self) -> usize {
        self.pages.iter().map(|page| page.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Push(u64),
        DropFirst(usize),
        Share(usize),
        GiveBack,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => (1_u64..700).prop_map(Change::Push),
            3 => (0_usize..900).prop_map(Change::DropFirst),
            2 => (0_usize..900).prop_map(Change::Share),
            1 => Just(Change::GiveBack),
        ]
    }

    fn entry(sequence: u64) -> Entry {
        let key = DueKey { due: Millis(sequence), sequence: Sequence(sequence) };
        Entry::new(key, 1, Sequence(sequence), Location(0), SubjectNumber(1))
    }

    proptest! {
        #[test]
        fn pages_hold_what_a_list_would_and_a_share_does_not_change(changes in prop::collection::vec(change(), 0..60)) {
            let (mut pages, mut list, mut next) = (Paged::default(), VecDeque::new(), 0_u64);
            let mut shares: Vec<(Paged, Vec<Entry>)> = Vec::new();
            for change in changes {
                match change {
                    Change::Push(count) => {
                        for sequence in next..next + count {
                            pages.push(entry(sequence));
                            list.push_back(entry(sequence));
                        }
                        next += count;
                    }
                    Change::DropFirst(count) => {
                        pages.drop_first(count);
                        list.drain(..count.min(list.len()));
                    }
                    Change::Share(count) => {
                        shares.push((pages.after(count), list.iter().skip(count).copied().collect()));
                    }
                    Change::GiveBack => pages.give_back_room(),
                }
                prop_assert_eq!(pages.len(), list.len());
                prop_assert!(pages.iter().eq(list.iter()));
                for at in [0, 1, 255, 256, list.len().saturating_sub(1), list.len()] {
                    prop_assert_eq!(pages.get(at), list.get(at));
                }
            }
            for (share, list) in shares {
                prop_assert_eq!(share.len(), list.len());
                prop_assert!(share.iter().eq(list.iter()));
            }
        }
    }

    #[test]
    fn a_share_of_a_million_entries_copies_none_of_them() {
        let mut pages = Paged::default();
        (0..1_000_000).for_each(|sequence| pages.push(entry(sequence)));
        let share = pages.after(0);
        assert!(pages.pages.iter().zip(&share.pages).all(|(one, other)| Arc::ptr_eq(one, other)));
        // A write copies only its own page.
        pages.push(entry(1_000_000));
        let copied = pages.pages.iter().zip(&share.pages).filter(|(one, other)| !Arc::ptr_eq(one, other));
        assert!(copied.count() <= 1);
    }
}
