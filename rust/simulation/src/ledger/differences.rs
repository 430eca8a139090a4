//! The differences between an owner and the ledger.

use std::collections::BTreeMap;

use delaymq_core::queues::Group;
use delaymq_core::schedule_log::{Cells, EntryState, Window};
use delaymq_core::store::{Outcome, Owner};
use delaymq_core::units::{DueKey, GroupNumber, Minute, ReadyNumber, Sequence, SubjectNumber, Tally};

use super::group::{Hand, Members};
use super::{Fate, Ledger, Line};

impl Ledger {
    /// The outcome of a command.
    pub(crate) fn outcome(&self, command: Sequence) -> Option<Outcome> {
        self.commands.get(&command).copied()
    }

    /// True if a store that forgets what is finished may not have known the target of this cancel: the target was over before, and nobody
    /// is owed it.
    pub(crate) fn may_be_forgotten(&self, command: Sequence) -> bool {
        let (Some(target), Some(outcome)) = (self.targets.get(&command), self.outcome(command)) else { return false };
        let was_cancelled = || self.targets.range(..command).any(|(_, other)| other == target);
        let is_owed = || self.owed().iter().any(|(_, owed)| owed == target);
        match outcome {
            Outcome::AlreadyDispatched => !is_owed(),
            Outcome::Done => was_cancelled(),
            _ => false,
        }
    }

    /// True if the log has a message with this sequence.
    pub(crate) fn has_message(&self, sequence: Sequence) -> bool {
        self.lines.contains_key(&sequence)
    }

    /// True if the message was ready once.
    pub(crate) fn was_ready(&self, sequence: Sequence) -> bool {
        self.lines.get(&sequence).is_some_and(|line| line.fate == Fate::Ready)
    }

    /// The differences of an owner that has forgotten nothing, in words.
    pub(crate) fn differences(&self, owner: &Owner) -> Vec<String> {
        self.differences_but(owner, Sequence(0))
    }

    /// The differences of an owner that may have forgotten finished messages.
    pub(crate) fn differences_of_store(&self, owner: &Owner) -> Vec<String> {
        let windows = owner.state().schedule.windows();
        self.differences_but(owner, windows.first().map_or(Sequence(u64::MAX), Window::first))
    }

    /// The entries that each group has not finished, and those that wait.
    pub(crate) fn owed(&self) -> Vec<(GroupNumber, Sequence)> {
        let mut owed = Vec::new();
        for (number, group) in &self.groups {
            let Some(topic) = self.topics.get(&group.subject) else { continue };
            let ready = (0_u64..).zip(&topic.ready).filter(|(place, _)| !group.is_finished(*place));
            owed.extend(ready.map(|(_, sequence)| (*number, *sequence)));
            let waits = |line: &Line| line.fate == Fate::Waiting && line.subject == group.subject;
            owed.extend(self.lines.iter().filter(|(_, line)| waits(line)).map(|(sequence, _)| (*number, *sequence)));
        }
        owed
    }

    /// All waiting messages in log order, with their subjects.
    pub(crate) fn waiting(&self) -> Vec<(DueKey, &str)> {
        let waiting = self.lines.iter().filter(|(_, line)| line.fate == Fate::Waiting);
        let entry = |(sequence, line): (&Sequence, &Line)| {
            let subject = self.topics.get(&line.subject).map_or("", |topic| topic.name.as_str());
            (DueKey { due: line.due, sequence: *sequence }, subject)
        };
        waiting.map(entry).collect()
    }

    fn waiting_by_subject(&self) -> BTreeMap<SubjectNumber, u64> {
        let mut counts = BTreeMap::new();
        for line in self.lines.values().filter(|line| line.fate == Fate::Waiting) {
            *counts.entry(line.subject).or_default() += 1;
        }
        counts
    }

    /// Bytes of the body of a ready message.
    pub(super) fn size_of(&self, subject: SubjectNumber, number: u64) -> u32 {
        let ready = self.topics.get(&subject).and_then(|topic| topic.ready.get(usize::try_from(number).ok()?));
        ready.and_then(|sequence| self.lines.get(sequence)).map_or(0, |line| line.size)
    }

    /// The waiting messages of each subject in each minute.
    fn waiting_cells(&self) -> Cells {
        let mut cells = Cells::new();
        for line in self.lines.values().filter(|line| line.fate == Fate::Waiting) {
            cells.entry((line.subject, line.due.minute())).or_default().add(Tally::one(line.size));
        }
        cells
    }

    /// The forecast, all subjects together and each alone.
    fn compare_forecast(&self, owner: &Owner, found: &mut Vec<String>) {
        let (state, cells) = (owner.state(), self.waiting_cells());
        let mut totals: BTreeMap<Minute, Tally> = BTreeMap::new();
        for ((_, minute), tally) in &cells {
            totals.entry(*minute).or_default().add(*tally);
        }
        let totals: Vec<(Minute, Tally)> = totals.into_iter().collect();
        differ(found, "due by minute", &totals, &state.due_by_minute(Minute(0), Minute(u32::MAX)));
        // Entries that were found again in the log may have no size. In that case only the totals are compared.
        let unsized_rows = std::cell::Cell::new(false);
        let read = state.horizon(None).read(&|_| {
            unsized_rows.set(true);
            0
        });
        if let Ok(told) = read.map_err(|error| error.to_string())
            && told.hidden_rows == 0
            && !unsized_rows.get()
        {
            differ(found, "due by subject and minute", &cells, &told.cells);
        }
        let subject = self.topics.keys().next_back().copied();
        if let Some(Ok(told)) = subject.map(|subject| state.horizon(Some(subject)).read(&|_| 0))
            && told.hidden_rows == 0
            && !unsized_rows.get()
        {
            let of_it: Cells = cells.into_iter().filter(|((of, _), _)| Some(*of) == subject).collect();
            differ(found, "due of a subject by minute", &of_it, &told.cells);
        }
    }

    fn differences_but(&self, owner: &Owner, known_from: Sequence) -> Vec<String> {
        let mut found = Vec::new();
        self.compare_groups(owner, &mut found);
        self.compare_fates(owner, known_from, &mut found);
        self.compare_ready(owner, &mut found);
        self.compare_keys(&owner.state().keys, &mut found);
        self.compare_dispatched_keys(&owner.state().dispatched_keys, &mut found);
        self.compare_series(&owner.state().recurring, &mut found);
        differ(&mut found, "pending by subject", &self.waiting_by_subject(), &owner.state().pending_counts());
        self.compare_forecast(owner, &mut found);
        let (ours, theirs) = (self.voided, owner.state().voided);
        differ(&mut found, "voided", &ours, &theirs);
        found
    }

    fn compare_groups(&self, owner: &Owner, found: &mut Vec<String>) {
        let state = owner.state();
        let numbers: Vec<_> = self.groups.keys().collect();
        differ(found, "groups", &numbers, &state.groups.keys().collect());
        for (number, ours) in &self.groups {
            let Some(theirs) = state.groups.get(number) else { continue };
            let next = self.topics.get(&ours.subject).map_or(0, |topic| topic.ready.len() as u64);
            compare_group(&format!("group {number}"), ours, theirs, next, found);
        }
    }

    /// The fate of each sequence.
    fn compare_fates(&self, owner: &Owner, known_from: Sequence, found: &mut Vec<String>) {
        let schedule = &owner.state().schedule;
        let mut sequence = Sequence(1);
        while sequence < schedule.next_sequence() {
            let expected = match self.lines.get(&sequence).map(|line| line.fate) {
                Some(Fate::Waiting) => EntryState::Pending,
                Some(Fate::Ready) => EntryState::Dispatched,
                Some(Fate::Cancelled) => EntryState::Cancelled,
                Some(Fate::Moved) | None => EntryState::Nothing,
            };
            let is = schedule.state(sequence);
            let forgotten = sequence < known_from && is == EntryState::Nothing && expected != EntryState::Pending;
            if expected != is && !forgotten {
                differ(found, &format!("the fate of {sequence}"), &expected, &is);
            }
            sequence = sequence.next();
        }
    }

    fn compare_ready(&self, owner: &Owner, found: &mut Vec<String>) {
        let dispatch = &owner.state().dispatch;
        for (subject, topic) in &self.topics {
            let listed_from = topic.listed_from.max(topic.floor);
            let bounds = (dispatch.finished_below(*subject).0, dispatch.next_number(*subject).0);
            differ(found, &format!("subject {subject}"), &(topic.floor, topic.ready.len() as u64), &bounds);
            let expired = owner.state().subjects.get(*subject).map(|subject| subject.expired);
            differ(found, &format!("subject {subject}: expired"), &Some(topic.expired), &expired);
            let listed = dispatch.listed_from(*subject).0;
            differ(found, &format!("subject {subject}: listed from"), &listed_from, &listed);
            for (number, sequence) in (0_u64..).zip(&topic.ready).skip(usize::try_from(listed_from).unwrap_or_default())
            {
                let attempt = self.lines.get(sequence).map(|line| line.attempt);
                let entry = dispatch.find(*subject, ReadyNumber(number)).ok().flatten();
                let theirs = entry.map(|entry| (entry.sequence(), Some(u32::from(entry.attempt()))));
                differ(found, &format!("ready {number} of subject {subject}"), &Some((*sequence, attempt)), &theirs);
            }
        }
    }
}

fn compare_group(what: &str, ours: &Members, theirs: &Group, next: u64, found: &mut Vec<String>) {
    let life = (theirs.subject, theirs.name.as_str(), theirs.start.0);
    differ(found, &format!("{what}: life"), &(ours.subject, ours.name.as_str(), ours.start), &life);
    let marks = (theirs.cursor.0, theirs.reserved_number.0, theirs.marked_below.0);
    differ(found, &format!("{what}: cursor, reserve, mark"), &(ours.cursor, ours.reserved, ours.marked_below), &marks);
    differ(found, &format!("{what}: read again below"), &ours.again_below, &theirs.again_below.0);
    let unfinished: Vec<u64> = (ours.start..next).filter(|number| !ours.finished.contains(number)).collect();
    let theirs_unfinished: Vec<u64> = (theirs.start.0..next).filter(|number| !theirs.done.contains(*number)).collect();
    differ(found, &format!("{what}: unfinished"), &unfinished, &theirs_unfinished);
    let lowest = unfinished.first().copied().unwrap_or(next.max(ours.start));
    differ(found, &format!("{what}: lowest unfinished"), &lowest, &theirs.done.below());
    let returned: Vec<Hand> = ours.returned.iter().map(|(number, times)| (*number, *times)).collect();
    let theirs_returned: Vec<Hand> = theirs.returned.iter().map(|(number, times)| (number.0, *times)).collect();
    differ(found, &format!("{what}: returned"), &returned, &theirs_returned);
    let names: Vec<_> = ours
        .consumers
        .iter()
        .map(|(number, one)| (*number, one.name.as_str(), one.is_lasting, one.is_broadcast))
        .collect();
    let theirs_names = theirs
        .consumers
        .iter()
        .map(|(number, one)| (*number, one.name.as_str(), one.is_lasting, one.is_broadcast))
        .collect();
    differ(found, &format!("{what}: consumers"), &names, &theirs_names);
    for (number, place) in &ours.consumers {
        let Some(consumer) = theirs.consumers.get(number) else { continue };
        let offsets = (consumer.next_offset.0, consumer.reserved_offset.0);
        differ(found, &format!("{what}: offsets of {number}"), &(place.next_offset, place.reserved), &offsets);
        let held: Vec<(u64, Hand)> = place.held.iter().map(|(offset, hand)| (*offset, *hand)).collect();
        let theirs_held: Vec<(u64, Hand)> =
            consumer.held.iter().map(|(offset, held)| (offset.0, (held.number.0, held.deliveries))).collect();
        differ(found, &format!("{what}: what {number} holds, and how often it was handed over"), &held, &theirs_held);
    }
}

fn differ<T: PartialEq + std::fmt::Debug>(found: &mut Vec<String>, what: &str, ours: &T, theirs: &T) {
    if ours != theirs {
        found.push(format!("{what}: ledger {ours:?}, store {theirs:?}"));
    }
}
