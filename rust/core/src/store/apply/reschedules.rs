//! A move gives a pending message another due time. From then on, the sequence of the move identifies the message.

use super::effects::{Effects, Outcome};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::Move;
use crate::schedule_log::{DUE_MAX, Entry, EntryState};
use crate::store::apply::moved::{key_moves, occurrence_moves};
use crate::store::apply::pending_changes::{Told, ends_pending, subject_and_size_of};
use crate::store::apply::placement::{Arrival, place};
use crate::store::state::State;
use crate::units::DueKey;

/// One fact ends the old entry and begins the new one, so the message is never in two places or in none. The disk is
/// read only for a message in a run: if the fact makes it ready, or if the fact does not have its subject and size.
pub(super) fn apply_move(state: &mut State, effects: &mut Effects, arrival: Arrival, moved: &Move) -> Result<()> {
    let outcome = match state.schedule.state(moved.target.sequence) {
        EntryState::Pending if is_owed(state, moved) => return begin_again(state, effects, arrival, moved),
        EntryState::Dispatched => Outcome::AlreadyDispatched,
        EntryState::Nothing => {
            state.moves.repeated(moved, arrival.time.trusted()).map_or(Outcome::NotFound, Outcome::Moved)
        }
        EntryState::Pending | EntryState::Cancelled => Outcome::NotFound,
    };
    state.schedule.skip(arrival.sequence);
    effects.outcomes.push((arrival.sequence, outcome));
    Ok(())
}

/// False if the message belonged to a removed group. False also for facts that no release writes: with an unknown
/// subject, or a due time beyond the maximum.
fn is_owed(state: &State, moved: &Move) -> bool {
    let subject = state.subjects.get(moved.subject);
    moved.due <= DUE_MAX && subject.is_some_and(|subject| moved.target.sequence >= subject.ended_before)
}

fn begin_again(state: &mut State, effects: &mut Effects, arrival: Arrival, moved: &Move) -> Result<()> {
    let key = DueKey { due: moved.due, sequence: arrival.sequence };
    let told = Told { subject: moved.subject, size: moved.size };
    // If the fact has no size, the entry's row has it.
    let size = subject_and_size_of(state, effects, moved.target, told)?.map(|(_, size)| size);
    let mut entry = state.schedule.moved(moved.target, key, moved.subject, size);
    if arrival.time.is_due(moved.due) {
        entry = resolved(state, effects, entry)?;
    }
    if !is_on(Planted::MovedStaysToo) {
        let size = size.unwrap_or(told.size);
        ends_pending(state, effects, moved.target, Told { size, ..told })?;
        state.schedule.set(moved.target.sequence, EntryState::Nothing);
    }
    place(state, effects, arrival, entry)?;
    key_moves(state, moved.target.sequence, key, arrival.time.trusted());
    occurrence_moves(state, moved.target.sequence, key);
    state.moves.note(moved, key, arrival.time.trusted());
    effects.outcomes.push((arrival.sequence, Outcome::Moved(key)));
    Ok(())
}

/// Looks up where the payload is. If a block of a run cannot be read, its entries are rescued first. A payload that
/// cannot be found is voided when it is read.
fn resolved(state: &mut State, effects: &mut Effects, entry: Entry) -> Result<Entry> {
    loop {
        match state.schedule.resolved(entry) {
            Ok(entry) => return Ok(entry),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}
