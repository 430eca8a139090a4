//! The store proposes the next occurrences of its series, as the engine's driver does.

use delaymq_core::error::{Error, Result};
use delaymq_core::units::Sequence;

use super::{Connected, unless_full};

/// Rounds in which all that is owed must be proposed when nothing disturbs any more.
const ROUNDS_MAX: u64 = 4_000;

impl Connected {
    /// Proposes what is owed, now and then what was proposed already.
    pub(super) fn go_on_with_series(&mut self) -> Result<()> {
        if self.has_ended() || !self.chance.percent(60) {
            return Ok(());
        }
        let is_told_twice = self.chance.percent(20);
        self.propose_occurrences(is_told_twice)
    }

    fn propose_occurrences(&mut self, is_told_twice: bool) -> Result<()> {
        let node = self.node.as_mut().ok_or(Error::Closed)?;
        let mut proposed = Vec::new();
        let result = node.propose_occurrences(64, is_told_twice, &mut proposed);
        // What was accepted before an error is in the queue all the same.
        for one in &proposed {
            self.account.occurrence_proposed(one);
        }
        unless_full(result)
    }

    /// All that is owed is proposed until nothing is: what must have come by now is then known.
    pub(super) fn catch_up_with_series(&mut self) -> Result<()> {
        let mut rounds = 0;
        while rounds == 0 || !self.is_caught_up()? {
            rounds += 1;
            if rounds > ROUNDS_MAX || !self.is_sound() {
                self.account.blame("a series owes what nobody proposes".to_owned());
                return Ok(());
            }
            self.settle()?;
            self.propose_occurrences(false)?;
            self.settle()?;
            self.node()?.step(1_000)?;
            self.settle()?;
        }
        let now = self.node()?.reading().now;
        self.account.series_rested(now);
        Ok(())
    }

    /// Each series has one that waits for a time to come.
    fn is_caught_up(&mut self) -> Result<bool> {
        let node = self.node()?;
        let now = node.reading().now;
        let mut all = node.owner().state().recurring.after(Sequence(0));
        Ok(all.all(|(_, series)| series.pending.is_some_and(|key| key.due > now)))
    }

    /// Every series ends, also one whose user is told so late that it begins only now.
    pub(super) fn end_all_series(&mut self) -> Result<()> {
        for index in 0..self.clients.len() {
            let Some(client) = self.clients.get(index) else { continue };
            let (subject, name) = (client.subject.clone(), client.series.clone());
            if self.node()?.series_named(&subject, &name).is_some() {
                unless_full(self.node()?.end_series(&subject, &name))?;
            }
        }
        self.settle()
    }
}
