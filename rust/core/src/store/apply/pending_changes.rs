//! The counts of pending entries, raised by what is placed as pending and lowered by what leaves.
//!
//! A fact that ends an entry does not always say of which subject that is, or how large. Then the entry's own row
//! says it; where that cannot be read any more, everything that is
//! pending is counted once.

use super::effects::Effects;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::schedule_log::Entry;
use crate::store::names::receipt::SIZE_UNKNOWN;
use crate::store::state::State;
use crate::units::{DueKey, Sequence, SubjectNumber};

/// What a fact says of the entry that it ends: the subject, 0 where it names none, and the bytes of its
/// body, [`SIZE_UNKNOWN`] where they were not known.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Told {
    pub(in crate::store) subject: SubjectNumber,
    pub(in crate::store) size: u32,
}

impl Told {
    /// Both, where both are told.
    fn both(self) -> Option<(SubjectNumber, u32)> {
        (self.subject.0 > 0 && self.size != SIZE_UNKNOWN).then_some((self.subject, self.size))
    }
}

/// An entry comes to be pending, and the bytes of its body are known from now on.
///
/// # Errors
/// `Storage` where they have to be read and could not be: what is noted as its size stays with it.
#[inline]
pub(in crate::store) fn begins_pending(state: &mut State, effects: &mut Effects, entry: Entry) -> Result<Entry> {
    let size = size_of(effects, &entry)?;
    state.counts.raise(entry.subject());
    state.totals.raise(entry.due(), size);
    Ok(entry.with_size(Some(size)))
}

/// A pending entry became ready.
#[inline]
pub(in crate::store) fn ends_ready(state: &mut State, effects: &mut Effects, entry: &Entry) {
    if entry.size().is_none() && !state.counts.are_known() {
        // Everything is counted anyway: nothing is read for it.
        state.schedule.forget_ended(entry.sequence());
        return;
    }
    match size_of(effects, entry) {
        Ok(size) => lower(state, entry.key(), entry.subject(), size),
        Err(_) => forget(state, entry.sequence()),
    }
}

/// A pending entry ends by a fact about it alone, before that is marked.
pub(in crate::store) fn ends_pending(state: &mut State, effects: &mut Effects, key: DueKey, told: Told) -> Result<()> {
    if is_on(Planted::CountNotLowered) || !state.counts.are_known() {
        state.schedule.forget_ended(key.sequence);
        return Ok(());
    }
    match subject_and_size_of(state, effects, key, told)? {
        Some((subject, size)) if is_on(Planted::ForecastNotLowered) => {
            state.counts.lower(subject);
            state.schedule.note_ended(key, subject, size);
        }
        Some((subject, size)) => lower(state, key, subject, size),
        None => forget(state, key.sequence),
    }
    Ok(())
}

/// As [`ends_pending`], where the fact says nothing but the sequence.
pub(in crate::store) fn ends_pending_unkeyed(state: &mut State, sequence: Sequence) {
    match state.schedule.entry_in_memory(sequence).map(|entry| (entry, entry.size())) {
        Some((entry, Some(size))) => lower(state, entry.key(), entry.subject(), size),
        _ => forget(state, sequence),
    }
}

fn lower(state: &mut State, key: DueKey, subject: SubjectNumber, size: u32) {
    state.counts.lower(subject);
    state.totals.lower(key.due, size);
    state.schedule.note_ended(key, subject, size);
}

/// Something ended of which nobody knows what it was: everything is counted once.
fn forget(state: &mut State, sequence: Sequence) {
    state.counts.forget();
    state.schedule.forget_ended(sequence);
}

/// Bytes of an entry's body, read where its row does not say them. One that is damaged or nowhere
/// has none: it was counted so when it came, or when all was counted.
///
/// # Errors
/// `Storage` where it could not be read now.
#[inline]
fn size_of(effects: &mut Effects, entry: &Entry) -> Result<u32> {
    match entry.size() {
        Some(size) => Ok(size),
        None => Ok(effects.payloads.size_of_entry(effects.storage.as_ref(), entry)?.unwrap_or_default()),
    }
}

/// The subject and size of an entry: as the fact says, or as its row does.
pub(in crate::store) fn subject_and_size_of(
    state: &mut State,
    effects: &mut Effects,
    key: DueKey,
    told: Told,
) -> Result<Option<(SubjectNumber, u32)>> {
    if let Some(told) = told.both() {
        return Ok(Some(told));
    }
    loop {
        match state.schedule.row(key) {
            Ok(entry) => {
                let sized = |entry: Entry| Some((entry.subject(), size_of(effects, &entry).ok()?));
                return Ok(entry.and_then(sized));
            }
            Err(damage) => effects.rescue(state, &damage)?,
        }
    }
}
