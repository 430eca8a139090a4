//! Series of recurring messages begin and end, and the messages that are occurrences of a series are judged.
//! A series has at most one pending message and stores no occurrence twice, in whatever order facts were proposed.

use std::sync::Arc;

use super::effects::{Effects, Outcome};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::record::command::Cancel;
use crate::record::recurring::{NewSeries, Occurrence, Recur};
use crate::record::terms::IfExists;
use crate::schedule_log::{DUE_MAX, Entry, EntryState};
use crate::store::apply::placement::{Arrival, apply_cancel, place};
use crate::store::state::State;
use crate::store::state::awaited::Awaited;
use crate::store::state::recurring::{ALL_SERIES_BYTES_MAX, Recurs, SERIES_BYTES_MAX, SERIES_MAX, Series};
use crate::units::{DueKey, Sequence};

pub(super) fn apply_recur(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    recur: &Recur<'_>,
) -> Result<Outcome> {
    let ending = match recur {
        Recur::Begin(new) => return begin(state, effects, arrival, new),
        Recur::End { subject, name } => state.recurring.named(*subject, name),
        // A series that has a pending message is not over, whatever the fact says.
        Recur::Over { series } => state.recurring.get(*series).filter(|one| one.pending.is_none()).map(|_| *series),
    };
    let Some(number) = ending else { return Ok(Outcome::NotFound) };
    Ok(Outcome::SeriesEnded(end(state, effects, number)?))
}

fn begin(state: &mut State, effects: &mut Effects, arrival: Arrival, new: &NewSeries<'_>) -> Result<Outcome> {
    if state.subjects.get(new.subject).is_none() {
        return Ok(Outcome::NotFound);
    }
    let before = state.recurring.named(new.subject, new.name);
    if before.is_some() && new.if_exists != IfExists::Replace {
        return Ok(Outcome::SeriesThere);
    }
    let recurs = Recurs::of(new);
    let freed = before.and_then(|number| state.recurring.get(number)).map_or(0, |series| series.recurs.bytes());
    let all_bytes = state.recurring.bytes().saturating_sub(freed).saturating_add(recurs.bytes());
    if recurs.bytes() > SERIES_BYTES_MAX || all_bytes > ALL_SERIES_BYTES_MAX {
        return Ok(Outcome::SeriesTooLarge);
    }
    if before.is_none() && state.recurring.len() >= SERIES_MAX {
        return Ok(Outcome::SeriesFull);
    }
    let ended = match before {
        Some(number) => end(state, effects, number)?,
        None => None,
    };
    let series = Series { recurs: Arc::new(recurs), last_due: new.after, pending: None };
    state.recurring.begin(arrival.sequence, series);
    Ok(Outcome::SeriesBegun(ended))
}

/// Ends a series and cancels its pending message. Returns the key of that message.
fn end(state: &mut State, effects: &mut Effects, number: Sequence) -> Result<Option<DueKey>> {
    let Some(series) = state.recurring.end(number) else { return Ok(None) };
    let Some(target) = series.pending else { return Ok(None) };
    let size = u32::try_from(series.recurs.body.len()).unwrap_or(u32::MAX);
    apply_cancel(state, effects, Cancel { target, subject: series.recurs.subject, size })?;
    Ok(Some(target))
}

/// Notes that the next message of the batch is an occurrence of a series.
pub(super) fn apply_occurrence(state: &mut State, arrival: Arrival, occurrence: Occurrence) {
    state.awaited = Some(Awaited { message: arrival.sequence.next(), occurrence });
}

/// Stores an occurrence if it is the next one of its series: no message of the series is pending, and the last due time
/// is the one that the fact names.
pub(super) fn apply_occurring(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    awaited: Awaited,
    entry: Entry,
) -> Result<()> {
    let Occurrence { series: number, after } = awaited.occurrence;
    let (due, subject) = (entry.due(), entry.subject());
    let is_owed = |series: &Series| {
        let is_next = series.pending.is_none() && series.last_due == after || is_on(Planted::OccurrenceUnjudged);
        is_next && series.recurs.subject == subject && due > after && due <= DUE_MAX
    };
    if !state.recurring.get(number).is_some_and(is_owed) {
        state.recurring.is_judged(number);
        state.schedule.skip(arrival.sequence);
        effects.outcomes.push((arrival.sequence, Outcome::NotFound));
        return Ok(());
    }
    place(state, effects, arrival, entry)?;
    let is_pending = state.schedule.state(arrival.sequence) == EntryState::Pending;
    state.recurring.occurred(number, due, is_pending.then(|| entry.key()));
    effects.outcomes.push((arrival.sequence, Outcome::Done));
    Ok(())
}
