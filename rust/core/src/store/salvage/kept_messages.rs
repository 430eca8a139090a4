//! Decides which messages of a damaged store are kept: all messages that are certainly unfinished or may be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::base::Gap;
use super::late_facts::Late;
use super::runs::Runs;
use crate::dispatch_log::{Posting, read_postings};
use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::store::owner::Owner;
use crate::store::recovery::ready_rescue::rescue_ready;
use crate::store::salvage::lost_message::LostMessage;
use crate::store::state::State;
use crate::units::{DueKey, GroupNumber, ReadyNumber, Sequence, SubjectNumber};

/// What is known of a kept message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::store) enum Sure {
    /// The message is ready, with this number, and not finished.
    Ready(ReadyNumber),
    /// The message is not yet due.
    Pending,
    /// The message may be finished or cancelled.
    Doubtful,
}

/// A kept message.
#[derive(Clone, Debug)]
pub(in crate::store) struct Kept {
    pub(in crate::store) entry: Entry,
    pub(super) sure: Sure,
    /// The groups that have not finished it; empty if these are all groups of its subject.
    pub(in crate::store) groups: Vec<GroupNumber>,
}

impl Kept {
    /// The order of kept messages: ready ones first, by number; then the others by due time.
    pub(in crate::store) fn order(&self) -> (bool, SubjectNumber, ReadyNumber, DueKey) {
        match self.sure {
            Sure::Ready(number) => (false, self.entry.subject(), number, self.entry.key()),
            Sure::Pending | Sure::Doubtful => (true, SubjectNumber(0), ReadyNumber(0), self.entry.key()),
        }
    }
}

/// The unfinished ready messages of a subject, and the numbers whose rows cannot be read.
type ReadyFound = (Vec<(ReadyNumber, Entry)>, Vec<ReadyNumber>);

/// Gathers the kept messages.
pub(in crate::store) struct Gathering {
    pub(in crate::store) storage: Arc<dyn Storage>,
    pub(in crate::store) stream: Stream,
    pub(in crate::store) owner: Owner,
    pub(in crate::store) late: Late,
    pub(in crate::store) names: BTreeMap<SubjectNumber, String>,
    pub(in crate::store) kept: Vec<Kept>,
    /// Messages whose entries were not found.
    pub(in crate::store) missing: Vec<LostMessage>,
    pub(in crate::store) damage: Vec<Error>,
    /// Ranges that may have contained messages of which it is unknown whether they were finished.
    pub(in crate::store) gaps: Vec<Gap>,
    /// Pending sequences whose entries were not found.
    pub(super) unshown: BTreeSet<Sequence>,
    /// Unfinished ready numbers whose entries were not found.
    pub(in crate::store) uncounted: BTreeMap<SubjectNumber, BTreeSet<ReadyNumber>>,
}

impl Gathering {
    pub(in crate::store) fn new(
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
            gaps: Vec::new(),
            unshown: BTreeSet::new(),
            uncounted: BTreeMap::new(),
        }
    }

    /// Gathers all messages to keep, including those in runs that come after all certain facts.
    ///
    /// # Errors
    /// `Storage`, `NewerFormat`.
    pub(in crate::store) fn gather(&mut self, runs: &mut Runs) -> Result<()> {
        self.pending()?;
        self.ready()?;
        self.late();
        self.search(runs)?;
        for one in &self.kept {
            let number = one.entry.subject();
            self.names.entry(number).or_insert_with(|| format!("salvaged.{number}"));
        }
        Ok(())
    }

    fn pending(&mut self) -> Result<()> {
        let schedule = &self.owner.state().schedule;
        let (late, kept, damage) = (&self.late, &mut self.kept, &mut self.damage);
        let mut shown = BTreeSet::new();
        let mut failed = None;
        schedule.each_pending(
            &mut |entry| {
                shown.insert(entry.sequence());
                if let Some(entry) = late.followed(*entry) {
                    kept.push(Kept { entry, sure: Sure::Pending, groups: Vec::new() });
                }
            },
            &mut |block| match block.error {
                error @ Error::Storage { .. } => drop(failed.get_or_insert(error)),
                error => damage.push(error),
            },
        );
        if let Some(error) = failed {
            return Err(error);
        }
        if (shown.len() as u64) < schedule.pending() {
            let all = schedule.windows().iter().filter(|window| window.pending() > 0);
            let all = all.flat_map(|window| window.bits().pending());
            let unshown = all.filter(|sequence| !shown.contains(sequence) && !late.cancelled.contains(sequence));
            self.unshown = unshown.collect();
        }
        Ok(())
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
            let mut left: BTreeSet<ReadyNumber> = unread.into_iter().collect();
            for (number, _) in &again {
                left.remove(number);
            }
            if !left.is_empty() {
                self.uncounted.insert(subject, left);
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
        let mut number = state.dispatch.listed_from(subject);
        while number < state.dispatch.next_number(subject) {
            let mut step = 1;
            match state.dispatch.posting(subject, number) {
                Posting::Entry(entry) => found.push((number, entry)),
                Posting::InLog | Posting::Gone => unread.push(number),
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
        for entry in self.late.messages.values() {
            if let Some(entry) = self.late.followed(*entry) {
                self.kept.push(Kept { entry, sure: Sure::Doubtful, groups: Vec::new() });
            }
        }
    }
}

/// The groups that have not finished a ready message, empty if these are all groups of the subject; `None` if the
/// message is finished.
pub(super) fn unfinished_by(state: &State, subject: SubjectNumber, number: ReadyNumber) -> Option<Vec<GroupNumber>> {
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
