//! What is asked by a key: of the pending message that has it.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::limits::check_name;
use delaymq_core::record::terms::{ByKey, IfExists, KeyCommand, MessageTerms, NameHash, encode_by_key, encode_terms};
use delaymq_core::store::{Named, Outcome, Receipt, command_hash};
use delaymq_core::units::{DueKey, Millis, SubjectNumber};

use crate::inbox::Haste;
use crate::on_terms::{key_of, with_a_key};
use crate::options::Due;
use crate::rescheduling::{CancelOutcome, MoveOutcome};
use crate::store::Store;

/// A command by a key, as whoever asks it has it.
struct Asking<'a> {
    subject: &'a str,
    key: NameHash,
    command: KeyCommand,
    /// By which one that comes again is told.
    id: Option<NameHash>,
    due: Millis,
}

/// What is known when it is asked.
#[derive(Clone, Copy)]
struct Seen {
    held: Option<Named>,
    /// What the first one of its id came to.
    before: Option<Named>,
}

impl Store {
    /// Cancels the pending message that has this key. `NotFound` where none has it, whatever there was before. One with an
    /// id is answered as the first one that asked the same under it, for as long as ids are remembered.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `key` or `command_id`; `NamesFull` where no more ids are remembered, and nothing was
    /// cancelled; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn cancel_key(&self, subject: &str, key: &str, id: Option<&str>) -> Result<CancelOutcome> {
        self.shared.check()?;
        let asking = asking(subject, key, KeyCommand::Cancel, id, Haste::URGENT.earliest_due)?;
        let seen = self.see(&asking)?;
        let is_done = match seen.before {
            Some(before) => !before.is_nothing(),
            None => self.ask_by_key(&asking, seen.held)? == Some(Outcome::Done),
        };
        Ok(if is_done { CancelOutcome::Done } else { CancelOutcome::NotFound })
    }

    /// Moves the pending message that has this key to another time; it keeps the key. `NotFound`, and an id, as
    /// [`Self::cancel_key`] has them.
    ///
    /// # Errors
    /// As [`Self::cancel_key`]; `InvalidArgument` naming `due` where that is too far ahead.
    pub fn move_key(&self, subject: &str, key: &str, due: Due, id: Option<&str>) -> Result<MoveOutcome> {
        self.shared.check()?;
        let (now, from) = self.shared.now();
        let delay_ms = match due {
            Due::After(delay_ms) => Some(delay_ms),
            Due::At(_) => None,
        };
        let due = self.shared.due_time(due, now, from)?;
        let asking = asking(subject, key, KeyCommand::Move { due, delay_ms }, id, due)?;
        let mut seen = self.see(&asking)?;
        loop {
            if let Some(before) = seen.before {
                return self.moved(before, before.key);
            }
            // It is asked even where nobody has the key: what was submitted before and is not applied comes first.
            let asked = seen.held;
            match (self.ask_by_key(&asking, asked)?, asked) {
                (Some(Outcome::Moved(key)), Some(held)) => return self.moved(held, key),
                (Some(Outcome::There(key, size)), _) => {
                    return self.moved(Named { key, size, subject: self.subject_of(subject, asked) }, key);
                }
                _ => {}
            }
            // Where another one has the key since, somebody else's command was done meanwhile, so that this does
            // not go round for nothing.
            seen = self.see(&asking)?;
            let is_the_same = seen.held.map(|held| held.key) == asked.map(|held| held.key);
            if seen.before.is_none() && (is_the_same || (asking.id.is_none() && seen.held.is_none())) {
                return Ok(MoveOutcome::NotFound);
            }
        }
    }

    /// The receipt of the pending message that has this key. Reads nothing from disk.
    ///
    /// # Errors
    /// As [`Self::cancel_key`].
    pub fn look_up_key(&self, subject: &str, key: &str) -> Result<Option<Receipt>> {
        let shared = &self.shared;
        shared.check()?;
        let found = self.see(&asking(subject, key, KeyCommand::Cancel, None, Millis(0))?)?.held;
        let book = shared.receipts.get().ok_or(Error::Closed)?;
        Ok(found.and_then(|Named { key, subject, size }| book.receipt_of(key, subject, size)))
    }

    /// The pending message that has the key, and what was answered under the id. What was answered before this call
    /// is found, and nothing is waited for.
    fn see(&self, asking: &Asking<'_>) -> Result<Seen> {
        self.shared.apply_until(self.shared.positions.visible())?;
        let (now, _) = self.shared.now();
        let mut guard = self.shared.seat()?;
        let state = guard.get()?.owner.state();
        let before = asking.id.and_then(|id| state.ids.get(id, now));
        Ok(Seen { held: state.keys.get(asking.key), before })
    }

    fn subject_of(&self, subject: &str, held: Option<Named>) -> SubjectNumber {
        let known = held.map(|held| held.subject).or_else(|| self.shared.names.subject_if_known(subject));
        known.unwrap_or_default()
    }

    /// # Errors
    /// `NamesFull` where no more ids are remembered.
    fn ask_by_key(&self, asking: &Asking<'_>, held: Option<Named>) -> Result<Option<Outcome>> {
        let subject = self.subject_of(asking.subject, held);
        let target = held.map(|held| held.key);
        let mut records = Vec::new();
        if asking.id.is_some() {
            let terms = MessageTerms { place: 0, key: None, if_exists: IfExists::Replace, id: asking.id };
            encode_terms(&mut records, 1, with_a_key(self.shared.options.terms), &[terms]);
        }
        encode_by_key(&mut records, &ByKey { key: asking.key, subject, target, command: asking.command });
        let found = self.shared.command(&records, 1 + usize::from(asking.id.is_some()), asking.due)?;
        if let (Some(_), Some(Some(Outcome::IdsFull(limit)))) = (asking.id, found.first()) {
            return Err(Error::NamesFull { argument: "command_id", limit: u64::from(*limit) });
        }
        Ok(found.last().copied().flatten())
    }

    /// A message that was moved, or was not, by the first command of an id.
    fn moved(&self, from: Named, to: DueKey) -> Result<MoveOutcome> {
        if from.is_nothing() {
            return Ok(MoveOutcome::NotFound);
        }
        let book = self.shared.receipts.get().ok_or(Error::Closed)?;
        let receipt = book.receipt_of(to, from.subject, from.size);
        Ok(receipt.map_or(MoveOutcome::NotFound, MoveOutcome::Done))
    }
}

/// # Errors
/// `InvalidArgument` naming `subject`, `key` or `command_id`.
fn asking<'a>(subject: &'a str, key: &str, command: KeyCommand, id: Option<&str>, due: Millis) -> Result<Asking<'a>> {
    let of = key_of(subject, key)?;
    if let Some(id) = id {
        check_name("command_id", id)?;
    }
    let id = id.map(|id| command_hash(subject, key, command, id));
    Ok(Asking { subject, key: of, command, id, due })
}
