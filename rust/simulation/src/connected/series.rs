//! Proposals of the next occurrences of series, which the engine's driver makes.

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Sequence;

use super::Connected;
use crate::node::unless_full;

/// Rounds in which all due occurrences must be proposed once the troubles are over.
const ROUNDS_MAX: u64 = 4_000;

impl Connected {
    /// Proposes the occurrences that are due, sometimes also those that were proposed already.
    pub(super) fn go_on_with_series(&mut self) -> Result<()> {
        if self.has_ended() || !self.shared.chance.percent(60) {
            return Ok(());
        }
        let is_told_twice = self.shared.chance.percent(20);
        self.propose_occurrences(is_told_twice)
    }

    fn propose_occurrences(&mut self, is_told_twice: bool) -> Result<()> {
        let node = self.node.as_mut().ok_or(Error::Closed)?;
        let mut proposed = Vec::new();
        let result = node.propose_occurrences(64, is_told_twice, &mut proposed);
        // Occurrences that were accepted before an error are in the queue.
        for one in &proposed {
            self.shared.account.occurrence_proposed(one);
        }
        unless_full(result)
    }

    /// Proposes until nothing is due any more. The occurrences that must have come by now are then known.
    pub(super) fn catch_up_with_series(&mut self) -> Result<()> {
        let mut rounds = 0;
        while rounds == 0 || !self.is_caught_up()? {
            rounds += 1;
            if rounds > ROUNDS_MAX || !self.is_sound() {
                self.shared.account.blame("a series owes what nobody proposes".to_owned());
                return Ok(());
            }
            self.settle()?;
            self.propose_occurrences(false)?;
            self.settle()?;
            self.node()?.step(1_000)?;
            self.settle()?;
        }
        let now = self.node()?.reading().now;
        self.shared.account.series_rested(now);
        Ok(())
    }

    /// True if each series has an occurrence that waits for a time to come.
    fn is_caught_up(&mut self) -> Result<bool> {
        let node = self.node()?;
        let now = node.reading().now;
        let mut all = node.owner().state().recurring.after(Sequence(0));
        Ok(all.all(|(_, series)| series.pending.is_some_and(|key| key.due > now)))
    }

    /// Ends every series, also one that begins only now because its user was answered so late.
    pub(super) fn end_all_series(&mut self) -> Result<()> {
        for (subject, name) in self.plan.series() {
            if self.node()?.series_named(&subject, &name).is_some() {
                unless_full(self.node()?.end_series(&subject, &name))?;
            }
        }
        self.settle()
    }
}
