//! Commands by key: cancel, move and look up pending messages by the keys of a subject.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::limits::check_name;
use delaymq_core::record::terms::{
    ByKey, IfExists, KeyCommand, MessageTerms, NameHash, TERMS_ROW_BYTES, encode_by_key, encode_terms,
};
use delaymq_core::store::{Named, Outcome, Receipt, command_hash};
use delaymq_core::units::{DueKey, Millis, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::invalid;
use crate::options::Due;
use crate::publish::rescheduling::{CancelOutcome, MoveOutcome};
use crate::publish::terms::{key_of, with_a_key};
use crate::store::Store;

/// The bytes that one command takes in the log, with its row of terms.
const COMMAND_BYTES: usize = 72 + TERMS_ROW_BYTES;
/// Bytes of terms before their rows.
const TERMS_BYTES: usize = 40;
/// Keys that are looked up before the owner lock is released for others.
const LOOK_UPS_AT_ONCE: usize = 1_000;

/// A command by one key.
#[derive(Clone, Copy)]
struct Row {
    key: NameHash,
    command: KeyCommand,
    /// The id by which a repetition is recognised.
    id: Option<NameHash>,
}

/// Commands by keys of one subject, as a caller asks for them.
struct Asked {
    /// One for each key.
    rows: Vec<Row>,
    /// The row of each key in the caller's list, in its order.
    places: Vec<usize>,
}

/// The result of a look-up by key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookedUpKey {
    /// The message that has this receipt is pending, and has the key.
    Pending(Receipt),
    /// The last message with the key became ready lately. It has this receipt.
    Dispatched(Receipt),
    /// No message is pending under the key, and none is remembered as dispatched.
    NotFound,
}

/// What is known when a command is submitted.
#[derive(Clone, Copy)]
struct Seen {
    held: Option<Named>,
    /// The message that became ready under the key, if none has the key since.
    dispatched: Option<Named>,
    /// The result of the first command of its id.
    before: Option<Named>,
}

/// A command without a result yet: its place among the rows, and what was seen last.
#[derive(Clone, Copy)]
struct Open {
    place: usize,
    row: Row,
    seen: Seen,
}

impl Store {
    /// Cancels the pending message that has this key. If none has it, the outcome is `AlreadyDispatched` if the last one
    /// became ready lately, and `NotFound` otherwise. A command with an id has the result of the first command with that
    /// id. Keys of dispatched messages are remembered for as long as ids are.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `key` or `command_id`; `NamesFull` if no more ids can be remembered, and
    /// nothing was cancelled; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn cancel_key(&self, subject: &str, key: &str, id: Option<&str>) -> Result<CancelOutcome> {
        let outcomes = self.cancel_keys(subject, &[key], id)?;
        Ok(outcomes.first().copied().unwrap_or(CancelOutcome::NotFound))
    }

    /// Cancels the pending messages of a subject that have these keys. The outcomes are in their order, each as of
    /// [`Self::cancel_key`]. As many as fit take one batch of facts and one wait. A key that occurs twice is asked
    /// once, and has one outcome.
    ///
    /// # Errors
    /// As [`Self::cancel_key`], before any was cancelled; `NamesFull` before any of the same batch was.
    pub fn cancel_keys<K: AsRef<str>>(
        &self,
        subject: &str,
        keys: &[K],
        id: Option<&str>,
    ) -> Result<Vec<CancelOutcome>> {
        self.shared.check()?;
        self.shared.check_intake()?;
        let commands = keys.iter().map(|key| (key.as_ref(), KeyCommand::Cancel));
        let asked = Asked::of(subject, commands, id)?;
        let mut outcomes = vec![CancelOutcome::NotFound; asked.rows.len()];
        for mut open in self.opened(&asked) {
            self.see(&mut open)?;
            for one in open.iter().filter_map(|one| Some((one.place, one.seen.before?))) {
                put(&mut outcomes, one.0, cancelled_before(one.1));
            }
            open.retain(|one| one.seen.before.is_none());
            let found = self.ask_by_keys(subject, &open, CommitUrgency::URGENT.earliest_due)?;
            for (one, found) in open.iter().zip(found) {
                put(&mut outcomes, one.place, cancelled(found));
            }
        }
        Ok(asked.told(&outcomes).collect())
    }

    /// Moves the pending message that has this key to another time. It keeps the key. The other outcomes and ids are as
    /// in [`Self::cancel_key`].
    ///
    /// # Errors
    /// As [`Self::cancel_key`]; `InvalidArgument` naming `due` if that is too far ahead.
    pub fn move_key(&self, subject: &str, key: &str, due: Due, id: Option<&str>) -> Result<MoveOutcome> {
        let outcomes = self.move_keys(subject, &[(key, due)], id)?;
        Ok(outcomes.first().copied().unwrap_or(MoveOutcome::NotFound))
    }

    /// Moves the pending messages of a subject that have these keys to other times. The outcomes are in their order,
    /// each as of [`Self::move_key`]. As many as fit take one batch of facts and one wait. If a key got another message
    /// meanwhile, its command is tried again. Delays count from this call. A key that occurs twice is asked once, and
    /// has one outcome.
    ///
    /// # Errors
    /// As [`Self::move_key`], before any was moved, and `InvalidArgument` naming `key` if one occurs with two times;
    /// `NamesFull` before any of the same batch was moved.
    pub fn move_keys<K: AsRef<str>>(
        &self,
        subject: &str,
        moves: &[(K, Due)],
        id: Option<&str>,
    ) -> Result<Vec<MoveOutcome>> {
        self.shared.check()?;
        self.shared.check_intake()?;
        let (now, from) = self.shared.now();
        let mut earliest_due = now;
        let mut commands = Vec::with_capacity(moves.len());
        for (place, (key, due)) in moves.iter().enumerate() {
            let delay_ms = match due {
                Due::After(delay_ms) => Some(*delay_ms),
                Due::At(_) => None,
            };
            let due = self.shared.due_time(*due, now, from)?;
            earliest_due = if place == 0 { due } else { earliest_due.min(due) };
            commands.push((key.as_ref(), KeyCommand::Move { due, delay_ms }));
        }
        let asked = Asked::of(subject, commands.into_iter(), id)?;
        let mut outcomes = vec![MoveOutcome::NotFound; asked.rows.len()];
        for mut open in self.opened(&asked) {
            self.see(&mut open)?;
            loop {
                open = self.unanswered_before(open, &mut outcomes)?;
                if open.is_empty() {
                    break;
                }
                open = self.ask_moves(subject, &open, earliest_due, &mut outcomes)?;
            }
        }
        Ok(asked.told(&outcomes).collect())
    }

    /// The pending message that has this key, or the one that had it last, if that became ready lately. Reads nothing
    /// from the disk.
    ///
    /// # Errors
    /// As [`Self::cancel_key`].
    pub fn look_up_key(&self, subject: &str, key: &str) -> Result<LookedUpKey> {
        let shared = &self.shared;
        shared.check()?;
        let row = Row { key: key_of(subject, key)?, command: KeyCommand::Cancel, id: None };
        let mut open = [Open::new(0, row)];
        self.see(&mut open)?;
        let book = shared.receipts.get().ok_or(Error::Closed)?;
        let receipt_of = |Named { key, subject, size }| book.receipt_of(key, subject, size);
        let [Open { seen: Seen { held, dispatched, .. }, .. }] = open;
        let found = held.and_then(receipt_of).map(LookedUpKey::Pending);
        let found = found.or_else(|| dispatched.and_then(receipt_of).map(LookedUpKey::Dispatched));
        Ok(found.unwrap_or(LookedUpKey::NotFound))
    }

    /// The rows, in portions that are submitted together.
    fn opened(&self, asked: &Asked) -> Vec<Vec<Open>> {
        let room = self.shared.submission_bytes_max().saturating_sub(TERMS_BYTES);
        let open: Vec<Open> = asked.rows.iter().enumerate().map(|(place, row)| Open::new(place, *row)).collect();
        open.chunks((room / COMMAND_BYTES).max(1)).map(<[Open]>::to_vec).collect()
    }

    /// Finds the messages that have or had the keys, and the results of the ids, as of all commands that were answered
    /// before this call. Waits for nothing.
    fn see(&self, open: &mut [Open]) -> Result<()> {
        self.shared.apply_until(self.shared.positions.visible())?;
        let (now, _) = self.shared.now();
        for part in open.chunks_mut(LOOK_UPS_AT_ONCE) {
            let mut guard = self.shared.lock_owner()?;
            let state = guard.get()?.owner.state();
            // A command is judged by the time of the log.
            let now = now.max(state.position.trusted);
            for one in part {
                let before = one.row.id.and_then(|id| state.ids.get(id, now));
                let dispatched = state.dispatched_keys.get(one.row.key, now);
                one.seen = Seen { held: state.keys.get(one.row.key), dispatched, before };
            }
        }
        Ok(())
    }

    fn subject_of(&self, subject: &str, held: Option<Named>) -> SubjectNumber {
        let known = held.map(|held| held.subject).or_else(|| self.shared.names.subject_if_known(subject));
        known.unwrap_or_default()
    }

    /// Submits these commands together, and waits for their outcomes.
    /// Fails with `NamesFull` if no more ids can be remembered.
    fn ask_by_keys(&self, subject: &str, open: &[Open], earliest_due: Millis) -> Result<Vec<Option<Outcome>>> {
        let mut records = Vec::with_capacity(TERMS_BYTES + open.len().saturating_mul(COMMAND_BYTES));
        let has_ids = open.first().is_some_and(|one| one.row.id.is_some());
        if has_ids {
            let terms = |(place, one): (u32, &Open)| MessageTerms {
                place,
                key: None,
                if_exists: IfExists::Replace,
                id: one.row.id,
            };
            let rows: Vec<MessageTerms> = (0..).zip(open).map(terms).collect();
            let count = u32::try_from(rows.len()).unwrap_or(u32::MAX);
            encode_terms(&mut records, count, with_a_key(self.shared.options.terms), &rows);
        }
        for Open { row: Row { key, command, .. }, seen, .. } in open {
            let (subject, target) = (self.subject_of(subject, seen.held), seen.held.map(|held| held.key));
            encode_by_key(&mut records, &ByKey { key: *key, subject, target, command: *command });
        }
        let ahead = usize::from(has_ids);
        let submission = submission(&records, open.len().saturating_add(ahead), Class::Finishing);
        let urgency = CommitUrgency { earliest_due, ..CommitUrgency::URGENT };
        let mut found = self.shared.ask_to_keep(submission, urgency)?;
        let terms = if has_ids { found.first().copied().flatten() } else { None };
        if let Some(Outcome::IdsFull(limit)) = terms {
            return Err(Error::NamesFull { argument: "command_id", limit: u64::from(limit) });
        }
        Ok(found.split_off(ahead.min(found.len())))
    }

    /// Sets the results of ids that were used before, and returns the other commands.
    fn unanswered_before(&self, open: Vec<Open>, outcomes: &mut [MoveOutcome]) -> Result<Vec<Open>> {
        let mut unanswered = Vec::with_capacity(open.len());
        for one in open {
            match one.seen.before {
                Some(before) => put(outcomes, one.place, self.moved(before, before.key)?),
                None => unanswered.push(one),
            }
        }
        Ok(unanswered)
    }

    /// Submits moves, and returns those that must be tried again.
    fn ask_moves(
        &self,
        subject: &str,
        open: &[Open],
        earliest_due: Millis,
        outcomes: &mut [MoveOutcome],
    ) -> Result<Vec<Open>> {
        // It is submitted even if no message has the key: facts that are submitted and not yet applied come first.
        let found = self.ask_by_keys(subject, open, earliest_due)?;
        let mut again = Vec::new();
        for (one, found) in open.iter().zip(found) {
            let held = one.seen.held;
            match (found, held) {
                (Some(Outcome::Moved(key)), Some(held)) => put(outcomes, one.place, self.moved(held, key)?),
                (Some(Outcome::There(key, size)), _) => {
                    let named = Named { key, size, subject: self.subject_of(subject, held) };
                    put(outcomes, one.place, self.moved(named, key)?);
                }
                (Some(Outcome::AlreadyDispatched), _) => put(outcomes, one.place, MoveOutcome::AlreadyDispatched),
                _ => again.push(*one),
            }
        }
        if again.is_empty() {
            return Ok(again);
        }
        let asked: Vec<Option<DueKey>> = again.iter().map(|one| one.seen.held.map(|held| held.key)).collect();
        self.see(&mut again)?;
        // If another message has the key since, another command has succeeded meanwhile. So each round makes progress.
        let is_open = |(one, asked): (Open, Option<DueKey>)| {
            let Seen { held, dispatched, before } = one.seen;
            let is_the_same = held.map(|held| held.key) == asked;
            // If a message became ready meanwhile, the command is judged again.
            let is_nothing = held.is_none() && dispatched.is_none();
            let is_over = is_nothing && one.row.id.is_none() || is_the_same && (is_nothing || held.is_some());
            (before.is_some() || !is_over).then_some(one)
        };
        Ok(again.into_iter().zip(asked).filter_map(is_open).collect())
    }

    /// The result of the first command of an id, which moved a message or did not.
    fn moved(&self, from: Named, to: DueKey) -> Result<MoveOutcome> {
        if from.is_nothing() {
            return Ok(MoveOutcome::NotFound);
        }
        if from.is_dispatched() {
            return Ok(MoveOutcome::AlreadyDispatched);
        }
        let book = self.shared.receipts.get().ok_or(Error::Closed)?;
        let receipt = book.receipt_of(to, from.subject, from.size);
        Ok(receipt.map_or(MoveOutcome::NotFound, MoveOutcome::Done))
    }
}

impl Open {
    fn new(place: usize, row: Row) -> Self {
        Self { place, row, seen: Seen { held: None, dispatched: None, before: None } }
    }
}

impl Asked {
    /// Fails with `InvalidArgument` naming `subject`, `key` or `command_id`.
    fn of<'k>(
        subject: &str,
        commands: impl ExactSizeIterator<Item = (&'k str, KeyCommand)>,
        id: Option<&str>,
    ) -> Result<Self> {
        check_name("subject", subject)?;
        if let Some(id) = id {
            check_name("command_id", id)?;
        }
        let (mut rows, mut places): (Vec<Row>, _) = (Vec::new(), Vec::with_capacity(commands.len()));
        let mut known = HashMap::with_capacity(commands.len());
        for (text, command) in commands {
            let key = key_of(subject, text)?;
            match known.entry(key) {
                Entry::Vacant(free) => {
                    places.push(rows.len());
                    free.insert((rows.len(), command));
                    rows.push(Row { key, command, id: id.map(|id| command_hash(subject, text, command, id)) });
                }
                Entry::Occupied(known) if known.get().1 == command => places.push(known.get().0),
                Entry::Occupied(_) => {
                    return Err(invalid("key", "no key twice with two times", text));
                }
            }
        }
        Ok(Self { rows, places })
    }

    /// The result of each key in the caller's list, from the results of the rows.
    fn told<T: Copy>(&self, of_rows: &[T]) -> impl Iterator<Item = T> {
        self.places.iter().filter_map(|place| of_rows.get(*place).copied())
    }
}

fn cancelled(found: Option<Outcome>) -> CancelOutcome {
    match found {
        Some(Outcome::Done) => CancelOutcome::Done,
        Some(Outcome::AlreadyDispatched) => CancelOutcome::AlreadyDispatched,
        _ => CancelOutcome::NotFound,
    }
}

/// The result of the first cancel of an id.
fn cancelled_before(before: Named) -> CancelOutcome {
    match before {
        before if before.is_nothing() => CancelOutcome::NotFound,
        before if before.is_dispatched() => CancelOutcome::AlreadyDispatched,
        _ => CancelOutcome::Done,
    }
}

fn put<T>(all: &mut [T], place: usize, one: T) {
    if let Some(there) = all.get_mut(place) {
        *there = one;
    }
}
