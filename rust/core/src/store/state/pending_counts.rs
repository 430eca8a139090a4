//! How many entries of each subject are pending, and how much in each minute (see [`super::forecast`]), without
//! looking at any of them: raised by what is placed as pending, lowered by what leaves. Part of the state: a checkpoint has the counts, and
//! the facts behind it go on from there.
//!
//! A fact that ends an entry does not always say of which subject that is, or how large. Then the entry's own row
//! says it; where that cannot be read any more, everything that is pending is counted once.

use std::collections::BTreeMap;

use super::State;
use crate::dispatch_log::BySubject;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::run::DamagedBlock;
use crate::schedule_log::Entry;
use crate::store::apply::effects::Effects;
use crate::store::names::receipt::SIZE_UNKNOWN;
use crate::store::owner::Owner;
use crate::units::{DueKey, Sequence, SubjectNumber};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct PendingCounts {
    by_subject: BySubject<u64>,
    /// True where the counts are not known, and must be taken from a scan.
    is_stale: bool,
}

impl PendingCounts {
    /// How many are pending.
    #[inline]
    pub(in crate::store) fn get(&self, subject: SubjectNumber) -> u64 {
        self.by_subject.get(subject).copied().unwrap_or_default()
    }

    /// Takes over what a checkpoint says.
    pub(in crate::store) fn restore(&mut self, subject: SubjectNumber, count: u64) {
        self.by_subject.admit(subject);
        if let Some(known) = self.by_subject.get_mut(subject) {
            *known = count;
        }
    }

    /// An entry came to be pending.
    #[inline]
    pub(in crate::store) fn raise(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_add(1);
        } else {
            self.restore(subject, 1);
        }
    }

    /// So many entries came to be pending.
    pub(in crate::store) fn raise_by(&mut self, subject: SubjectNumber, count: u64) {
        self.restore(subject, self.get(subject).saturating_add(count));
    }

    /// An entry is pending no more.
    #[inline]
    pub(in crate::store) fn lower(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_sub(1);
        }
    }

    /// From now on nothing is known: for who does not ask, and has no use for looking entries up.
    pub(in crate::store) fn forget(&mut self) {
        self.is_stale = true;
    }

    /// True where the counts are what is pending.
    pub(super) fn are_known(&self) -> bool {
        !self.is_stale
    }

    /// All subjects of which something is pending.
    pub(super) fn to_map(&self) -> BTreeMap<SubjectNumber, u64> {
        self.by_subject.iter().filter(|(_, count)| **count > 0).map(|(subject, count)| (subject, *count)).collect()
    }
}

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

impl State {
    /// How many entries of a subject are pending.
    pub fn pending_of(&self, subject: SubjectNumber) -> u64 {
        self.counts.get(subject)
    }

    /// What is pending of each subject, counted one by one: slow. Blocks of runs that cannot be read
    /// are named instead.
    pub fn count_pending(&self) -> (BTreeMap<SubjectNumber, u64>, Vec<DamagedBlock>) {
        let (mut counted, mut damaged) = (BTreeMap::new(), Vec::new());
        let mut count = |subject: SubjectNumber| {
            let known: &mut u64 = counted.entry(subject).or_default();
            *known = known.saturating_add(1);
        };
        self.schedule.each_pending(&mut |entry| count(entry.subject()), &mut |block| damaged.push(block));
        (counted, damaged)
    }

    /// The counts as kept, of all subjects of which something is pending.
    pub fn pending_counts(&self) -> BTreeMap<SubjectNumber, u64> {
        self.counts.to_map()
    }
}

impl Owner {
    /// Counts all that is pending where that is not known; else it does nothing.
    ///
    /// # Errors
    /// What finding the entries of a damaged block again gives.
    pub(in crate::store) fn settle_counts(&mut self) -> Result<()> {
        if self.state.counts.are_known() {
            return Ok(());
        }
        loop {
            let (cells, damaged) = self.state.count_cells(&self.effects.storage)?;
            if damaged.is_empty() {
                let mut counts = PendingCounts::default();
                for ((subject, _), tally) in &cells {
                    counts.restore(*subject, counts.get(*subject).saturating_add(tally.messages));
                }
                self.state.counts = counts;
                self.state.restart_totals(&cells);
                // Until a checkpoint says it, whoever opens the store counts everything again.
                self.effects.was_counted = true;
                return Ok(());
            }
            for block in &damaged {
                self.effects.rescue(&mut self.state, block)?;
            }
        }
    }
}
