//! The key and the series of a message stay with the message when it is moved.

use crate::planted::{Planted, is_on};
use crate::schedule_log::EntryState;
use crate::store::names::keys::Named;
use crate::store::state::State;
use crate::units::{DueKey, Millis, Sequence};

/// Gives the key of a moved message to its new entry, if that entry is pending. If the move made the message ready, the
/// key is remembered as dispatched.
pub(in crate::store) fn key_moves(state: &mut State, from: Sequence, to: DueKey, now: Millis) {
    let Some((key, message)) = state.keys.release(from) else { return };
    let message = Named { key: to, ..message };
    if state.schedule.state(to.sequence) != EntryState::Pending {
        state.dispatched_keys.note(key, message, now);
    } else if !is_on(Planted::MovedLosesKey) {
        state.keys.hold(key, message);
    }
}

/// Makes the new entry of a moved message the pending one of its series, if that entry is pending.
pub(in crate::store) fn occurrence_moves(state: &mut State, from: Sequence, to: DueKey) {
    if let Some(number) = state.recurring.release(from)
        && state.schedule.state(to.sequence) == EntryState::Pending
    {
        state.recurring.wait_for(number, Some(to));
    }
}
