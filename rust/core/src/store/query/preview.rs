//! Looking at what is pending and ready, without taking or changing anything.

use crate::error::Result;
use crate::queues::Group;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{GroupNumber, Millis, ReadyNumber, SubjectNumber};

/// A ready message, as a group would be given it next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyEntry {
    /// Where its payload is, when it was due, its subject.
    pub entry: Entry,
    /// Which delivery it would be, over all retries; from 1.
    pub attempt: u32,
}

impl Owner {
    /// When the next pending entry is due, or a little before; `None` where none is pending, or
    /// where a damaged block hides which: the step that comes to it says so.
    pub fn next_due(&mut self) -> Option<Millis> {
        self.effects.feed.next_pending(&mut self.state.schedule).ok().flatten()
    }

    /// What is ready in a subject, as applied, in the order in which it would be handed over: for a
    /// group what none of its consumers has, without a group what some group has not finished.
    ///
    /// # Errors
    /// What reading a run gives.
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
    for number in numbers(state.dispatch.finished_below(subject), state.dispatch.next_number(subject)) {
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
