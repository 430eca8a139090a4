//! Messages on terms: with a key, an action if the key is taken, or an id that identifies repetitions. Each message is
//! judged against the state before it, so two concurrent messages with one key are decided by log order, and a replay
//! gives the same result.

use std::collections::VecDeque;

use super::effects::{Effects, Outcome};
use super::reschedules::apply_move;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::{Cancel, Move};
use crate::record::terms::{ByKey, IfExists, KeyCommand, MessageTerms, NameHash, Terms, TermsLimits};
use crate::schedule_log::{Entry, EntryState};
use crate::store::apply::placement::{Arrival, apply_cancel, place};
use crate::store::names::keys::Named;
use crate::store::state::State;
use crate::store::state::awaited::Standing;
use crate::units::Millis;

/// Decides whether the messages that follow these terms are stored. A refusal of one message refuses all.
pub(in crate::store) fn apply_terms(state: &mut State, arrival: Arrival, terms: &Terms<'_>) -> Outcome {
    let rows: VecDeque<MessageTerms> = terms.rows().collect();
    let now = arrival.time.trusted();
    state.ids.forget_over(now, rows.len());
    state.dispatched_keys.begin_terms(&terms.limits, now, rows.len());
    let outcome = judged(state, now, &terms.limits, &rows);
    state.terms = Standing {
        first: arrival.sequence.next(),
        end: arrival.sequence.next().plus(u64::from(terms.messages)),
        is_refused: outcome != Outcome::Done,
        limits: terms.limits,
        rows,
    };
    outcome
}

fn judged(state: &State, now: Millis, limits: &TermsLimits, rows: &VecDeque<MessageTerms>) -> Outcome {
    let (mut keys, mut ids) = (state.keys.len(), state.ids.len());
    for row in rows {
        if row.id.and_then(|id| state.ids.get(id, now)).is_some() {
            continue;
        }
        match row.key.map(|key| state.keys.get(key)) {
            Some(Some(held)) if row.if_exists == IfExists::Refuse => return Outcome::KeyTaken(row.place, held.key),
            Some(None) => keys = keys.saturating_add(1),
            _ => {}
        }
        ids = ids.saturating_add(usize::from(row.id.is_some()));
    }
    if keys > (limits.keys_max as usize).max(state.keys.len()) {
        return Outcome::KeysFull(limits.keys_max);
    }
    if ids > (limits.ids_max as usize).max(state.ids.len()) {
        return Outcome::IdsFull(limits.ids_max);
    }
    Outcome::Done
}

/// Stores a message on terms, or reports the message that has its id or key.
pub(super) fn apply_message_on_terms(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    entry: Entry,
    size: u32,
) -> Result<()> {
    if state.terms.is_refused {
        state.schedule.skip(arrival.sequence);
        return Ok(());
    }
    let Some(row) = state.terms.take(arrival.sequence) else {
        return place(state, effects, arrival, entry);
    };
    let now = arrival.time.trusted();
    let until = now.plus(state.terms.limits.id_window_ms);
    let repeated = row.id.and_then(|id| state.ids.get(id, now));
    let held = row.key.and_then(|key| state.keys.get(key));
    let kept = held.filter(|_| row.if_exists != IfExists::Replace);
    if let Some(there) = repeated.or(kept) {
        if let Some(id) = row.id.filter(|_| repeated.is_none()) {
            state.ids.note(id, there, arrival.sequence, until);
        }
        state.schedule.skip(arrival.sequence);
        effects.outcomes.push((arrival.sequence, Outcome::There(there.key, there.size)));
        return Ok(());
    }
    let outcome = held.map_or(Outcome::Done, |held| Outcome::Replaced(held.key));
    if let Some(held) = held.filter(|_| !is_on(Planted::ReplacedStays)) {
        cancel(state, effects, held)?;
    }
    let message = Named { key: entry.key(), subject: entry.subject(), size };
    place(state, effects, arrival, entry)?;
    if let Some(key) = row.key {
        take_key(state, key, message, now);
    }
    if let Some(id) = row.id {
        state.ids.note(id, message, arrival.sequence, until);
    }
    effects.outcomes.push((arrival.sequence, outcome));
    Ok(())
}

/// Gives a key to a new message. A message that was due at once leaves the key free, and is remembered as dispatched.
fn take_key(state: &mut State, key: NameHash, message: Named, now: Millis) {
    if state.schedule.state(message.key.sequence) == EntryState::Pending {
        state.dispatched_keys.forget(key);
        state.keys.hold(key, message);
    } else {
        state.dispatched_keys.note(key, message, now);
    }
}

fn cancel(state: &mut State, effects: &mut Effects, held: Named) -> Result<Outcome> {
    apply_cancel(state, effects, Cancel { target: held.key, subject: held.subject, size: held.size })
}

/// Applies a cancel or a move by key to the pending message that has the key. If no pending message has it, the outcome
/// is `AlreadyDispatched` while its last message is remembered as dispatched, and `NotFound` otherwise.
///
/// A move applies only if the entry that its fact names still has the key. A reader of the log therefore knows from the
/// fact alone which message moved. If another entry has the key, the caller tries again.
///
/// If the terms before the command have an id that is remembered, the outcome is that of the first command with it.
pub(super) fn apply_by_key(state: &mut State, effects: &mut Effects, arrival: Arrival, asked: &ByKey) -> Result<()> {
    let is_on_terms = state.terms.hold_for(arrival.sequence);
    if is_on_terms && state.terms.is_refused && !is_on(Planted::DoneWithoutRoomForIds) {
        state.schedule.skip(arrival.sequence);
        return Ok(());
    }
    let id = if is_on_terms { state.terms.take(arrival.sequence).and_then(|row| row.id) } else { None };
    let now = arrival.time.trusted();
    if let Some(before) = id.and_then(|id| state.ids.get(id, now)) {
        state.schedule.skip(arrival.sequence);
        effects.outcomes.push((arrival.sequence, answered_before(asked, before)));
        return Ok(());
    }
    let held = state.keys.get(asked.key);
    let is_named = |held: &Named| asked.target == Some(held.key) && asked.subject == held.subject;
    let is_its = |held: &Named| is_named(held) || is_on(Planted::MovedByKeyUnjudged);
    match (asked.command, held) {
        (KeyCommand::Cancel, Some(held)) => {
            state.schedule.skip(arrival.sequence);
            let outcome = cancel(state, effects, held)?;
            effects.outcomes.push((arrival.sequence, outcome));
        }
        (KeyCommand::Move { due, delay_ms }, Some(held)) if is_its(&held) => {
            let Named { key: target, subject, size } = held;
            apply_move(state, effects, arrival, &Move { target, due, delay_ms, subject, size })?;
        }
        (_, held) => {
            let is_late = held.is_none() && state.dispatched_keys.get(asked.key, now).is_some();
            let outcome = if is_late { Outcome::AlreadyDispatched } else { Outcome::NotFound };
            state.schedule.skip(arrival.sequence);
            effects.outcomes.push((arrival.sequence, outcome));
        }
    }
    // If another message has the key, the move is not judged yet: the caller tries again.
    let is_judged = asked.command == KeyCommand::Cancel || held.as_ref().is_none_or(is_its);
    if let Some(id) = id.filter(|_| is_judged && !is_on(Planted::CommandByKeyForgotten)) {
        let outcome = effects.outcomes.last().map(|(_, outcome)| *outcome);
        let until = now.plus(state.terms.limits.id_window_ms);
        state.ids.note(id, remembered(held, outcome), arrival.sequence, until);
    }
    Ok(())
}

/// Returns what is remembered under the id of a command by key.
fn remembered(held: Option<Named>, outcome: Option<Outcome>) -> Named {
    match (held, outcome) {
        (Some(held), Some(Outcome::Done)) => held,
        (Some(held), Some(Outcome::Moved(key))) => Named { key, ..held },
        (_, Some(Outcome::AlreadyDispatched)) => Named::DISPATCHED,
        _ => Named::NOTHING,
    }
}

fn answered_before(asked: &ByKey, before: Named) -> Outcome {
    match asked.command {
        _ if before.is_nothing() => Outcome::NotFound,
        _ if before.is_dispatched() => Outcome::AlreadyDispatched,
        KeyCommand::Cancel => Outcome::Done,
        KeyCommand::Move { .. } => Outcome::There(before.key, before.size),
    }
}
