//! What is pending, by subject and by minute.

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
    /// As [`Self::due_by_minute`], looked at later.
    pub fn due_by_minute_view(&self, from: Minute, before: Minute) -> DueByMinute {
        let minutes = from.0..before.0;
        let pages = self.totals.pages.range(pages_of(&minutes));
        DueByMinute { pages: pages.map(|(page, tallies)| (*page, Arc::clone(tallies))).collect(), minutes }
    }

    /// What is due in each minute from `from` on and before `before`; minutes in which nothing is are left out.
    /// Looks at minutes, and at nothing that is pending.
    pub fn due_by_minute(&self, from: Minute, before: Minute) -> Vec<(Minute, Tally)> {
        self.totals.within(&(from.0..before.0)).collect()
    }

    /// How many minutes have more due than what is told as hot.
    pub fn hot_minutes(&self) -> u64 {
        self.totals.hot_minutes
    }

    /// Bytes of memory that the totals take.
    pub fn forecast_bytes(&self) -> usize {
        self.totals.memory_bytes()
    }

    /// What is pending of a subject, or of each, by minute: to be read with nobody waiting.
    pub fn horizon(&self, subject: Option<SubjectNumber>) -> HorizonView {
        self.schedule.horizon(subject)
    }

    /// Everything that is pending by subject and minute, counted one by one: slow. Blocks of runs that cannot be
    /// read are named instead.
    ///
    /// # Errors
    /// `Storage` where a payload could not be read now whose bytes no row says.
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

    /// Takes over what a checkpoint says.
    pub(in crate::store) fn restore_totals(&mut self, saved: &[(Minute, Tally)]) {
        for (minute, tally) in saved {
            self.totals.add(*minute, *tally);
        }
    }

    /// The totals are what these cells say.
    pub(in crate::store) fn restart_totals(&mut self, cells: &Cells) {
        self.totals.restart(cells);
    }

    /// True where the totals are what these cells say.
    pub fn totals_are(&self, cells: &Cells) -> bool {
        let mut expected: BTreeMap<Minute, Tally> = BTreeMap::new();
        for ((_, minute), tally) in cells {
            expected.entry(*minute).or_default().add(*tally);
        }
        expected.into_iter().eq(self.totals.iter())
    }
}

impl State {
    /// How many entries of a subject are pending.
    pub fn pending_of(&self, subject: SubjectNumber) -> u64 {
        self.counts.get(subject)
    }

    /// What is pending of each subject, counted one by one: slow. Blocks of runs that cannot be read
    /// are named instead.
    pub fn count_pending(&self) -> (BTreeMap<SubjectNumber, u64>, Vec<DamagedBlock>) {
        let (mut counted, mut damaged) = (BTreeMap::new(), Vec::new());
        let mut count = |subject: SubjectNumber| {
            let known: &mut u64 = counted.entry(subject).or_default();
            *known = known.saturating_add(1);
        };
        self.schedule.each_pending(&mut |entry| count(entry.subject()), &mut |block| damaged.push(block));
        (counted, damaged)
    }

    /// The counts as kept, of all subjects of which something is pending.
    pub fn pending_counts(&self) -> BTreeMap<SubjectNumber, u64> {
        self.counts.to_map()
    }
}
