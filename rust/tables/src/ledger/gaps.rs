//! What the state at the end says about a ledger's messages if the log has gaps: damage, or facts that are not kept.

use std::collections::HashMap;

use delaymq_core::schedule_log::{Entry, EntryState};
use delaymq_core::store::{State, dead_letter_subject, retry_subject};
use delaymq_core::units::{GroupNumber, ReadyNumber, Sequence, SubjectNumber};

use crate::ledger::delivery_ledger::Ledger;
use crate::ledger::index::Target;
use crate::ledger::slots::{Delivery, Slot, Time, Word, delivery_to, slot_of};
use crate::snapshot::parties::Parties;

impl Ledger {
    /// What became ready by facts that are not there, and is not finished.
    pub(crate) fn find_ready(&mut self, state: &State) {
        let Some(numbered) = &self.numbered else { return };
        for slot in self.slots.iter_mut().filter(|slot| slot.number.is_none()) {
            if let Some(number) = numbered.get(&slot.entry) {
                (slot.is_ready, slot.number) = (true, Some(*number));
            }
            slot.is_ready |= state.schedule.state(slot.entry) == EntryState::Dispatched;
        }
    }

    /// An entry that is pending, or ready and unfinished. If it continues a message of the ledger by a move, a retry or
    /// a dead letter, and no fact says so, the message continues in it.
    pub(crate) fn find_entry(&mut self, state: &State, parties: &Parties, entry: &Entry, number: Option<u64>) {
        let message = entry.payload_sequence();
        let name = |subject: SubjectNumber| state.subjects.get(subject).map(|subject| subject.name.as_str());
        if entry.sequence() == message || self.owner(entry.sequence()).is_some() {
            return;
        }
        let slot = self.index.get(message).and_then(|place| self.slots.get_mut(place as usize));
        let Some((slot, target)) = slot.zip(name(entry.subject())) else { return };
        if entry.subject() == slot.subject {
            (slot.entry, slot.due) = (entry.sequence(), Time::of(Some(entry.due())));
            return;
        }
        let Some(subject) = name(slot.subject) else { return };
        let of = |subject_of: fn(&str, &str) -> String| {
            let mut groups = parties.groups.iter().filter(|(_, (of, _))| *of == slot.subject);
            let is_its =
                |(_, (_, group)): &(&GroupNumber, &(SubjectNumber, String))| subject_of(subject, group) == target;
            groups.rfind(is_its).map(|(number, _)| *number)
        };
        let (again, dead) = (of(retry_subject), of(dead_letter_subject));
        let Some(group) = again.or(dead) else { return };
        let place = delivery_to(slot, &mut self.deliveries, group);
        let Some(delivery) = self.deliveries.get_mut(place as usize) else { return };
        if again.is_some() {
            delivery.goes_on(entry.sequence(), entry.subject());
            delivery.retry_number = number;
            self.entries.insert(entry.sequence(), Target::Delivery(place));
        } else if delivery.word != Word::ExpiredDeadLetter {
            // Only the fact says whether it had expired.
            delivery.word = Word::DeadLetter;
        }
    }

    /// An entry of a group's own subject, whose message is of before the log: given back or put away by a fact that is
    /// not there, the message of this subject goes on in it.
    pub(crate) fn add_older_given_back(
        &mut self,
        (state, parties): (&State, &Parties),
        subject: SubjectNumber,
        entry: &Entry,
        number: Option<u64>,
    ) {
        let message = entry.payload_sequence();
        if !self.is_older(message) || self.owner(entry.sequence()).is_some() {
            return;
        }
        if self.index.get(message).is_none() {
            let slot = Slot { sequence: Some(message), is_ready: true, ..slot_of(subject, Sequence(0)) };
            self.add(message, slot);
        }
        self.find_entry(state, parties, entry, number);
        let Some(target) = self.entries.get(&entry.sequence()).copied() else { return };
        if let Target::Delivery(place) = target
            && let Some(delivery) = self.deliveries.get_mut(place as usize)
        {
            delivery.is_older = true;
        }
        self.take_number(target, entry.subject(), number);
    }
}

/// The subjects that take what groups give back or put away, each with that of which the group is.
pub(crate) fn subjects_of_groups(state: &State, parties: &Parties) -> HashMap<SubjectNumber, SubjectNumber> {
    let mut found = HashMap::new();
    for (subject, group) in parties.groups.values() {
        let Some(name) = state.subjects.get(*subject).map(|known| known.name.as_str()) else { continue };
        for own in [retry_subject(name, group), dead_letter_subject(name, group)] {
            found.extend(state.subjects.number(&own).map(|own| (own, *subject)));
        }
    }
    found
}

/// What became of a delivery, by the state alone: `None` if it is finished.
pub(crate) fn unfinished_by_state(
    ledger: &Ledger,
    delivery: &Delivery,
    state: &State,
    (group, number): (GroupNumber, Option<u64>),
) -> Option<&'static str> {
    let Some((entry, retry)) = delivery.retry else {
        return word_of(state, group, number?, "ready");
    };
    match state.schedule.state(entry) {
        EntryState::Pending => Some("retrying"),
        EntryState::Dispatched => {
            let name = state.groups.get(&group).map(|group| group.name.as_str());
            let number = delivery.retry_number.or_else(|| ledger.numbered.as_ref()?.get(&entry).copied());
            let again = name.and_then(|name| state.group_named(retry, name));
            let Some((again, number)) = again.zip(number) else {
                // No group is left that could take it, or all have.
                return again.is_none().then_some("retrying");
            };
            word_of(state, again, number, "retrying")
        }
        EntryState::Cancelled | EntryState::Nothing => None,
    }
}

/// The word for what a group has not finished; `None` if it has finished.
pub(crate) fn word_of(state: &State, group: GroupNumber, number: u64, waits: &'static str) -> Option<&'static str> {
    let group = state.groups.get(&group)?;
    if group.done.contains(number) {
        return None;
    }
    let has = |(first, end): (ReadyNumber, ReadyNumber)| (first.0..end.0).contains(&number);
    let is_held = group.consumers.values().any(|consumer| consumer.held.number_ranges().any(has));
    Some(if is_held { "in_flight" } else { waits })
}
