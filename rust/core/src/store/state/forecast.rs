//! The totals of each minute over all subjects, kept without reading entries: raised when an entry becomes pending, and
//! lowered when it no longer is, like [`super::pending_counts`]. Part of the state: a checkpoint has the totals, and
//! the facts after it change them.
//!
//! The share of each subject is in the cells of runs, and in the entries that are not in a run yet (see
//! [`crate::schedule_log::HorizonView`]).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::schedule_log::{Cells, Entry, PayloadCopies};
use crate::storage::Storage;
use crate::store::options::HOT_MINUTE_MESSAGES;
use crate::units::{Millis, Minute, Tally};

/// The number of minutes in a page.
const PAGE_MINUTES: u32 = 60;
/// The maximum number of newly hot minutes that wait to be reported, and of reported minutes that are remembered. A
/// minute earlier than the remembered ones may be reported again.
const TOLD_MAX: usize = 1_024;

type Page = [Tally; PAGE_MINUTES as usize];

/// A minute in which more messages are due than the options allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotMinute {
    /// The minute.
    pub minute: Minute,
    /// The total of the minute when it exceeded the limit.
    pub tally: Tally,
}

/// The totals of all minutes: see the module. Pages are shared with a checkpoint that saves them.
#[derive(Clone, Debug)]
pub(in crate::store) struct MinuteTotals {
    pub(super) pages: BTreeMap<u32, Arc<Page>>,
    /// A minute with more messages than this is hot.
    hot_messages: u64,
    pub(super) hot_minutes: u64,
    newly_hot: Vec<HotMinute>,
    /// Minutes that were reported: each is reported once.
    told: BTreeSet<Minute>,
}

impl Default for MinuteTotals {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            hot_messages: HOT_MINUTE_MESSAGES,
            hot_minutes: 0,
            newly_hot: Vec::new(),
            told: BTreeSet::new(),
        }
    }
}

impl MinuteTotals {
    /// Adds an entry that became pending.
    #[inline]
    pub(in crate::store) fn raise(&mut self, due: Millis, size: u32) {
        self.add(due.minute(), Tally::one(size));
    }

    /// Adds the total that a checkpoint has of a minute, or an entry.
    pub(in crate::store) fn add(&mut self, minute: Minute, more: Tally) {
        let page = self
            .pages
            .entry(minute.0 / PAGE_MINUTES)
            .or_insert_with(|| Arc::new([Tally::default(); PAGE_MINUTES as usize]));
        let Some(tally) = Arc::make_mut(page).get_mut((minute.0 % PAGE_MINUTES) as usize) else { return };
        let was_hot = tally.messages > self.hot_messages;
        tally.add(more);
        if !was_hot && tally.messages > self.hot_messages {
            self.hot_minutes = self.hot_minutes.saturating_add(1);
            let tally = *tally;
            self.note_hot(HotMinute { minute, tally });
        }
    }

    fn note_hot(&mut self, hot: HotMinute) {
        if self.newly_hot.len() < TOLD_MAX && self.told.insert(hot.minute) {
            self.newly_hot.push(hot);
            if self.told.len() > TOLD_MAX {
                self.told.pop_first();
            }
        }
    }

    /// Subtracts an entry that is no longer pending.
    #[inline]
    pub(in crate::store) fn lower(&mut self, due: Millis, size: u32) {
        let minute = due.minute();
        let number = minute.0 / PAGE_MINUTES;
        let Some(page) = self.pages.get_mut(&number) else { return };
        let page = Arc::make_mut(page);
        let Some(tally) = page.get_mut((minute.0 % PAGE_MINUTES) as usize) else { return };
        let was_hot = tally.messages > self.hot_messages;
        tally.take(Tally::one(size));
        if tally.messages == 0 {
            // The size of a body that was damaged after it was counted was not subtracted.
            *tally = Tally::default();
        }
        if was_hot && tally.messages <= self.hot_messages {
            self.hot_minutes = self.hot_minutes.saturating_sub(1);
        }
        // Checking a page costs more than lowering a minute, so the page is checked only when the minute becomes empty.
        if tally.is_empty() && page.iter().all(|tally| tally.is_empty()) {
            self.pages.remove(&number);
        }
    }

    /// The minutes with due messages, in order.
    pub(in crate::store) fn iter(&self) -> impl Iterator<Item = (Minute, Tally)> + '_ {
        self.within(&(0..u32::MAX))
    }

    pub(super) fn within(&self, minutes: &Range<u32>) -> impl Iterator<Item = (Minute, Tally)> + '_ {
        let pages = self.pages.range(pages_of(minutes));
        told_by(pages.map(|(page, tallies)| (*page, tallies)), minutes.clone())
    }

    /// Changes the limit of a hot minute. Minutes found by the previous limit are neither reported nor remembered as
    /// reported.
    pub(in crate::store) fn judge_by(&mut self, hot_messages: u64) {
        self.hot_messages = hot_messages;
        self.newly_hot.clear();
        self.told.clear();
        self.hot_minutes = self.iter().filter(|(_, tally)| tally.messages > hot_messages).count() as u64;
    }

    /// Replaces the totals by those of these cells.
    pub(super) fn restart(&mut self, cells: &Cells) {
        let mut totals = Self { hot_messages: u64::MAX, ..Self::default() };
        for ((_, minute), tally) in cells {
            totals.add(*minute, *tally);
        }
        totals.judge_by(self.hot_messages);
        totals.newly_hot = std::mem::take(&mut self.newly_hot);
        totals.told = std::mem::take(&mut self.told);
        *self = totals;
    }

    /// Takes the minutes that became hot since the last call.
    pub(in crate::store) fn take_newly_hot(&mut self) -> Vec<HotMinute> {
        std::mem::take(&mut self.newly_hot)
    }

    /// Bytes of memory that the totals take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.pages.len().saturating_mul(size_of::<Page>() + size_of::<(u32, Arc<Page>)>())
    }
}

pub(super) fn pages_of(minutes: &Range<u32>) -> RangeInclusive<u32> {
    minutes.start / PAGE_MINUTES..=minutes.end / PAGE_MINUTES
}

/// The minutes of these pages that are in the range and not empty.
fn told_by<'a>(
    pages: impl Iterator<Item = (u32, &'a Arc<Page>)>,
    minutes: Range<u32>,
) -> impl Iterator<Item = (Minute, Tally)> {
    let each = pages.flat_map(|(page, tallies)| {
        let first = page.saturating_mul(PAGE_MINUTES);
        (first..).zip(tallies.iter().copied())
    });
    // The last minute also contains everything that is due later, so a range to its end includes the last minute.
    let is_asked = move |minute: u32| {
        minute >= minutes.start && (minute < minutes.end || (minute == u32::MAX && minutes.end == u32::MAX))
    };
    each.filter(move |(minute, tally)| !tally.is_empty() && is_asked(*minute))
        .map(|(minute, tally)| (Minute(minute), tally))
}

/// The totals of each minute at one moment, to be read without holding up the owner: pages are shared, not copied.
#[derive(Clone, Debug)]
pub struct DueByMinute {
    pub(super) pages: Vec<(u32, Arc<Page>)>,
    pub(super) minutes: Range<u32>,
}

impl DueByMinute {
    /// The minutes with due messages, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Minute, Tally)> + '_ {
        told_by(self.pages.iter().map(|(page, tallies)| (*page, tallies)), self.minutes.clone())
    }
}

/// Finds the sizes of bodies, and reads a size from the payload if the row of the entry does not give the size.
pub struct Sizes<'a> {
    storage: &'a Arc<dyn Storage>,
    payloads: RefCell<PayloadCopies>,
    /// The first read that failed.
    failure: RefCell<Option<Error>>,
}

impl<'a> Sizes<'a> {
    /// Reads from this storage.
    pub fn new(storage: &'a Arc<dyn Storage>) -> Self {
        Self { storage, payloads: RefCell::default(), failure: RefCell::default() }
    }

    /// The size of an entry's body in bytes; `None` if it is lost or could not be read now.
    pub fn of(&self, entry: &Entry) -> Option<u32> {
        entry.size().or_else(|| self.read(entry))
    }

    fn read(&self, entry: &Entry) -> Option<u32> {
        let found = self.payloads.try_borrow_mut().ok()?.size_of_entry(self.storage.as_ref(), entry);
        found.unwrap_or_else(|error| {
            let _ = self.failure.borrow_mut().get_or_insert(error);
            None
        })
    }

    /// Returns an error if a size could not be read.
    ///
    /// # Errors
    /// `Storage`: the first error.
    pub fn into_result(self) -> Result<()> {
        self.failure.into_inner().map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for Sizes<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sizes").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_limit_found_before_the_options_were_known_is_told_by_theirs() {
        let minute = Minute(7);
        let mut totals = MinuteTotals::default();
        totals.add(minute, Tally { messages: HOT_MINUTE_MESSAGES + 1, bytes: 0 });
        totals.judge_by(HOT_MINUTE_MESSAGES * 2);
        assert_eq!((totals.take_newly_hot(), totals.hot_minutes), (Vec::new(), 0));
        totals.add(minute, Tally { messages: HOT_MINUTE_MESSAGES, bytes: 0 });
        let tally = Tally { messages: HOT_MINUTE_MESSAGES * 2 + 1, bytes: 0 };
        assert_eq!(totals.take_newly_hot(), [HotMinute { minute, tally }]);
    }

    #[test]
    fn as_many_minutes_are_told_at_once_as_are_remembered() {
        let mut totals = MinuteTotals::default();
        totals.judge_by(0);
        for minute in 0..100 {
            totals.add(Minute(minute), Tally::one(1));
        }
        assert_eq!(totals.take_newly_hot().len(), 100);
    }

    #[test]
    fn a_body_whose_size_was_not_known_any_more_leaves_no_bytes_behind() {
        let mut totals = MinuteTotals::default();
        totals.raise(Millis(60_000), 9);
        totals.lower(Millis(60_000), 0);
        assert!(totals.iter().next().is_none() && totals.pages.is_empty());
    }
}
