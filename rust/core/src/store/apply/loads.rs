//! A load adopts staged runs: one fact makes all their messages pending. Only the footers and cells of the runs are
//! read, no row.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::effects::{Effects, Outcome};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::adopt::{Adopt, AdoptedRun};
use crate::run::{LoadName, Run, StagedRun};
use crate::store::apply::placement::Arrival;
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::load_jobs::{LOAD_JOBS_MAX, LoadJob, is_too_old};
use crate::store::state::{KnownRun, State};
use crate::units::{RunNumber, Sequence};

/// Judges a load and adopts its runs. The fact uses up its sequences even if the load is refused.
///
/// # Errors
/// `MissingFile`, `Corrupt` if a run is not as the fact describes it: the run was checked before the fact was proposed,
/// so the store must stop. `Storage`.
pub(in crate::store) fn apply_adopt(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    adopt: &Adopt<'_>,
) -> Result<Outcome> {
    let now = arrival.time.trusted();
    state.load_jobs.forget_over(now);
    if let Some(refused) = refusal(state, arrival, adopt) {
        state.schedule.skip_many(arrival.sequence, u64::from(adopt.rows));
        return Ok(refused);
    }
    let load = LoadJob { base: arrival.sequence, count: u64::from(adopt.rows), adopted: now };
    let mut base = load.base;
    for named in adopt.runs().map(staged) {
        take_in(state, effects, arrival, &named, base)?;
        base = base.plus(named.rows);
    }
    state.load_jobs.note(adopt.job, load, adopt.runs().map(|run| staged(run).name));
    Ok(Outcome::Loaded(load.base, load.count))
}

fn refusal(state: &State, arrival: Arrival, adopt: &Adopt<'_>) -> Option<Outcome> {
    let mut seen = BTreeSet::new();
    if let Some(place) = adopt.runs().position(|run| !seen.insert(staged(run).name)) {
        return Some(Outcome::RunAdopted(u32::try_from(place).unwrap_or(u32::MAX)));
    }
    if !is_on(Planted::AdoptsTwice) {
        if let Some(known) = state.load_jobs.get(adopt.job) {
            return Some(Outcome::LoadedBefore(known.base, known.count));
        }
        if let Some(place) = place_of(adopt, |name| state.load_jobs.has_adopted(name)) {
            return Some(Outcome::RunAdopted(place));
        }
    }
    let now = arrival.time.trusted();
    if let Some(place) = place_of(adopt, |name| is_too_old(name, now)) {
        return Some(Outcome::RunTooOld(place));
    }
    if state.load_jobs.len() >= LOAD_JOBS_MAX {
        return Some(Outcome::JobsFull);
    }
    let count = adopt.runs().count();
    let last = state.next_run.plus(u32::try_from(count).unwrap_or(u32::MAX));
    (state.load_jobs.is_full_of_names(count) || last > RunNumber::END).then_some(Outcome::RunsFull)
}

/// Returns the place of the first run that `is_bad` holds for.
fn place_of(adopt: &Adopt<'_>, is_bad: impl Fn(&LoadName) -> bool) -> Option<u32> {
    let place = adopt.runs().map(|run| staged(run).name).position(|name| is_bad(&name))?;
    u32::try_from(place).ok()
}

fn take_in(
    state: &mut State,
    effects: &mut Effects,
    arrival: Arrival,
    named: &StagedRun,
    base: Sequence,
) -> Result<()> {
    let (number, now) = (state.next_run, arrival.time.trusted());
    let subjects = &state.subjects;
    let who = (number, &state.stream.id);
    let run = Run::open_adopted(effects.storage.as_ref(), named, who, (base, now), &|name| subjects.number(name))?;
    // Close the file: a load has up to 4,096 runs, and a store may have many loads.
    let run = Arc::new(run.let_go(&effects.storage));
    let (counts, totals) = (&mut state.counts, &mut state.totals);
    let counted = run.each_cell(None, &mut |cell| {
        counts.raise_by(cell.subject, cell.tally.messages);
        totals.add(cell.minute, cell.tally);
    });
    match counted {
        Err(error @ Error::Storage { .. }) => return Err(error),
        // As with damaged cells of any other run, all pending entries are counted again.
        Err(_) => counts.forget(),
        Ok(()) => {}
    }
    let mut subjects = FileSubjects::none();
    if let Some(relation) = run.relation() {
        relation.subjects().iter().for_each(|subject| subjects.note(*subject));
    }
    state.next_run = number.next();
    state.schedule.adopt(Arc::clone(&run), now)?;
    if let Some(first) = run.first_key() {
        effects.feed.go_back_before(first.due_key());
    }
    effects.has_adopted = true;
    state.runs.insert(number, KnownRun { run, created: now, subjects });
    Ok(())
}

/// Converts a run of the fact into the staged run that it names.
pub(in crate::store) fn staged(run: AdoptedRun) -> StagedRun {
    let name = LoadName { staged: run.staged, nonce: run.nonce };
    StagedRun { name, length: run.length, digest: run.digest, rows: u64::from(run.rows) }
}
