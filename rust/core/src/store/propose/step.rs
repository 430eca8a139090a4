//! The step that time drives: due entries become proposed ready facts. Nothing here makes an entry pending or ready.

use super::proposals::Proposals;
use crate::clock::Reading;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::{Void, encode_void};
use crate::record::ready::encode_ready;
use crate::schedule_log::{Entry, EntryState, Loaded, Room};
use crate::store::apply::effects::Effects;
use crate::store::state::State;
use crate::units::{DueKey, Millis, ReadyNumber, SubjectNumber};

/// Entries that may be proposed and not applied yet, at most.
pub(super) const IN_FLIGHT_ENTRIES_MAX: usize = 1 << 18;
/// Entries of subjects with a flood of due messages are proposed only while fewer entries than this are in flight: a
/// due message of another subject waits until those entries are applied.
const IN_FLIGHT_OF_FLOODS_MAX: usize = 1 << 14;
/// How soon to look again while dispatch is held, in milliseconds.
const HELD_RETRY_MS: u64 = 200;

/// The limits of one step.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Entries that the step may dispatch.
    pub entries: usize,
}

/// The result of a step, and when to call the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    /// Entries proposed as ready.
    pub proposed: usize,
    /// True if there is more to do now.
    pub more: bool,
    /// Call again no later than this. `None` if only a new fact can bring work.
    pub next: Option<Millis>,
}

/// How far ahead the feed looks, and how much it holds.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Window {
    pub(in crate::store) ahead_ms: u64,
    pub(in crate::store) entries_max: usize,
    /// Entries that one ready fact lists, at most.
    pub(in crate::store) ready_entries_max: usize,
}

/// See [`crate::store::Owner::step`].
pub(in crate::store) fn step(
    state: &mut State,
    effects: &mut Effects,
    window: Window,
    reading: Reading,
    budget: Budget,
    proposals: &mut Proposals,
) -> Result<Progress> {
    let now = reading.now;
    admit(state, effects)?;
    // Arrivals below the feed's position must not grow the wheel without limit, even while dispatch is held.
    let in_hand_max = window.entries_max.saturating_add(window.entries_max / 4);
    if effects.feed.len() > in_hand_max && !is_on(Planted::WheelUnbounded) {
        effects.feed.shed(window.entries_max);
    }
    if reading.held {
        return Ok(Progress { proposed: 0, more: false, next: Some(now.plus(HELD_RETRY_MS)) });
    }
    if is_held_by_a_queue(state) {
        return Ok(Progress { proposed: 0, more: false, next: Some(now.plus(HELD_RETRY_MS)) });
    }
    let loaded = load(state, effects, window, now)?;
    propose_lost(effects, proposals);
    let room = IN_FLIGHT_ENTRIES_MAX.saturating_sub(effects.in_flight_entries);
    let limit = budget.entries.min(room);
    let mut due = Vec::new();
    effects.feed.take_due(now, Room { all: limit, floods: room_of_floods(effects) }, &mut due);
    let taken = due.len();
    due.retain(|entry| state.schedule.state(entry.sequence()) == EntryState::Pending);
    let proposed = due.len();
    propose_ready(effects, due, window.ready_entries_max, proposals);
    let more = room > 0 && taken > 0 && (taken == limit || loaded != Loaded::UpToDate);
    // With the maximum in flight, only applied facts bring work.
    let next = if room == 0 { None } else { next_call(state, effects, window) };
    Ok(Progress { proposed, more, next })
}

/// Planted faults that make dispatch wait for consumers, as in QMQ's delay server: a sender waits for room, and the
/// wheel waits for the sender. Without these faults, dispatch never waits for a consumer.
fn is_held_by_a_queue(state: &State) -> bool {
    const FULL: u64 = 10_000;
    let waiting = || {
        state.subjects.iter().map(|(number, subject)| {
            let next = state.dispatch.next_number(number);
            let groups = subject.groups.iter().filter_map(|group| state.groups.get(group));
            (groups.map(|group| group.unfinished(next)).max(), next)
        })
    };
    (is_on(Planted::FullQueueHoldsDispatch) && waiting().any(|(untaken, _)| untaken.unwrap_or(0) >= FULL))
        || (is_on(Planted::SlowSubjectHoldsDispatch) && waiting().any(|(untaken, _)| untaken.unwrap_or(0) > 0))
        || (is_on(Planted::UnroutedSubjectHoldsDispatch)
            && waiting().any(|(untaken, next)| untaken.is_none() && next > ReadyNumber(0)))
}

/// Adds entries that were moved to a time below the feed's position to the wheel. If a block of a run cannot be read,
/// its entries are rescued first.
fn admit(state: &mut State, effects: &mut Effects) -> Result<()> {
    loop {
        match effects.feed.admit(&mut state.schedule) {
            Ok(()) => return Ok(()),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}

/// Loads the next slice. If a block of a run cannot be read, its entries are rescued first.
fn load(state: &mut State, effects: &mut Effects, window: Window, now: Millis) -> Result<Loaded> {
    loop {
        match effects.feed.load(&mut state.schedule, now, window.ahead_ms, window.entries_max) {
            Ok(loaded) => return Ok(loaded),
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}

/// Proposes to void the entries that cannot be found.
fn propose_lost(effects: &mut Effects, proposals: &mut Proposals) {
    for sequence in std::mem::take(&mut effects.lost) {
        let void = Void::Pending { subject: SubjectNumber(0), sequence };
        proposals.push(1, false, |bytes| encode_void(bytes, void));
    }
}

fn key_and_subject(entry: &Entry) -> (DueKey, SubjectNumber) {
    (entry.key(), entry.subject())
}

fn propose_ready(effects: &mut Effects, due: Vec<Entry>, entries_max: usize, proposals: &mut Proposals) {
    if due.len() <= entries_max {
        if !due.is_empty() {
            proposals.push(1, false, |bytes| encode_ready(bytes, due.iter().map(key_and_subject)));
            effects.note_in_flight(due);
        }
        return;
    }
    for part in due.chunks(entries_max) {
        proposals.push(1, false, |bytes| encode_ready(bytes, part.iter().map(key_and_subject)));
        effects.note_in_flight(part.to_vec());
    }
}

fn room_of_floods(effects: &Effects) -> usize {
    IN_FLIGHT_OF_FLOODS_MAX.saturating_sub(effects.in_flight_entries)
}

/// The due time of the next entry in the feed, or the time to load the next slice.
fn next_call(state: &State, effects: &Effects, window: Window) -> Option<Millis> {
    let pending = state.schedule.pending() > 0;
    let slice = effects.feed.next_load(window.ahead_ms, window.entries_max).filter(|_| pending);
    let room = Room { all: IN_FLIGHT_ENTRIES_MAX, floods: room_of_floods(effects) };
    match (effects.feed.next_due(room), slice) {
        (Some(due), Some(slice)) => Some(due.min(slice)),
        (due, slice) => due.or(slice),
    }
}
