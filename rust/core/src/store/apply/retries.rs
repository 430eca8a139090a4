//! Facts that end messages without an acknowledgement: retries, dead letters, redrives of dead letters, and expiry.

use super::effects::{Effects, Outcome};
use super::groups::ensure_group;
use crate::dispatch_log::Posting;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::queues::Group;
use crate::record::expire::{EXPIRED_REASON, Expire, ExpiredBy};
use crate::record::limits::group_subject;
use crate::record::retry::{Destination, Redrive, Retry};
use crate::schedule_log::Entry;
use crate::store::apply::placement::{Arrival, place, place_at_once};
use crate::store::history::find_in_log;
use crate::store::query::listing::count_of;
use crate::store::recovery::ready_rescue::rescue_one_ready;
use crate::store::state::State;
use crate::units::{DueKey, Location, ReadyNumber, Sequence, SubjectNumber};

/// Ends a delivery and begins its message again in the target subject. One fact does both, so the message is never in
/// two places or in none. The first retry adds the group to the target subject, from its first unfinished message,
/// whatever the group's own start was. A dead letter is ready at once.
pub(super) fn apply_retry(state: &mut State, effects: &mut Effects, arrival: Arrival, retry: &Retry<'_>) -> Result<()> {
    let nothing = |state: &mut State| {
        state.schedule.skip(arrival.sequence);
        Ok(())
    };
    if state.subjects.get(retry.target).is_none() {
        return nothing(state);
    }
    let Some(group) = state.groups.get(&retry.group) else { return nothing(state) };
    let (subject, name) = (group.subject, group.name.clone());
    let holds = group.consumers.get(&retry.consumer).and_then(|consumer| consumer.held.get(retry.offset));
    if holds.is_none_or(|held| held.number != retry.number) && !is_on(Planted::RetryUnjudged) {
        return nothing(state);
    }
    let origin = payload_of(state, effects, subject, retry.number)?;
    let origin = origin.unwrap_or((retry.payload_sequence, Location::NOWHERE, None));
    if let Some(group) = state.groups.get_mut(&retry.group).filter(|_| !is_on(Planted::GivenBackStays)) {
        group.take(retry.consumer, retry.offset, retry.number);
    }
    if !is_on(Planted::RetryGroupNotMade) {
        let first = state.dispatch.finished_below(retry.target);
        ensure_group(state, retry.target, first, &name);
    }
    let entry = entry_of(retry, arrival.sequence, origin);
    match retry.destination {
        Destination::Again => place(state, effects, arrival, entry)?,
        _ if is_on(Planted::DeadLetterDropped) => state.schedule.skip(arrival.sequence),
        Destination::DeadLetter { reason } => {
            if is_on(Planted::ExpiredByWords) && reason == EXPIRED_REASON {
                count_expired(state, subject, 1);
            }
            place_at_once(state, effects, entry);
        }
        Destination::Expired { .. } => {
            count_expired(state, subject, 1);
            place_at_once(state, effects, entry);
        }
    }
    state.settle(subject);
    effects.woken.insert(retry.group);
    Ok(())
}

/// Counts messages that have expired, those in a group's retry subject with the subject that the group consumes.
fn count_expired(state: &mut State, subject: SubjectNumber, count: u64) {
    let name = state.subjects.get(subject).map_or("", |subject| subject.name.as_str());
    let consumed = group_subject(name).and_then(|parts| state.subjects.number(parts.subject)).unwrap_or(subject);
    if let Some(subject) = state.subjects.get_mut(consumed) {
        subject.expired = subject.expired.saturating_add(count);
    }
}

/// The sequence of a payload, its place, and the bytes of its body if they are known.
type Origin = (Sequence, Location, Option<u32>);

/// Returns the entry of a retry: under the retry's sequence, with the payload at its old place.
fn entry_of(retry: &Retry<'_>, sequence: Sequence, origin: Origin) -> Entry {
    let ordered_by = if is_on(Planted::MovedKeepsSequence) { origin.0 } else { sequence };
    let payload_sequence = if is_on(Planted::PayloadSequenceLost) { sequence } else { origin.0 };
    let key = DueKey { due: retry.due, sequence: ordered_by };
    let attempt = u16::try_from(retry.attempt).unwrap_or(u16::MAX);
    Entry::new(key, attempt, payload_sequence, origin.1, retry.target).with_size(retry.size.or(origin.2))
}

/// Returns where the payload of a ready message is. `None` if it cannot be found: the new entry is then voided when its
/// payload is read.
fn payload_of(
    state: &mut State,
    effects: &Effects,
    subject: SubjectNumber,
    number: ReadyNumber,
) -> Result<Option<Origin>> {
    if matches!(state.dispatch.posting(subject, number), Posting::InLog) {
        let found = find_in_log(&effects.storage, state, subject, number)?;
        return Ok(found.map(|origin| (origin.payload_sequence(), origin.location(), origin.size())));
    }
    let origin = match state.dispatch.find(subject, number) {
        Err(error @ Error::Storage { .. }) => return Err(error),
        Ok(origin) => origin,
        Err(_) => rescue_one_ready(&effects.storage, state, subject, number)?,
    };
    Ok(origin.map(|origin| (origin.payload_sequence(), origin.location(), origin.size())))
}

/// Finishes a dead letter and begins its message again, once: a second redrive finds it finished.
pub(super) fn apply_redrive(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    redrive: &Redrive,
) -> Result<()> {
    let group = state.groups.get(&redrive.group).filter(|_| state.subjects.get(redrive.target).is_some());
    let dead = group.filter(|group| redrive.number < state.dispatch.next_number(group.subject));
    let is_done = |group: &Group| group.done.contains(redrive.number.0) && !is_on(Planted::RedriveUnjudged);
    let dead = dead.filter(|group| !is_done(group));
    let Some((subject, name)) = dead.map(|group| (group.subject, group.name.clone())) else {
        state.schedule.skip(arrival.sequence);
        effects.outcomes.push((arrival.sequence, Outcome::NotFound));
        return Ok(());
    };
    let origin = payload_of(state, effects, subject, redrive.number)?;
    let origin = origin.unwrap_or((redrive.payload_sequence, Location::NOWHERE, None));
    if let Some(group) = state.groups.get_mut(&redrive.group) {
        group.void(redrive.number);
    }
    let first = state.dispatch.finished_below(redrive.target);
    ensure_group(state, redrive.target, first, &name);
    let key = DueKey { due: redrive.due, sequence: arrival.sequence };
    let entry = Entry::new(key, 1, origin.0, origin.1, redrive.target).with_size(origin.2);
    place(state, effects, arrival, entry)?;
    state.settle(subject);
    effects.outcomes.push((arrival.sequence, Outcome::Done));
    Ok(())
}

/// Finishes ready messages for every group that does not hold them, and for future groups. A message that expired by its
/// own time is also finished for the group that was to receive it, and counted once, whatever groups drop it. Returns how
/// many messages were counted.
pub(super) fn apply_expire(state: &mut State, effects: &mut Effects, expire: &Expire<'_>) -> u64 {
    let number = expire.subject;
    let (floor, next) = (state.dispatch.finished_below(number), state.dispatch.next_number(number));
    let Some(subject) = state.subjects.get_mut(number) else { return 0 };
    let mut count = 0_u64;
    for range in expire.numbers.iter() {
        let (first, end) = (range.first.max(floor.0), range.first.saturating_add(range.count).min(next.0));
        let mut found = Vec::new();
        if subject.groups.is_empty() && first < end {
            found.extend(subject.gone.gaps(first, end));
        }
        for group in subject.groups.iter().filter(|_| first < end) {
            if let Some(group) = state.groups.get_mut(group) {
                match expire.by {
                    ExpiredBy::Themselves { group: own, .. } if own == group.number => {
                        group.drop_expired(first, end, &mut found);
                    }
                    _ => group.expire(first, end, &mut found),
                }
            }
        }
        if matches!(expire.by, ExpiredBy::Themselves { .. }) {
            // The first group that dropped the message has counted it. This one held it then.
            found = found.into_iter().flat_map(|(first, end)| subject.gone.gaps(first, end)).collect();
        }
        count = count.saturating_add(count_of(found));
        // No group reads again what was finished a moment before it was expired.
        subject.gone.insert_range(range.first, end);
    }
    if let ExpiredBy::Operator { due_before } = expire.by {
        subject.expired_before = subject.expired_before.max(due_before);
    }
    effects.woken.extend(subject.groups.iter().copied());
    count_expired(state, number, count);
    state.settle(number);
    count
}
