//! Counts all pending messages at an open if the checkpoint does not contain the counts.

use crate::error::Result;
use crate::store::owner::Owner;
use crate::store::state::pending_counts::PendingCounts;

impl Owner {
    /// Counts pending messages if their counts are unknown, and from now on applies the limit of a hot minute from
    /// the options. A minute that is already hot is not reported.
    ///
    /// # Errors
    /// As [`Self::settle_counts`].
    pub(in crate::store) fn settle_at_open(&mut self) -> Result<()> {
        self.settle_counts()?;
        self.state.totals.judge_by(self.options.hot_minute_messages);
        Ok(())
    }

    /// Counts all pending messages if their counts are unknown; otherwise does nothing.
    ///
    /// # Errors
    /// The errors of reading the runs, and of the rescue of a damaged block.
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
                // Until a checkpoint has the counts, each open counts again.
                self.effects.was_counted = true;
                return Ok(());
            }
            for block in &damaged {
                self.effects.rescue(&mut self.state, block)?;
            }
        }
    }
}
