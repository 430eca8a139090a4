//! The counts of pending messages, by subject and by minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forecast::{DueByMinute, Sizes, pages_of};
use crate::error::Result;
use crate::run::DamagedBlock;
use crate::schedule_log::{Cells, Entry, HorizonView};
use crate::storage::Storage;
use crate::store::state::State;
use crate::units::{Minute, SubjectNumber, Tally};

impl State {
    /// As [`Self::due_by_minute`], but to be read later.
    pub fn due_by_minute_view(&self, from: Minute, before: Minute) -> DueByMinute {
        let minutes = from.0..before.0;
        let pages = self.totals.pages.range(pages_of(&minutes));
        DueByMinute { pages: pages.map(|(page, tallies)| (*page, Arc::clone(tallies))).collect(), minutes }
    }

    /// Returns what is due in each minute from `from` to before `before`, without empty minutes. Reads only the totals
    /// of minutes, and no pending entry.
    pub fn due_by_minute(&self, from: Minute, before: Minute) -> Vec<(Minute, Tally)> {
        self.totals.within(&(from.0..before.0)).collect()
    }

    /// The number of minutes with more due messages than the limit of a hot minute.
    pub fn hot_minutes(&self) -> u64 {
        self.totals.hot_minutes
    }

    /// Bytes of memory that the totals take.
    pub fn forecast_bytes(&self) -> usize {
        self.totals.memory_bytes()
    }

    /// The pending messages of one subject, or of all, by minute. The view can be read without holding up the owner.
    pub fn horizon(&self, subject: Option<SubjectNumber>) -> HorizonView {
        self.schedule.horizon(subject)
    }

    /// Counts all pending messages by subject and minute, one by one, which is slow. Blocks of runs that cannot be read
    /// are returned.
    ///
    /// # Errors
    /// `Storage` if a payload could not be read now whose size no row gives.
    pub fn count_cells(&self, storage: &Arc<dyn Storage>) -> Result<(Cells, Vec<DamagedBlock>)> {
        let (mut cells, mut damaged) = (Cells::new(), Vec::new());
        let sizes = Sizes::new(storage);
        let mut count = |entry: &Entry| {
            let tally: &mut Tally = cells.entry((entry.subject(), entry.due().minute())).or_default();
            tally.add(Tally::one(sizes.of(entry).unwrap_or_default()));
        };
        self.schedule.each_pending(&mut count, &mut |block| damaged.push(block));
        sizes.into_result()?;
        Ok((cells, damaged))
    }

    /// Restores the totals from a checkpoint.
    pub(in crate::store) fn restore_totals(&mut self, saved: &[(Minute, Tally)]) {
        for (minute, tally) in saved {
            self.totals.add(*minute, *tally);
        }
    }

    /// Replaces the totals by those of these cells.
    pub(in crate::store) fn restart_totals(&mut self, cells: &Cells) {
        self.totals.restart(cells);
    }

    /// True if the totals are those of these cells.
    pub fn totals_are(&self, cells: &Cells) -> bool {
        let mut expected: BTreeMap<Minute, Tally> = BTreeMap::new();
        for ((_, minute), tally) in cells {
            expected.entry(*minute).or_default().add(*tally);
        }
        expected.into_iter().eq(self.totals.iter())
    }
}

impl State {
    /// The number of pending entries of a subject.
    pub fn pending_of(&self, subject: SubjectNumber) -> u64 {
        self.counts.get(subject)
    }

    /// Counts the pending messages of each subject, one by one, which is slow. Blocks of runs that cannot be read are
    /// returned.
    pub fn count_pending(&self) -> (BTreeMap<SubjectNumber, u64>, Vec<DamagedBlock>) {
        let (mut counted, mut damaged) = (BTreeMap::new(), Vec::new());
        let mut count = |subject: SubjectNumber| {
            let known: &mut u64 = counted.entry(subject).or_default();
            *known = known.saturating_add(1);
        };
        self.schedule.each_pending(&mut |entry| count(entry.subject()), &mut |block| damaged.push(block));
        (counted, damaged)
    }

    /// The kept counts of all subjects with pending messages.
    pub fn pending_counts(&self) -> BTreeMap<SubjectNumber, u64> {
        self.counts.to_map()
    }
}
