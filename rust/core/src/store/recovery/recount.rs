//! What is pending is counted one by one at an open, where the checkpoint does not say it.

use crate::error::Result;
use crate::store::owner::Owner;
use crate::store::state::pending_counts::PendingCounts;

impl Owner {
    /// Counts what is not known, and judges minutes by these options from now on: what is hot already is not told.
    ///
    /// # Errors
    /// As [`Self::settle_counts`].
    pub(in crate::store) fn settle_at_open(&mut self) -> Result<()> {
        self.settle_counts()?;
        self.state.totals.judge_by(self.options.hot_minute_messages);
        Ok(())
    }

    /// Counts all that is pending where that is not known; else it does nothing.
    ///
    /// # Errors
    /// What finding the entries of a damaged block again gives.
    pub(in crate::store) fn settle_counts(&mut self) -> Result<()> {
        if self.state.counts.are_known() {
            return Ok(());
        }
        loop {
            let (cells, damaged) = self.state.count_cells(&self.effects.storage)?;
            if damaged.is_empty() {
                let mut counts = PendingCounts::default();
                for ((subject, _), tally) in &cells {
                    counts.restore(*subject, counts.get(*subject).saturating_add(tally.messages));
                }
                self.state.counts = counts;
                self.state.restart_totals(&cells);
                // Until a checkpoint says it, whoever opens the store counts everything again.
                self.effects.was_counted = true;
                return Ok(());
            }
            for block in &damaged {
                self.effects.rescue(&mut self.state, block)?;
            }
        }
    }
}
