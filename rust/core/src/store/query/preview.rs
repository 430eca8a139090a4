//! Queries of pending and ready messages that take and change nothing.

use crate::error::Result;
use crate::queues::Group;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{GroupNumber, Millis, ReadyNumber, SubjectNumber};

/// A ready message, as a group would receive it next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyEntry {
    /// The entry: where the payload is, the due time and the subject.
    pub entry: Entry,
    /// Which delivery it would be, over all retries; from 1.
    pub attempt: u32,
}

impl Owner {
    /// Returns when the next pending entry is due, or a little earlier. `None` if none is pending, or if a damaged
    /// block hides the entry: the step that reaches the block reports it.
    pub fn next_due(&mut self) -> Option<Millis> {
        self.effects.feed.next_pending(&mut self.state.schedule).ok().flatten()
    }

    /// Returns the ready messages of a subject, as applied, in delivery order. With a group these are the messages
    /// that none of its consumers holds, and without a group those that some group has not finished.
    ///
    /// # Errors
    /// Those of reading a run.
    pub fn ready(&self, subject: SubjectNumber, group: Option<GroupNumber>) -> Result<Vec<ReadyEntry>> {
        match group.and_then(|number| self.state.groups.get(&number)) {
            Some(group) => ready_for(&self.state, group),
            None => unfinished(&self.state, subject),
        }
    }
}

fn ready_for(state: &State, group: &Group) -> Result<Vec<ReadyEntry>> {
    let returned = group.returned.iter().map(|(number, handed)| (*number, handed.saturating_add(1)));
    let cursor = group.cursor.max(ReadyNumber(group.done.below()));
    let fresh = numbers(cursor, state.dispatch.next_number(group.subject))
        .map(|number| (number, if number < group.marked_below { 2 } else { 1 }));
    let mut found = Vec::new();
    for (number, handed) in returned.chain(fresh) {
        if group.done.contains(number.0) {
            continue;
        }
        if let Some(entry) = state.dispatch.find(group.subject, number)? {
            let attempt = u32::from(entry.attempt()).saturating_add(handed).saturating_sub(1);
            found.push(ReadyEntry { entry, attempt });
        }
    }
    Ok(found)
}

fn unfinished(state: &State, subject: SubjectNumber) -> Result<Vec<ReadyEntry>> {
    let Some(known) = state.subjects.get(subject) else { return Ok(Vec::new()) };
    let groups: Vec<&Group> = known.groups.iter().filter_map(|number| state.groups.get(number)).collect();
    let mut found = Vec::new();
    for number in numbers(state.dispatch.listed_from(subject), state.dispatch.next_number(subject)) {
        let is_done = |group: &&Group| group.done.contains(number.0);
        if known.gone.contains(number.0) || (!groups.is_empty() && groups.iter().all(is_done)) {
            continue;
        }
        if let Some(entry) = state.dispatch.find(subject, number)? {
            found.push(ReadyEntry { entry, attempt: u32::from(entry.attempt()) });
        }
    }
    Ok(found)
}

fn numbers(first: ReadyNumber, end: ReadyNumber) -> impl Iterator<Item = ReadyNumber> {
    (first.0..end.0).map(ReadyNumber)
}
