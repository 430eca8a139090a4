//! Searches entries that the certain state names but does not show: in all runs, named by a checkpoint or not, and in
//! the log.

use std::collections::{BTreeMap, BTreeSet};

use super::base::Gap;
use super::kept_messages::{Gathering, Kept, Sure, unfinished_by};
use super::payloads::each_record;
use super::runs::Runs;
use crate::error::{Error, Result};
use crate::message_log::{LOG_FOLDER, sift};
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::{DUE_MAX, Entry, EntryState, Window};
use crate::store::query::log_lookup::root_of;
use crate::store::salvage::lost_message::LostMessage;
use crate::store::state::State;
use crate::units::{DueKey, Location, ReadyNumber, Sequence, SubjectNumber};

/// The result of the search so far.
#[derive(Default)]
struct Found {
    /// The sequences that are kept, or are known to be finished.
    known: BTreeSet<Sequence>,
    /// The sequences that a run or the log shows, noted while ready numbers are searched.
    placed: BTreeSet<Sequence>,
    /// The number of messages of each subject that may be the wanted ready ones.
    perhaps: BTreeMap<SubjectNumber, u64>,
}

impl Gathering {
    /// Takes entries that the certain state names and does not show from any run, otherwise from the log. Messages in
    /// runs that the state does not know are kept as doubtful.
    ///
    /// # Errors
    /// `Storage`, `NewerFormat`.
    pub(in crate::store) fn search(&mut self, runs: &mut Runs) -> Result<()> {
        let mut found = Found { known: self.kept.iter().map(|one| one.entry.sequence()).collect(), ..Found::default() };
        let is_all_shown = self.unshown.is_empty() && self.uncounted.is_empty();
        let least = if is_all_shown { self.owner.state().schedule.next_sequence() } else { Sequence(0) };
        runs.each_entry(least, &mut |entry, number| self.take_row(entry, number, &mut found))?;
        if self.unshown.is_empty() && self.uncounted.values().all(BTreeSet::is_empty) {
            return Ok(());
        }
        let (storage, stream) = (self.storage.clone(), self.stream);
        let mut targets = BTreeMap::new();
        let holes = self.owner.state().holes.clone();
        sift(&storage, stream, &holes, &mut |find| {
            each_record(&find, &mut |record, location| {
                if let Some(moved) = decode(record).and_then(|fact| fact.as_move()) {
                    targets.insert(record.sequence, moved.target.sequence);
                }
                if let Some(entry) = entry_of(record, location) {
                    self.take_known(entry, None, &mut found);
                }
            });
        })?;
        for one in self.kept.iter_mut().filter(|one| one.entry.location() == Location::NOWHERE) {
            one.entry = one.entry.with_payload_sequence(root_of(&targets, one.entry.payload_sequence()));
        }
        self.miss(&found);
        Ok(())
    }

    fn take_row(&mut self, entry: Entry, number: Option<ReadyNumber>, found: &mut Found) {
        let sequence = entry.sequence();
        if sequence < self.owner.state().schedule.next_sequence() {
            self.take_known(entry, number, found);
        } else if let Some(entry) = self.late.followed(entry)
            && found.known.insert(entry.sequence())
        {
            self.kept.push(Kept { entry, sure: Sure::Doubtful, groups: Vec::new() });
        }
    }

    /// Takes an entry whose outcome the certain state knows, if the entry is wanted. A wanted ready message is
    /// identified by its number; without the number it is uncertain whether the entry is the wanted one.
    fn take_known(&mut self, entry: Entry, number: Option<ReadyNumber>, found: &mut Found) {
        let sequence = entry.sequence();
        if self.unshown.remove(&sequence) {
            found.known.insert(sequence);
            if let Some(entry) = self.late.followed(entry) {
                found.known.insert(entry.sequence());
                self.kept.push(Kept { entry, sure: Sure::Pending, groups: Vec::new() });
            }
            return;
        }
        if self.uncounted.is_empty() {
            return;
        }
        found.placed.insert(sequence);
        let state = self.owner.state();
        let Some(left) = self.uncounted.get_mut(&entry.subject()) else { return };
        match number {
            Some(number) => {
                let is_wanted = left.remove(&number);
                if is_wanted && let Some(groups) = unfinished_by(state, entry.subject(), number) {
                    self.kept.push(Kept { entry, sure: Sure::Ready(number), groups });
                }
                found.known.insert(sequence);
            }
            None if left.is_empty() || !may_be_ready(state, sequence) => {}
            None => {
                if found.known.insert(sequence) {
                    let count = found.perhaps.entry(entry.subject()).or_default();
                    *count = count.saturating_add(1);
                    self.kept.push(Kept { entry, sure: Sure::Doubtful, groups: Vec::new() });
                }
            }
        }
    }

    /// Adds the entries that were not found to the missing messages.
    fn miss(&mut self, found: &Found) {
        let gone = |what: &str| Error::MissingFile {
            path: LOG_FOLDER.to_owned(),
            reason: format!("neither a run nor the log has {what} any more"),
        };
        for sequence in &self.unshown {
            let error = gone("this pending message");
            self.missing.push(LostMessage { subject: String::new(), sequence: *sequence, due: None, error });
        }
        let mut is_told = true;
        for (subject, left) in &self.uncounted {
            let name = self.names.get(subject).cloned().unwrap_or_default();
            let perhaps = found.perhaps.get(subject).copied().unwrap_or_default();
            for _ in perhaps..left.len() as u64 {
                let error = gone("this ready message");
                self.missing.push(LostMessage { subject: name.clone(), sequence: Sequence(0), due: None, error });
            }
            // The messages found instead may be finished, so more messages may be lost than were counted.
            is_told = is_told && (left.is_empty() || perhaps == 0);
        }
        if !is_told {
            self.gaps = unplaced(self.owner.state(), &found.placed);
        }
    }
}

/// True unless it is known that the message never became ready.
fn may_be_ready(state: &State, sequence: Sequence) -> bool {
    match state.schedule.state(sequence) {
        EntryState::Dispatched => true,
        EntryState::Nothing => sequence < known_from(state),
        EntryState::Pending | EntryState::Cancelled => false,
    }
}

/// The sequence before which the outcomes of messages are no longer known.
fn known_from(state: &State) -> Sequence {
    state.schedule.windows().first().map_or(state.schedule.next_sequence(), Window::first)
}

/// The ranges of messages that became ready and were not found. A gap extends to the next message that was found.
fn unplaced(state: &State, placed: &BTreeSet<Sequence>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let known_from = known_from(state);
    if known_from > Sequence(1) {
        gaps.push(Gap { first: Sequence(1), count: known_from.since(Sequence(1)) });
    }
    let mut open: Option<Gap> = None;
    for sequence in state.schedule.windows().iter().flat_map(|window| window.bits().dispatched()) {
        if placed.contains(&sequence) {
            gaps.extend(open.take());
            continue;
        }
        let gap = open.get_or_insert(Gap { first: sequence, count: 0 });
        gap.count = sequence.next().since(gap.first);
    }
    gaps.extend(open);
    gaps
}

/// Returns the entry that a record makes. The payload of a retry, redrive or move is found later.
fn entry_of(record: &RawRecord<'_>, location: Location) -> Option<Entry> {
    let sequence = record.sequence;
    match decode(record)? {
        Fact::Message(message) => {
            Some(Entry::new(DueKey { due: message.due, sequence }, 1, sequence, location, message.subject))
        }
        Fact::Retry(retry) => {
            let (key, attempt) =
                (DueKey { due: retry.due, sequence }, u16::try_from(retry.attempt).unwrap_or(u16::MAX));
            Some(Entry::new(key, attempt, retry.payload_sequence, Location::NOWHERE, retry.target))
        }
        Fact::Redrive(redrive) => {
            let key = DueKey { due: redrive.due, sequence };
            Some(Entry::new(key, 1, redrive.payload_sequence, Location::NOWHERE, redrive.target))
        }
        fact => {
            let moved = fact.as_move()?;
            let key = DueKey { due: moved.due.min(DUE_MAX), sequence };
            Some(Entry::new(key, 1, moved.target.sequence, Location::NOWHERE, moved.subject))
        }
    }
}
