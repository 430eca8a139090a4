//! The counts of pending entries: an entry raises them when it becomes pending, and lowers them when it ends.
//!
//! A fact that ends an entry does not always name the subject and the size of the entry. The entry's own row has both.
//! If that row cannot be read, all pending entries are counted again.

use super::effects::Effects;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::schedule_log::Entry;
use crate::store::names::receipt::SIZE_UNKNOWN;
use crate::store::state::State;
use crate::units::{DueKey, Sequence, SubjectNumber};

/// The statement of a fact about the entry that it ends: the subject (0 if the fact names none) and the bytes of the body
/// ([`SIZE_UNKNOWN`] if the size was not known).
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Told {
    pub(in crate::store) subject: SubjectNumber,
    pub(in crate::store) size: u32,
}

impl Told {
    /// Returns the subject and the size if the fact has both.
    fn both(self) -> Option<(SubjectNumber, u32)> {
        (self.subject.0 > 0 && self.size != SIZE_UNKNOWN).then_some((self.subject, self.size))
    }
}

/// Counts an entry that becomes pending, and returns it with the size of its body.
///
/// # Errors
/// `Storage` if the size has to be read and cannot be read now.
#[inline]
pub(in crate::store) fn begins_pending(state: &mut State, effects: &mut Effects, entry: Entry) -> Result<Entry> {
    let size = size_of(effects, &entry)?;
    state.counts.raise(entry.subject());
    state.totals.raise(entry.due(), size);
    Ok(entry.with_size(Some(size)))
}

/// Lowers the counts for a pending entry that became ready.
#[inline]
pub(in crate::store) fn ends_ready(state: &mut State, effects: &mut Effects, entry: &Entry) {
    if entry.size().is_none() && !state.counts.are_known() {
        // All pending entries will be counted again, so the size is not read.
        state.schedule.forget_ended(entry.sequence());
        return;
    }
    match size_of(effects, entry) {
        Ok(size) => lower(state, entry.key(), entry.subject(), size),
        Err(_) => forget(state, entry.sequence()),
    }
}

/// Lowers the counts for a pending entry that a fact on this entry alone ends. Call this before the entry is marked.
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

/// As [`ends_pending`], for a fact that names only the sequence.
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

/// An entry of unknown subject or size ended: all pending entries are counted again.
fn forget(state: &mut State, sequence: Sequence) {
    state.counts.forget();
    state.schedule.forget_ended(sequence);
}

/// Returns the bytes of an entry's body, which are read if the row does not have them. The size is 0 if the payload is
/// damaged or missing: the counts took it as 0 before.
///
/// # Errors
/// `Storage` if the payload cannot be read now.
#[inline]
fn size_of(effects: &mut Effects, entry: &Entry) -> Result<u32> {
    match entry.size() {
        Some(size) => Ok(size),
        None => Ok(effects.payloads.size_of_entry(effects.storage.as_ref(), entry)?.unwrap_or_default()),
    }
}

/// Returns the subject and size of an entry, from the fact or else from the entry's row.
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
