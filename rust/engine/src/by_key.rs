//! What is asked by a key: of the pending message that has it.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::terms::{ByKey, KeyCommand, NameHash, encode_by_key};
use delaymq_core::store::{Named, Outcome, Receipt, SIZE_UNKNOWN};
use delaymq_core::units::Millis;

use crate::inbox::Haste;
use crate::on_terms::key_of;
use crate::options::Due;
use crate::rescheduling::{CancelOutcome, MoveOutcome};
use crate::store::Store;

impl Store {
    /// Cancels the pending message that has this key. `NotFound` where none has it, whatever there was before.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `key`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn cancel_key(&self, subject: &str, key: &str) -> Result<CancelOutcome> {
        self.shared.check()?;
        let key = key_of(subject, key)?;
        let held = self.holder(key)?;
        let asked = self.asked(subject, key, held, KeyCommand::Cancel);
        let found = self.ask_by_key(&asked, Haste::URGENT.earliest_due)?;
        Ok(if found == Some(Outcome::Done) { CancelOutcome::Done } else { CancelOutcome::NotFound })
    }

    /// Moves the pending message that has this key to another time; it keeps the key. `NotFound` as
    /// [`Self::cancel_key`] has it.
    ///
    /// # Errors
    /// As [`Self::cancel_key`]; `InvalidArgument` naming `due` where that is too far ahead.
    pub fn move_key(&self, subject: &str, key: &str, due: Due) -> Result<MoveOutcome> {
        self.shared.check()?;
        let (now, from) = self.shared.now();
        let delay_ms = match due {
            Due::After(delay_ms) => Some(delay_ms),
            Due::At(_) => None,
        };
        let due = self.shared.due_time(due, now, from)?;
        let key = key_of(subject, key)?;
        let mut held = self.holder(key)?;
        loop {
            // It is asked even where nobody has the key: what was submitted before and is not applied comes first.
            let asked = self.asked(subject, key, held, KeyCommand::Move { due, delay_ms });
            if let Some(Outcome::Moved(key)) = self.ask_by_key(&asked, due)? {
                let book = self.shared.receipts.get().ok_or(Error::Closed)?;
                let receipt = book.receipt_of(key, asked.subject, held.map_or(SIZE_UNKNOWN, |held| held.size));
                return Ok(receipt.map_or(MoveOutcome::NotFound, MoveOutcome::Done));
            }
            // Where another one has the key since, somebody else's command was done meanwhile, so that this does
            // not go round for nothing.
            let since = self.holder(key)?;
            if since.is_none_or(|since| Some(since.key) == asked.target) {
                return Ok(MoveOutcome::NotFound);
            }
            held = since;
        }
    }

    /// The receipt of the pending message that has this key. Reads nothing from disk.
    ///
    /// # Errors
    /// As [`Self::cancel_key`].
    pub fn look_up_key(&self, subject: &str, key: &str) -> Result<Option<Receipt>> {
        let shared = &self.shared;
        shared.check()?;
        let found = self.holder(key_of(subject, key)?)?;
        let book = shared.receipts.get().ok_or(Error::Closed)?;
        Ok(found.and_then(|Named { key, subject, size }| book.receipt_of(key, subject, size)))
    }

    /// The pending message that has this key. What was answered before this call is found, and nothing is waited for.
    fn holder(&self, key: NameHash) -> Result<Option<Named>> {
        self.shared.apply_until(self.shared.positions.visible())?;
        Ok(self.shared.seat()?.get()?.owner.state().keys.get(key))
    }

    fn asked(&self, subject: &str, key: NameHash, held: Option<Named>, command: KeyCommand) -> ByKey {
        let known = held.map(|held| held.subject).or_else(|| self.shared.names.subject_if_known(subject));
        ByKey { key, subject: known.unwrap_or_default(), target: held.map(|held| held.key), command }
    }

    fn ask_by_key(&self, asked: &ByKey, due: Millis) -> Result<Option<Outcome>> {
        let mut records = Vec::new();
        encode_by_key(&mut records, asked);
        Ok(self.shared.command(&records, 1, due)?.first().copied().flatten())
    }
}
