//! Fact by fact, what the log says becomes state. Pure and total: what a fact may still change is
//! judged here and nowhere else, against what the facts before it left, so a replay comes to the
//! same end. No clock, no randomness, no decisions.

use super::effects::{Effects, Outcome};
use super::rescue_ready::rescue_one_ready;
use super::state::{EpochInfo, State};
use crate::error::{Error, Result};
use crate::queues::{Consumer, Group};
use crate::record::batch::BatchHeader;
use crate::record::command::{Cancel, EpochStart, Void};
use crate::record::message::Message;
use crate::record::name::GroupStart;
use crate::record::queue::{Acknowledge, Assign, Reserve, Retry};
use crate::record::ready::ReadyList;
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::{Entry, EntryState};
use crate::units::{ConsumerNumber, DueKey, GroupNumber, Location, Millis, ReadyNumber, Sequence, SubjectNumber};

/// What a batch says of all its records.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchTime {
    trusted: Millis,
    held: bool,
}

impl BatchTime {
    pub(super) fn of(header: &BatchHeader) -> Self {
        Self { trusted: Millis(header.trusted_ms.get()), held: header.is_held() }
    }

    /// True where an entry due at `due` is ready by its own fact.
    pub(super) fn is_due(self, due: Millis) -> bool {
        !self.held && due <= self.trusted
    }
}

/// One record on its way into the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) sequence: Sequence,
    pub(super) location: Location,
    pub(super) time: BatchTime,
}

/// Applies one record. The record's header was checked; the payload of anything but a message is
/// checked here, since a fact that cannot be read cannot be applied.
pub(super) fn apply_record(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    record: &RawRecord<'_>,
) -> Result<()> {
    let fact = decode(record).ok_or_else(|| malformed(arrival, "a record of a known kind", record.header.kind))?;
    if !matches!(fact, Fact::Message(_)) && !record.payload_is_whole() {
        return Err(malformed(arrival, "a payload that fits its check", record.header.kind));
    }
    match fact {
        Fact::Message(message) => apply_message(state, effects, arrival, &message),
        Fact::Retry(retry) => apply_retry(state, effects, arrival, &retry),
        Fact::Ready(list) => {
            state.schedule.skip(arrival.sequence);
            apply_ready(state, effects, list)
        }
        other => {
            state.schedule.skip(arrival.sequence);
            apply_small(state, effects, arrival, &other)
        }
    }
}

fn malformed(arrival: Arrival, expected: &str, kind: u8) -> Error {
    let location = arrival.location;
    let path = location.segment().map(crate::message_log::segment_path).unwrap_or_default();
    Error::corrupt(&path, u64::from(location.offset()), expected, format!("kind {kind}"))
}

fn apply_small(state: &mut State, effects: &mut Effects, arrival: Arrival, fact: &Fact<'_>) -> Result<()> {
    match fact {
        Fact::Cancel(cancel) => {
            let outcome = apply_cancel(state, *cancel);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Subject { number, name } => {
            if number.0 > 0 && state.subjects.get(*number).is_none() && state.subjects.number(name).is_none() {
                state.dispatch.admit(*number)?;
                state.subjects.add(*number, name);
            }
        }
        Fact::Group { subject, start, name } => {
            let outcome = apply_group(state, *subject, *start, name).map_or(Outcome::NotFound, Outcome::Group);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::GroupEnd(group) => apply_group_end(state, effects, *group),
        Fact::Consumer { group, name } => {
            let outcome = apply_consumer(state, *group, name).map_or(Outcome::NotFound, Outcome::Consumer);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::ConsumerEnd { group, consumer } => {
            if state.groups.get_mut(group).is_some_and(|group| group.end_consumer(*consumer)) {
                effects.woken.insert(*group);
            }
        }
        Fact::Reserve(reserve) => apply_reserve(state, effects, reserve),
        Fact::Assign(assign) => apply_assign(state, assign),
        Fact::Acknowledge(acknowledge) => apply_acknowledge(state, effects, acknowledge),
        Fact::Void(void) => apply_void(state, effects, *void),
        Fact::EpochStart(start) => apply_epoch_start(state, arrival.sequence, start),
        Fact::Message(_) | Fact::Retry(_) | Fact::Ready(_) => {}
    }
    Ok(())
}

fn apply_message(state: &mut State, effects: &mut Effects, arrival: Arrival, message: &Message<'_>) -> Result<()> {
    if state.subjects.get(message.subject).is_none() {
        return Err(malformed(arrival, "a subject named before", crate::record::message::KIND_MESSAGE));
    }
    let key = DueKey { due: message.due, sequence: arrival.sequence };
    let entry = Entry::new(key, 1, arrival.sequence, arrival.location, message.subject);
    place(state, effects, arrival, entry);
    Ok(())
}

/// An entry is ready by its own fact, or waits.
fn place(state: &mut State, effects: &mut Effects, arrival: Arrival, entry: Entry) {
    if arrival.time.is_due(entry.due()) {
        state.schedule.note_dispatched_at_once(arrival.sequence);
        make_ready(state, effects, entry);
    } else {
        state.schedule.insert(entry);
        effects.feed.arrive(entry);
    }
}

fn make_ready(state: &mut State, effects: &mut Effects, entry: Entry) {
    state.dispatch.push(entry);
    if effects.woken_subject != Some(entry.subject())
        && let Some(subject) = state.subjects.get(entry.subject())
    {
        effects.woken_subject = Some(entry.subject());
        effects.woken.extend(subject.groups.iter().copied());
    }
}

fn apply_ready(state: &mut State, effects: &mut Effects, list: ReadyList<'_>) -> Result<()> {
    let mut known = effects.take_in_flight(list).into_iter().peekable();
    for (key, subject) in list.entries() {
        let hint = known.next_if(|entry| entry.key() == key);
        if state.schedule.state(key.sequence) != EntryState::Pending {
            continue;
        }
        let entry = match hint {
            Some(entry) => Some(entry),
            None => find_pending(state, effects, key)?,
        };
        // One whose bytes are gone takes its number all the same, and is voided when it is read.
        let entry = entry.unwrap_or_else(|| Entry::new(key, 1, key.sequence, Location::NOWHERE, subject));
        state.schedule.set(key.sequence, EntryState::Dispatched);
        make_ready(state, effects, entry);
    }
    Ok(())
}

/// Looks up a pending entry, past blocks that cannot be read.
fn find_pending(state: &mut State, effects: &mut Effects, key: DueKey) -> Result<Option<Entry>> {
    loop {
        match state.schedule.find(key) {
            Ok(entry) => return Ok(entry),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}

fn apply_cancel(state: &mut State, cancel: Cancel) -> Outcome {
    match state.schedule.state(cancel.target.sequence) {
        EntryState::Pending => {
            state.schedule.set(cancel.target.sequence, EntryState::Cancelled);
            Outcome::Done
        }
        EntryState::Cancelled => Outcome::Done,
        EntryState::Dispatched => Outcome::AlreadyDispatched,
        EntryState::Nothing => Outcome::NotFound,
    }
}

fn apply_group(state: &mut State, subject: SubjectNumber, start: GroupStart, name: &str) -> Option<GroupNumber> {
    let start = match start {
        GroupStart::Earliest => state.dispatch.finished_below(subject),
        GroupStart::Latest => state.dispatch.next_number(subject),
    };
    let group = ensure_group(state, subject, start, name)?;
    // What lies below its start counts as acknowledged by it.
    state.settle(subject);
    Some(group)
}

/// The group of this name, made to start at `start` where there is none.
fn ensure_group(state: &mut State, subject: SubjectNumber, start: ReadyNumber, name: &str) -> Option<GroupNumber> {
    if let Some(there) = state.group_named(subject, name) {
        return Some(there);
    }
    let floor = state.ended_groups.get(&(subject, name.to_owned())).copied().unwrap_or_default();
    // Below this nothing is kept any more.
    let start = start.max(state.dispatch.finished_below(subject));
    let entry = state.subjects.get_mut(subject)?;
    let number = state.next_group;
    state.next_group = number.next();
    let mut group = Group::new(number, subject, name, start, floor);
    for voided in entry.voided.range(start..) {
        group.done.insert(voided.0);
    }
    entry.groups.push(number);
    state.groups.insert(number, group);
    Some(number)
}

fn apply_group_end(state: &mut State, effects: &mut Effects, number: GroupNumber) {
    let Some(group) = state.groups.remove(&number) else { return };
    state.ended_groups.insert((group.subject, group.name.clone()), group.offset_end());
    if let Some(subject) = state.subjects.get_mut(group.subject) {
        subject.groups.retain(|other| *other != number);
    }
    state.settle(group.subject);
    effects.woken.insert(number);
}

fn apply_consumer(state: &mut State, group: GroupNumber, name: &str) -> Option<ConsumerNumber> {
    let group = state.groups.get_mut(&group)?;
    if let Some(there) = group.consumer_named(name) {
        return Some(there);
    }
    let number = state.next_consumer;
    state.next_consumer = number.next();
    group.consumers.insert(number, Consumer::new(number, name, group.offset_floor));
    Some(number)
}

fn apply_reserve(state: &mut State, effects: &mut Effects, reserve: &Reserve) {
    if let Some(group) = state.groups.get_mut(&reserve.group) {
        group.reserve(reserve);
        effects.woken.insert(reserve.group);
    }
}

fn apply_assign(state: &mut State, assign: &Assign<'_>) {
    if let Some(group) = state.groups.get_mut(&assign.group) {
        group.assign(assign);
    }
}

fn apply_acknowledge(state: &mut State, effects: &mut Effects, acknowledge: &Acknowledge<'_>) {
    let Some(group) = state.groups.get_mut(&acknowledge.group) else { return };
    let subject = group.subject;
    if group.acknowledge(acknowledge) {
        state.settle(subject);
    }
    // Room under the consumer's limit: a pull that waited for it may go on.
    effects.woken.insert(acknowledge.group);
}

/// A delivery ends and its message begins again elsewhere, later: one fact, so that it is never
/// in both places and never in none. The first one makes the group a group of the target subject,
/// from number 0, whatever its own start was.
fn apply_retry(state: &mut State, effects: &mut Effects, arrival: Arrival, retry: &Retry) -> Result<()> {
    let nothing = |state: &mut State| {
        state.schedule.skip(arrival.sequence);
        Ok(())
    };
    if state.subjects.get(retry.target).is_none() {
        return nothing(state);
    }
    let Some(group) = state.groups.get(&retry.group) else { return nothing(state) };
    let (subject, name) = (group.subject, group.name.clone());
    let holds = group.consumers.get(&retry.consumer).and_then(|consumer| consumer.held.get(&retry.offset));
    if holds.is_none_or(|held| held.number != retry.number) {
        return nothing(state);
    }
    let origin = match state.dispatch.find(subject, retry.number) {
        Err(error @ Error::Storage { .. }) => return Err(error),
        Ok(origin) => origin,
        Err(_) => rescue_one_ready(&effects.storage, state, subject, retry.number)?,
    };
    // Where it is nowhere to be found the new entry takes its place, and is voided when it is read.
    let origin = origin.unwrap_or_else(|| Entry::new(DueKey::START, 1, arrival.sequence, Location::NOWHERE, subject));
    if let Some(group) = state.groups.get_mut(&retry.group) {
        group.take(retry.consumer, retry.offset, retry.number);
    }
    ensure_group(state, retry.target, ReadyNumber(0), &name);
    let key = DueKey { due: retry.due, sequence: arrival.sequence };
    let attempt = u16::try_from(retry.attempt).unwrap_or(u16::MAX);
    place(
        state,
        effects,
        arrival,
        Entry::new(key, attempt, origin.payload_sequence(), origin.location(), retry.target),
    );
    state.settle(subject);
    effects.woken.insert(retry.group);
    Ok(())
}

fn apply_void(state: &mut State, effects: &mut Effects, void: Void) {
    match void {
        Void::Pending { sequence, .. } => {
            if state.schedule.state(sequence) == EntryState::Pending {
                state.schedule.set(sequence, EntryState::Cancelled);
                state.voided = state.voided.saturating_add(1);
            }
        }
        Void::Ready { subject, number } => {
            if number < state.dispatch.finished_below(subject) || number >= state.dispatch.next_number(subject) {
                return;
            }
            let Some(entry) = state.subjects.get_mut(subject) else { return };
            if !entry.voided.insert(number) {
                return;
            }
            state.voided = state.voided.saturating_add(1);
            for group in entry.groups.clone() {
                if let Some(group) = state.groups.get_mut(&group) {
                    group.void(number);
                    effects.woken.insert(group.number);
                }
            }
            state.settle(subject);
        }
    }
}

fn apply_epoch_start(state: &mut State, sequence: Sequence, start: &EpochStart) {
    state.epochs.push(EpochInfo { epoch: start.epoch, nonce: start.nonce, first_sequence: sequence });
    state.delay_ms_max = start.delay_ms_max;
    for group in state.groups.values_mut() {
        group.begin_epoch();
    }
}
