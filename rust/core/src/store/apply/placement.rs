//! Entries become pending or ready, and end.

use super::effects::{Effects, Outcome};
use super::pending_changes::{Told, begins_pending, ends_pending};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::batch::BatchHeader;
use crate::record::command::Cancel;
use crate::schedule_log::{Entry, EntryState};
use crate::store::state::State;
use crate::units::{Location, Millis, ReadyNumber, Sequence, SubjectNumber};

/// The trusted time of a batch, which holds for all its records, and whether dispatch was held.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct BatchTime {
    trusted: Millis,
    held: bool,
}

impl BatchTime {
    pub(in crate::store) fn of(header: &BatchHeader) -> Self {
        Self { trusted: Millis(header.trusted_ms.get()), held: header.is_held() }
    }

    /// The trusted time of the batch.
    pub(in crate::store) fn trusted(self) -> Millis {
        self.trusted
    }

    /// True if an entry that is due at `due` becomes ready by its own fact.
    pub(in crate::store) fn is_due(self, due: Millis) -> bool {
        (!self.held || is_on(Planted::HeldNotInHeader)) && due <= self.trusted
    }
}

/// The place and the time of the record that is being applied.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Arrival {
    pub(in crate::store) sequence: Sequence,
    pub(in crate::store) location: Location,
    pub(in crate::store) time: BatchTime,
}

/// Makes an entry ready if it is due already, and pending otherwise.
///
/// # Errors
/// As [`begins_pending`].
pub(in crate::store) fn place(state: &mut State, effects: &mut Effects, arrival: Arrival, entry: Entry) -> Result<()> {
    let by_another = is_on(Planted::DueByAnotherClock) && entry.due() <= effects.feed.position().due;
    if arrival.time.is_due(entry.due()) || by_another {
        place_at_once(state, effects, entry);
    } else {
        state.note_message_of(entry.subject());
        let entry = begins_pending(state, effects, entry)?;
        state.schedule.insert(entry);
        effects.feed.arrive(entry);
    }
    Ok(())
}

/// Makes an entry ready by its own fact, whatever its due time.
pub(in crate::store) fn place_at_once(state: &mut State, effects: &mut Effects, entry: Entry) {
    state.note_message_of(entry.subject());
    state.schedule.note_dispatched_at_once(entry.sequence());
    make_ready(state, effects, entry);
}

pub(super) fn make_ready(state: &mut State, effects: &mut Effects, entry: Entry) {
    let number = state.dispatch.push(entry);
    if let Some(number) = number {
        state.note_ready(number, &entry);
    }
    let Some(subject) = state.subjects.get(entry.subject()) else { return };
    if entry.sequence() < subject.ended_before {
        // The subject belonged to a removed group: no group receives the message.
        if let Some(number) = number {
            give_up(state, entry.subject(), number);
        }
    } else {
        effects.wake_subject(entry.subject());
    }
}

/// Finishes a ready message for every group, including future groups.
pub(super) fn give_up(state: &mut State, subject: SubjectNumber, number: ReadyNumber) {
    let Some(entry) = state.subjects.get_mut(subject) else { return };
    entry.gone.insert(number.0);
    for group in entry.groups.iter() {
        if let Some(group) = state.groups.get_mut(group) {
            group.void(number);
        }
    }
    state.settle(subject);
}

pub(in crate::store) fn apply_cancel(state: &mut State, effects: &mut Effects, cancel: Cancel) -> Result<Outcome> {
    Ok(match state.schedule.state(cancel.target.sequence) {
        EntryState::Pending => {
            let told = Told { subject: cancel.subject, size: cancel.size };
            ends_pending(state, effects, cancel.target, told)?;
            state.schedule.set(cancel.target.sequence, EntryState::Cancelled);
            state.release(cancel.target.sequence);
            Outcome::Done
        }
        EntryState::Cancelled => Outcome::Done,
        EntryState::Dispatched if is_on(Planted::CancelUnjudged) => Outcome::Done,
        EntryState::Dispatched => Outcome::AlreadyDispatched,
        EntryState::Nothing => Outcome::NotFound,
    })
}
