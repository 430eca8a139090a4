//! Forecasts: how much is due when. Totals by minute are always kept. Those of one subject are in the cells of runs,
//! which are read without a lock. Totals by second are counted.

use std::collections::BTreeMap;
use std::ops::Range;

use delaymq_core::error::Result;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::{
    Forecast, ForecastQuery, HotMinute, PendingLook, PendingOf, PendingQuery, PendingScan, Sizes, minutes_of,
};
use delaymq_core::units::{Millis, Minute, Tally};

use crate::operate::administration::unknown_subject;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::store::Store;

/// Entries that are counted under one hold of the owner lock.
const PIECE_ENTRIES: usize = 32_768;

impl Store {
    /// How many messages and bytes of bodies are due in each minute or second, for one subject or for all. Overdue
    /// messages, while dispatch is held or late, are at their due time.
    ///
    /// By minute for all subjects, no message is read. For one subject, the messages since the last checkpoint and the
    /// cells of runs are read. By second, each message that is due in that time is read.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, if it does not exist, or `due_before`; `Storage` if a run could not be read;
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn forecast(&self, query: &ForecastQuery) -> Result<Forecast> {
        let shared = &self.shared;
        shared.check()?;
        let range = query.range(shared.now().0)?;
        shared.apply_until(shared.positions.visible())?;
        let subject = match &query.subject {
            None => None,
            Some(name) => {
                let number = shared.lock_owner()?.get()?.owner.state().subjects.number(name);
                Some((name, number.ok_or_else(|| unknown_subject(name))?))
            }
        };
        if query.by_second {
            return self.by_second(subject.map(|(name, _)| name), &range);
        }
        let minutes = minutes_of(&range);
        let Some((_, number)) = subject else {
            // Other threads wait while the pages are shared, and not while they are read.
            let view = shared.lock_owner()?.get()?.owner.state().due_by_minute_view(minutes.start, minutes.end);
            return Ok(Forecast::of_minutes(view.iter(), 0));
        };
        let mut locked = shared.lock_owner()?;
        let owner = &mut locked.get()?.owner;
        let view = owner.state().horizon(Some(number));
        if view.reads_rows() {
            owner.count_again();
        }
        drop(locked);
        let sizes = Sizes::new(&shared.storage);
        let told = view.read(&|entry| sizes.of(entry).unwrap_or_default())?;
        sizes.into_result()?;
        // For one subject they are in the order of minutes.
        let due = told.cells.into_iter().map(|((_, minute), tally)| (minute, tally));
        let asked = due.filter(|(minute, _)| is_within(&minutes, *minute));
        Ok(Forecast::of_minutes(asked, told.hidden_rows))
    }

    /// Counts what is due in a time, in pieces. Each piece is as of its own moment.
    fn by_second(&self, subject: Option<&String>, range: &Range<Millis>) -> Result<Forecast> {
        let shared = &self.shared;
        let of = subject.map_or_else(|| PendingOf::Prefix(String::new()), |name| PendingOf::Subject(name.clone()));
        let (due_from, due_before) = (Some(range.start), Some(range.end));
        let mut scan = PendingScan::new(shared.issuer.stream, &PendingQuery { of, due_from, due_before, after: None })?;
        let sizes = Sizes::new(&shared.storage);
        let mut told = Forecast::default();
        let mut count = |entry: &Entry| told.add_second(entry.due(), Tally::one(sizes.of(entry).unwrap_or_default()));
        let mut hidden = BTreeMap::new();
        loop {
            shared.check()?;
            let look = shared.lock_owner()?.get()?.owner.look_at_pending(&mut scan);
            match look {
                PendingLook::Again => {}
                PendingLook::End => break,
                PendingLook::View(view) => {
                    let piece = scan.read(view, PIECE_ENTRIES)?;
                    piece.entries.iter().for_each(&mut count);
                    // Both pieces name a block that reaches over them.
                    hidden.extend(piece.hidden.iter().map(|one| ((one.block.run, one.block.block), one.rows)));
                }
            }
        }
        sizes.into_result()?;
        told.hidden_rows = hidden.values().fold(0, |sum, rows| sum.saturating_add(*rows));
        Ok(told)
    }
}

impl Shared {
    /// Reports minutes in which more is due than the options allow for, each once.
    pub(crate) fn report_hot(&self, minutes: &[HotMinute]) {
        for hot in minutes {
            let (start, messages) = (hot.minute.start(), hot.tally.messages);
            self.reports.add(Report::HotMinute { start, messages });
        }
    }
}

/// The last minute includes everything behind it, so it has no end.
fn is_within(minutes: &Range<Minute>, minute: Minute) -> bool {
    minutes.contains(&minute) || (minute.0 == u32::MAX && minutes.end.0 == u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::options::{Due, Durability, Options};

    const MESSAGES: u64 = 40_000;
    const BATCH: u64 = 10_000;
    const DAY_MS: u64 = 86_400_000;

    /// In two runs, each in a minute of its own, and a quarter of them cancelled: more than a window keeps.
    #[test]
    fn a_forecast_that_has_to_read_rows_has_their_run_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { durability: Durability::Os, ..Options::default() };
        let store = Store::open(folder.path(), options, &mut |_| {}).unwrap();
        let (mut batch, mut receipts) = (store.batch(), Vec::new());
        for number in 0..MESSAGES {
            batch.push("orders", Due::After(DAY_MS + 60_000 * number), &[], &[7; 10]).unwrap();
            if batch.len() as u64 == BATCH {
                receipts.extend(store.publish(&mut batch).unwrap().iter());
            }
            if (number + 1) % (MESSAGES / 2) == 0 {
                store.checkpoint().unwrap();
            }
        }
        let chosen: Vec<_> = receipts.into_iter().step_by(4).collect();
        store.cancel_many(&chosen).unwrap();
        let reads_rows = || {
            let mut locked = store.shared.lock_owner().unwrap();
            let state = locked.get().unwrap().owner.state();
            let number = state.subjects.number("orders").unwrap();
            state.horizon(Some(number)).reads_rows()
        };
        let query = ForecastQuery { subject: Some("orders".to_owned()), ..ForecastQuery::default() };
        let told = || {
            let slots = store.forecast(&query).unwrap().slots;
            (slots.len() as u64, slots.iter().map(|slot| slot.tally.messages).sum::<u64>())
        };
        let left = MESSAGES - chosen.len() as u64;
        store.checkpoint().unwrap();
        assert!(reads_rows(), "a quarter is not too much to keep, or a checkpoint wrote both runs again");
        std::thread::sleep(Duration::from_millis(200));
        assert!(reads_rows(), "nobody has asked");
        let until = Instant::now() + Duration::from_secs(20);
        while reads_rows() {
            assert!(Instant::now() < until, "the run is not written again");
            assert_eq!(told(), (left, left));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(told(), (left, left));
    }
}
