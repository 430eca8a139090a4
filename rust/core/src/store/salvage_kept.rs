//! Which messages of a damaged store are kept: what is certainly unfinished, and what nobody can
//! say of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::owner::Owner;
use super::rescue_ready::rescue_ready;
use super::salvage::LostMessage;
use super::salvage_late::Late;
use super::salvage_payloads::{each_record, each_row, readable_runs};
use super::state::State;
use crate::dispatch_log::{Posting, read_postings};
use crate::error::{Error, Result};
use crate::message_log::{LOG_FOLDER, Stream, sift};
use crate::record::{Fact, RawRecord, decode};
use crate::run::{DispatchRow, RunKind, ScheduleRow};
use crate::schedule_log::{Entry, EntryState};
use crate::storage::Storage;
use crate::units::{DueKey, GroupNumber, Location, ReadyNumber, Sequence, SubjectNumber};

/// What is known of a message that is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Sure {
    /// It is ready, under this number, and not finished.
    Ready(ReadyNumber),
    /// It waits for its time.
    Pending,
    /// It may be finished or cancelled.
    Doubtful,
}

/// A message that is kept.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) sure: Sure,
    /// The groups that have not finished it; empty: all of its subject.
    pub(super) groups: Vec<GroupNumber>,
}

impl Kept {
    /// Ready ones first, by number; then the rest as they are due.
    pub(super) fn order(&self) -> (bool, SubjectNumber, ReadyNumber, DueKey) {
        match self.sure {
            Sure::Ready(number) => (false, self.entry.subject(), number, self.entry.key()),
            Sure::Pending | Sure::Doubtful => (true, SubjectNumber(0), ReadyNumber(0), self.entry.key()),
        }
    }
}

/// The unfinished ready messages of a subject, and the numbers whose rows cannot be read.
type ReadyFound = (Vec<(ReadyNumber, Entry)>, Vec<ReadyNumber>);

/// Gathers them.
pub(super) struct Gathering {
    storage: Arc<dyn Storage>,
    stream: Stream,
    pub(super) owner: Owner,
    pub(super) late: Late,
    pub(super) names: BTreeMap<SubjectNumber, String>,
    pub(super) kept: Vec<Kept>,
    /// Messages of which not even the entry is found.
    pub(super) missing: Vec<LostMessage>,
    pub(super) damage: Vec<Error>,
    /// Pending sequences whose entries no run shows.
    unshown: BTreeSet<Sequence>,
    /// Subjects of which ready numbers cannot be told any more, with how many.
    uncounted: BTreeMap<SubjectNumber, u64>,
}

impl Gathering {
    pub(super) fn new(
        storage: &Arc<dyn Storage>,
        stream: Stream,
        owner: Owner,
        late: Late,
        damage: Vec<Error>,
    ) -> Self {
        let mut names = late.names.clone();
        names.extend(owner.state().subjects.iter().map(|(number, subject)| (number, subject.name.clone())));
        Self {
            storage: Arc::clone(storage),
            stream,
            owner,
            late,
            names,
            kept: Vec::new(),
            missing: Vec::new(),
            damage,
            unshown: BTreeSet::new(),
            uncounted: BTreeMap::new(),
        }
    }

    /// Gathers everything. Where nothing is certain, what the runs hold is kept as well.
    ///
    /// # Errors
    /// `Storage`, `NewerFormat`.
    pub(super) fn gather(&mut self, is_blind: bool) -> Result<()> {
        self.pending();
        self.ready()?;
        self.late();
        if is_blind {
            self.rows_of_runs()?;
        }
        self.search_log()?;
        for one in &self.kept {
            let number = one.entry.subject();
            self.names.entry(number).or_insert_with(|| format!("salvaged.{number}"));
        }
        Ok(())
    }

    fn pending(&mut self) {
        let schedule = &self.owner.state().schedule;
        let (late, kept, damage) = (&self.late, &mut self.kept, &mut self.damage);
        let mut shown = BTreeSet::new();
        schedule.each_pending(
            &mut |entry| {
                shown.insert(entry.sequence());
                if !late.cancelled.contains(&entry.sequence()) {
                    kept.push(Kept { entry: *entry, sure: Sure::Pending, groups: Vec::new() });
                }
            },
            &mut |block| damage.push(block.error),
        );
        if (shown.len() as u64) < schedule.pending() {
            let all = schedule.windows().iter().filter(|window| window.pending() > 0);
            let all = all.flat_map(|window| window.bits().pending());
            let unshown = all.filter(|sequence| !shown.contains(sequence) && !late.cancelled.contains(sequence));
            self.unshown = unshown.collect();
        }
    }

    fn ready(&mut self) -> Result<()> {
        let subjects: Vec<SubjectNumber> = self.owner.state().subjects.iter().map(|(number, _)| number).collect();
        for subject in subjects {
            let (found, unread) = self.ready_of(subject)?;
            let again = if unread.is_empty() {
                Vec::new()
            } else {
                rescue_ready(&self.storage, &mut self.owner.state, subject, &unread, &found)?
            };
            if again.len() < unread.len() {
                self.uncounted.insert(subject, unread.len().saturating_sub(again.len()) as u64);
            }
            for (number, entry) in found.into_iter().chain(again) {
                if let Some(groups) = unfinished_by(self.owner.state(), subject, number) {
                    self.kept.push(Kept { entry, sure: Sure::Ready(number), groups });
                }
            }
        }
        Ok(())
    }

    fn ready_of(&mut self, subject: SubjectNumber) -> Result<ReadyFound> {
        let state = self.owner.state();
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        let mut number = state.dispatch.finished_below(subject);
        while number < state.dispatch.next_number(subject) {
            let mut step = 1;
            match state.dispatch.posting(subject, number) {
                Posting::Entry(entry) => found.push((number, entry)),
                Posting::Gone => unread.push(number),
                Posting::InRun { run, count } => {
                    step = count.max(1);
                    let read = read_postings(&run, subject, number, step)?;
                    found.extend(read.entries);
                    unread.extend(read.damaged);
                    self.damage.extend(read.error);
                }
            }
            number = number.plus(step);
        }
        unread.retain(|number| unfinished_by(state, subject, *number).is_some());
        Ok((found, unread))
    }

    fn late(&mut self) {
        for (sequence, entry) in &self.late.messages {
            if !self.late.cancelled.contains(sequence) {
                self.kept.push(Kept { entry: *entry, sure: Sure::Doubtful, groups: Vec::new() });
            }
        }
    }

    /// Without anything certain, what stands in any run may be unfinished.
    fn rows_of_runs(&mut self) -> Result<()> {
        let mut known: BTreeSet<Sequence> = self.late.messages.keys().copied().collect();
        let mut rows = Vec::new();
        let (runs, mut damage) = readable_runs(self.storage.as_ref(), self.stream)?;
        let mut damaged = |error| damage.push(error);
        for run in runs.iter().filter(|run| run.kind() == RunKind::Schedule) {
            let mut take = |row: &ScheduleRow| {
                rows.push(Entry::new(row.key, row.attempt, row.payload_sequence, row.location, row.subject));
            };
            each_row(run, &mut take, &mut damaged);
        }
        for run in runs.iter().filter(|run| run.kind() == RunKind::Dispatch) {
            let mut take = |row: &DispatchRow| {
                let key = DueKey { due: row.due, sequence: row.sequence };
                rows.push(Entry::new(key, row.attempt, row.payload_sequence, row.location, row.subject));
            };
            each_row(run, &mut take, &mut damaged);
        }
        self.damage.append(&mut damage);
        for entry in rows {
            if known.insert(entry.sequence()) && !self.late.cancelled.contains(&entry.sequence()) {
                self.kept.push(Kept { entry, sure: Sure::Doubtful, groups: Vec::new() });
            }
        }
        Ok(())
    }

    /// What the runs do not show any more comes from the log, as far as that has it.
    fn search_log(&mut self) -> Result<()> {
        if self.unshown.is_empty() && self.uncounted.is_empty() {
            return Ok(());
        }
        let known: BTreeSet<Sequence> = self.kept.iter().map(|one| one.entry.sequence()).collect();
        let state = self.owner.state();
        let (unshown, uncounted, kept) = (&mut self.unshown, &mut self.uncounted, &mut self.kept);
        sift(&self.storage, self.stream, &mut |find| {
            each_record(&find, &mut |record, location| {
                let sequence = record.sequence;
                let Some(entry) = entry_of(record, location) else { return };
                if unshown.remove(&sequence) {
                    kept.push(Kept { entry, sure: Sure::Pending, groups: Vec::new() });
                } else if state.schedule.state(sequence) == EntryState::Dispatched
                    && let Some(left) = uncounted.get_mut(&entry.subject())
                    && !known.contains(&sequence)
                {
                    *left = left.saturating_sub(1);
                    kept.push(Kept { entry, sure: Sure::Doubtful, groups: Vec::new() });
                }
            });
        })?;
        let gone = |what: &str| Error::MissingFile {
            path: LOG_FOLDER.to_owned(),
            reason: format!("neither a run nor the log has {what} any more"),
        };
        for sequence in &self.unshown {
            let error = gone("this pending message");
            self.missing.push(LostMessage { subject: String::new(), sequence: *sequence, due: None, error });
        }
        for (subject, left) in &self.uncounted {
            let name = self.names.get(subject).cloned().unwrap_or_default();
            for _ in 0..*left {
                let error = gone("this ready message");
                self.missing.push(LostMessage { subject: name.clone(), sequence: Sequence(0), due: None, error });
            }
        }
        Ok(())
    }
}

/// The entry that a record makes. Where that of a retry or redrive has its payload is found later.
fn entry_of(record: &RawRecord<'_>, location: Location) -> Option<Entry> {
    let sequence = record.sequence;
    match decode(record)? {
        Fact::Message(message) => {
            Some(Entry::new(DueKey { due: message.due, sequence }, 1, sequence, location, message.subject))
        }
        Fact::Retry(retry) => {
            let (key, attempt) =
                (DueKey { due: retry.due, sequence }, u16::try_from(retry.attempt).unwrap_or(u16::MAX));
            Some(Entry::new(key, attempt, retry.payload_sequence?, Location::NOWHERE, retry.target))
        }
        Fact::Redrive(redrive) => {
            let key = DueKey { due: redrive.due, sequence };
            Some(Entry::new(key, 1, redrive.payload_sequence, Location::NOWHERE, redrive.target))
        }
        _ => None,
    }
}

/// The groups that have not finished a ready message, empty where all of the subject have not;
/// `None` where it is finished.
fn unfinished_by(state: &State, subject: SubjectNumber, number: ReadyNumber) -> Option<Vec<GroupNumber>> {
    let entry = state.subjects.get(subject)?;
    if entry.gone.contains(number.0) {
        return None;
    }
    let has_not = |group: &GroupNumber| state.groups.get(group).is_some_and(|group| !group.done.contains(number.0));
    let groups: Vec<GroupNumber> = entry.groups.iter().copied().filter(has_not).collect();
    match (groups.len(), entry.groups.len()) {
        (0, 0) => Some(Vec::new()),
        (0, _) => None,
        (some, all) if some == all => Some(Vec::new()),
        _ => Some(groups),
    }
}
