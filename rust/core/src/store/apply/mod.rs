//! Facts become state, one by one, in the order of the log.
//!
//! In: the state and one record. Out: the changed state, and the effects of the record (outcomes, wake-ups).
//! Read this file, which names every fact, then `placement` (an entry becomes pending or ready), then `effects`.
//! The other modules apply one kind of fact each.
//!
//! Apply is pure and total. It judges each fact against what the facts before it left, so a replay gives the same
//! state. It has no clock and no randomness, and it decides nothing.

pub(super) mod effects;
pub(super) mod groups;
pub(super) mod loads;
pub(super) mod moved;
pub(super) mod pending_changes;
pub(super) mod placement;
pub(super) mod reschedules;
pub(super) mod retries;
pub(super) mod series;
pub(super) mod terms;

use super::state::{EpochInfo, State};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::command::{EpochStart, Void};
use crate::record::message::Message;
use crate::record::ready::ReadyList;
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::{Entry, EntryState};
use crate::units::{DueKey, Location, Sequence};
use effects::{Effects, Outcome};
use groups::{
    apply_acknowledge, apply_assign, apply_attach, apply_consumer, apply_group, apply_group_end, apply_group_reset,
    apply_pass_over, apply_reserve,
};
use loads::apply_adopt;
use pending_changes::{ends_pending_unkeyed, ends_ready};
use placement::{Arrival, apply_cancel, give_up, make_ready, place};
use reschedules::apply_move;
use retries::{apply_expire, apply_redrive, apply_retry};
use series::{apply_occurrence, apply_occurring, apply_recur};
use terms::{apply_by_key, apply_message_on_terms, apply_terms};

/// Applies one record, whose header was checked. The payload of any fact but a message is checked here, since a fact
/// that cannot be read cannot be applied. The payload of a message is checked when it is read.
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
        Fact::Redrive(redrive) => apply_redrive(state, effects, arrival, &redrive),
        Fact::Move(moved) => apply_move(state, effects, arrival, &moved),
        Fact::ByKey(asked) => apply_by_key(state, effects, arrival, &asked),
        Fact::Adopt(adopt) => {
            let outcome = apply_adopt(state, effects, arrival, &adopt)?;
            effects.outcomes.push((arrival.sequence, outcome));
            Ok(())
        }
        Fact::Ready(list) => {
            state.schedule.skip(arrival.sequence);
            apply_ready(state, effects, arrival, list)
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
            let outcome = apply_cancel(state, effects, *cancel)?;
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Subject { number, name } => {
            if number.0 > 0 && state.subjects.get(*number).is_none() && state.subjects.number(name).is_none() {
                state.dispatch.admit(*number)?;
                state.subjects.add(*number, name);
                effects.named.push(*number);
            }
        }
        Fact::Group { subject, start, name } => {
            let outcome = apply_group(state, *subject, *start, name);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::GroupEnd { group, end } => {
            let outcome = apply_group_end(state, effects, arrival.sequence, *group, *end);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::GroupReset { group, start } => {
            let outcome = apply_group_reset(state, *group, *start);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Expire(expire) => {
            let outcome = Outcome::Expired(apply_expire(state, effects, expire));
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Consumer { group, name } => {
            let outcome = apply_consumer(state, *group, name).map_or(Outcome::NotFound, Outcome::Consumer);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Attach(attach) => {
            let outcome = apply_attach(state, effects, arrival.time.trusted(), attach);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::ConsumerEnd { group, consumer } => {
            let now = arrival.time.trusted();
            if state.groups.get_mut(group).is_some_and(|group| group.end_consumer(*consumer, now)) {
                effects.woken.insert(*group);
            }
        }
        Fact::Reserve(reserve) => apply_reserve(state, effects, reserve),
        Fact::Assign(assign) => apply_assign(state, assign),
        Fact::Acknowledge(_) if is_on(Planted::AcknowledgementsForgotten) => {}
        Fact::Acknowledge(acknowledge) => apply_acknowledge(state, effects, acknowledge),
        Fact::PassOver(pass_over) => apply_pass_over(state, pass_over),
        Fact::Void(void) => apply_void(state, effects, *void),
        Fact::EpochStart(start) => apply_epoch_start(state, arrival.sequence, start),
        Fact::Terms(terms) => {
            let outcome = apply_terms(state, arrival, terms);
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Recur(recur) => {
            let outcome = apply_recur(state, effects, arrival, recur)?;
            effects.outcomes.push((arrival.sequence, outcome));
        }
        Fact::Occurrence(occurrence) => apply_occurrence(state, arrival, *occurrence),
        Fact::Message(_)
        | Fact::Retry(_)
        | Fact::Redrive(_)
        | Fact::Move(_)
        | Fact::ByKey(_)
        | Fact::Ready(_)
        | Fact::Adopt(_) => {}
    }
    Ok(())
}

fn apply_message(state: &mut State, effects: &mut Effects, arrival: Arrival, message: &Message<'_>) -> Result<()> {
    if state.subjects.get(message.subject).is_none() {
        return Err(malformed(arrival, "a subject named before", crate::record::message::KIND_MESSAGE));
    }
    let key = DueKey { due: message.due, sequence: arrival.sequence };
    let size = u32::try_from(message.body.len()).ok();
    let entry = Entry::new(key, 1, arrival.sequence, arrival.location, message.subject).with_size(size);
    if state.terms.hold_for(arrival.sequence) {
        return apply_message_on_terms(state, effects, arrival, entry, size.unwrap_or(u32::MAX));
    }
    if let Some(awaited) = state.awaited.filter(|awaited| awaited.is(arrival.sequence)) {
        return apply_occurring(state, effects, arrival, awaited, entry);
    }
    place(state, effects, arrival, entry)
}

fn apply_ready(state: &mut State, effects: &mut Effects, arrival: Arrival, list: ReadyList<'_>) -> Result<()> {
    let mut known = effects.take_in_flight(list).into_iter().peekable();
    for (key, subject) in list.entries() {
        let hint = known.next_if(|entry| entry.key() == key);
        if state.schedule.state(key.sequence) != EntryState::Pending && !is_on(Planted::ReadyUnjudged) {
            continue;
        }
        let entry = match hint {
            Some(entry) => Some(entry),
            None => find_pending(state, effects, key)?,
        };
        // An entry that cannot be found still takes a ready number. It is voided when its payload is read.
        let entry = entry.unwrap_or_else(|| Entry::new(key, 1, key.sequence, Location::NOWHERE, subject));
        if state.schedule.set(key.sequence, EntryState::Dispatched) == EntryState::Pending {
            ends_ready(state, effects, &entry);
        }
        state.schedule.note_ready(&entry);
        state.release_ready(key.sequence, arrival.time.trusted());
        make_ready(state, effects, entry);
    }
    Ok(())
}

/// Looks up a pending entry. If a block of a run cannot be read, its entries are rescued first.
fn find_pending(state: &mut State, effects: &mut Effects, key: DueKey) -> Result<Option<Entry>> {
    loop {
        match state.schedule.find(key) {
            Ok(entry) => return Ok(entry),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}

fn apply_void(state: &mut State, effects: &mut Effects, void: Void) {
    match void {
        Void::Pending { sequence, .. } => {
            if state.schedule.state(sequence) == EntryState::Pending {
                ends_pending_unkeyed(state, sequence);
                state.schedule.set(sequence, EntryState::Cancelled);
                state.release(sequence);
                state.voided = state.voided.saturating_add(1);
            }
        }
        Void::Ready { subject, number } => {
            if number < state.dispatch.finished_below(subject) || number >= state.dispatch.next_number(subject) {
                return;
            }
            let Some(entry) = state.subjects.get(subject) else { return };
            if entry.gone.contains(number.0) {
                return;
            }
            state.voided = state.voided.saturating_add(u64::from(!is_on(Planted::DamageUncounted)));
            effects.woken.extend(entry.groups.iter().copied());
            give_up(state, subject, number);
        }
    }
}

fn apply_epoch_start(state: &mut State, sequence: Sequence, start: &EpochStart) {
    let EpochStart { epoch, nonce, previous_chain, .. } = *start;
    state.epochs.push(EpochInfo { epoch, nonce, first_sequence: sequence, previous_chain });
    state.delay_ms_max = start.delay_ms_max;
    for group in state.groups.values_mut() {
        group.begin_epoch();
    }
}
