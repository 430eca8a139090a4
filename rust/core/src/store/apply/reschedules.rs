//! A pending message gets another due time, under the sequence of the fact that says so.

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

/// The old entry ends and the new one begins by one fact, so that the message is never in both places and
/// never in none. Reads nothing from disk, but for a message in a run that is ready by this very fact.
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

/// False for what nobody is owed, since it is of a group that was removed, and for a fact that no release
/// writes: a subject without a name, a time that no entry has.
fn is_owed(state: &State, moved: &Move) -> bool {
    let subject = state.subjects.get(moved.subject);
    moved.due <= DUE_MAX && subject.is_some_and(|subject| moved.target.sequence >= subject.ended_before)
}

fn begin_again(state: &mut State, effects: &mut Effects, arrival: Arrival, moved: &Move) -> Result<()> {
    let key = DueKey { due: moved.due, sequence: arrival.sequence };
    let told = Told { subject: moved.subject, size: moved.size };
    // One in a run whose size the receipt did not know says it in its row.
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
    key_moves(state, moved.target.sequence, key);
    occurrence_moves(state, moved.target.sequence, key);
    state.moves.note(moved, key, arrival.time.trusted());
    effects.outcomes.push((arrival.sequence, Outcome::Moved(key)));
    Ok(())
}

/// Looks up where the payload is, past blocks that cannot be read. Where that is nowhere to be found, whoever
/// reads it voids it.
fn resolved(state: &mut State, effects: &mut Effects, entry: Entry) -> Result<Entry> {
    loop {
        match state.schedule.resolved(entry) {
            Ok(entry) => return Ok(entry),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}
