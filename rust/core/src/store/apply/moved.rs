//! What a move takes with it.

use crate::planted::{Planted, is_on};
use crate::schedule_log::EntryState;
use crate::store::names::keys::Named;
use crate::store::state::State;
use crate::units::{DueKey, Sequence};

/// A message was moved: its key goes with it, as long as it waits.
pub(in crate::store) fn key_moves(state: &mut State, from: Sequence, to: DueKey) {
    if let Some((key, message)) = state.keys.release(from)
        && state.schedule.state(to.sequence) == EntryState::Pending
        && !is_on(Planted::MovedLosesKey)
    {
        state.keys.hold(key, Named { key: to, ..message });
    }
}

/// A message was moved: where it is the pending one of a series it stays that, as long as it waits.
pub(in crate::store) fn occurrence_moves(state: &mut State, from: Sequence, to: DueKey) {
    if let Some(number) = state.recurring.release(from)
        && state.schedule.state(to.sequence) == EntryState::Pending
    {
        state.recurring.wait_for(number, Some(to));
    }
}
