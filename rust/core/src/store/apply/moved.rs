//! The key and the series of a message stay with the message when it is moved.

use crate::planted::{Planted, is_on};
use crate::schedule_log::EntryState;
use crate::store::names::keys::Named;
use crate::store::state::State;
use crate::units::{DueKey, Sequence};

/// Gives the key of a moved message to its new entry, if that entry is pending.
pub(in crate::store) fn key_moves(state: &mut State, from: Sequence, to: DueKey) {
    if let Some((key, message)) = state.keys.release(from)
        && state.schedule.state(to.sequence) == EntryState::Pending
        && !is_on(Planted::MovedLosesKey)
    {
        state.keys.hold(key, Named { key: to, ..message });
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
