//! Loads that wait until the copies have their files. The node sends the files, and says when that is done. Only then is the fact of
//! a load written: a copy takes no fact whose files it lacks, so it would not take what is published behind it either.

use delaymq_core::error::Result;
use delaymq_core::run::StagedRun;

use crate::copies::state::{Copies, CopyCount};
use crate::copies::waiting_loads::LoadOffer;
use crate::shared::Shared;
use crate::store::Store;

impl Shared {
    /// Waits until the copies have these files.
    ///
    /// # Errors
    /// `NotEnoughCopies` if a copy does not get them, `NotPrimary`, `Closed`, `Poisoned`: nothing was loaded.
    pub(crate) fn hold_on_copies(&self, runs: &[StagedRun]) -> Result<()> {
        let Some(Copies { loads, .. }) = &self.copies else { return Ok(()) };
        let waiting = loads.begin(runs);
        loop {
            self.check()?;
            self.check_intake()?;
            if let Some(answer) = waiting.wait() {
                return answer;
            }
        }
    }
}

impl Store {
    /// The loads that wait until the copies have their files. Empty for a store alone.
    pub fn load_offers(&self) -> Vec<LoadOffer> {
        self.shared.copies.as_ref().map_or_else(Vec::new, |copies| copies.loads.offers())
    }

    /// All copies that must have the files of this load have them, durably.
    pub fn load_is_held(&self, number: u64) {
        self.answer_load(number, Ok(()));
    }

    /// So many copies have the files of this load, and more must have them. Nothing is loaded.
    pub fn refuse_load(&self, number: u64, count: CopyCount) {
        self.answer_load(number, Err(count.refusal(false)));
    }

    fn answer_load(&self, number: u64, answer: Result<()>) {
        if let Some(copies) = &self.shared.copies {
            copies.loads.answer(number, answer);
        }
    }
}
