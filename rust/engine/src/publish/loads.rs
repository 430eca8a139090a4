//! Bulk loads: the caller's thread checks staged runs, and one fact adopts them.

use std::collections::BTreeSet;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::adopt::{AdoptedRun, encode_adopt};
use delaymq_core::record::limits::{at_most, check_name};
use delaymq_core::record::name::encode_subject;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{StagedRun, check_staged, check_still_staged};
use delaymq_core::store::{LOAD_NAMES_MAX, LoadJob, Outcome, is_too_old, name_hash};
use delaymq_core::units::{Millis, Sequence, Span};

pub use delaymq_core::record::adopt::{LOAD_ROWS_MAX, LOAD_RUNS_MAX};
pub use delaymq_core::store::{LOAD_AGE_MS_MAX, LOAD_JOB_KEPT_MS, LOAD_JOBS_MAX};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::submission;
use crate::drive::driver::LockedOwner;
use crate::invalid;
use crate::names::Subject;
use crate::shared::Shared;
use crate::store::Store;

/// The most bytes of facts that name new subjects in one submission, if others must go before it.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// The result of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The sequence of its first message. The others follow densely, run after run, each run by due time.
    pub base: Sequence,
    /// How many messages it has.
    pub count: u64,
    /// True if a load of this job was adopted before, so that this call did nothing.
    pub again: bool,
}

/// Staged runs whose every byte was read.
struct Checked {
    subjects: Vec<Subject>,
    first_due: Millis,
}

impl Store {
    /// Stores all messages of these staged runs, or none of them, by one fact. Returns when it is durable, as the
    /// store's durability promises, and applied. A job that was done within [`LOAD_JOB_KEPT_MS`] has the result of the
    /// first time, whatever its runs are now.
    ///
    /// The caller's thread reads every byte of the runs before anything is submitted.
    ///
    /// # Errors
    /// `InvalidArgument` naming `job` if that is no name, or was done with another number of messages; naming `runs` if
    /// there are none, if one is named twice, was adopted before or was staged more than [`LOAD_AGE_MS_MAX`] ago;
    /// naming `due` if a message is due later than the store accepts. `TooLarge` naming `runs`, `messages` or
    /// `subjects`. `MissingFile`, `Corrupt`, `NewerFormat` if a run is not as it was staged. `NamesFull` naming `job`
    /// or `runs` if no more can be remembered. `DiskFull`, `BelowMark`, `Storage`, `Closed`, `ForkedProcess`. Nothing
    /// is stored then. On a store that leads copies, `NotEnoughCopies` says whether anything is stored: the files come to all copies
    /// first. After `Poisoned`, open the store again and repeat the job: it returns what happened.
    pub fn load(&self, job: &str, runs: &[StagedRun]) -> Result<Loaded> {
        let shared = &self.shared;
        shared.check()?;
        shared.check_intake()?;
        check_name("job", job)?;
        let hash = name_hash("", job);
        let count = check_described(runs)?;
        let known = self.look(|state| Ok(state.load_jobs.get(hash)))?;
        let (now, _) = shared.now();
        // A job whose time is over is forgotten by the next adoption.
        let is_kept = |load: &LoadJob| now.since(load.adopted) < LOAD_JOB_KEPT_MS;
        if let Some(LoadJob { base, count: before, .. }) = known.filter(is_kept) {
            return answer_again(job, base, before, count);
        }
        let Checked { subjects, first_due } = shared.check_runs(runs)?;
        shared.hold_on_copies(runs)?;
        match shared.adopt_runs(hash, runs, subjects, first_due)? {
            Outcome::Loaded(base, count) => {
                shared.metrics.published.add(count);
                Ok(Loaded { base, count, again: false })
            }
            Outcome::LoadedBefore(base, before) => answer_again(job, base, before, count),
            refused => Err(refusal(refused, runs)),
        }
    }
}

impl Shared {
    /// Readers of payloads learn of loaded runs before any consumer gets their messages.
    pub(crate) fn tell_loads(&self, locked: &mut LockedOwner) {
        let changed = Some(locked.owner.loads_changed());
        if locked.loads_told != changed {
            locked.loads_told = changed;
            self.payloads.know_loaded(locked.owner.state().loaded_runs());
        }
    }

    /// # Errors
    /// As [`Store::load`].
    fn check_runs(&self, runs: &[StagedRun]) -> Result<Checked> {
        let (now, from) = self.now();
        if let Some(old) = runs.iter().find(|run| is_too_old(&run.name, now)) {
            return Err(too_old(old));
        }
        let mut checked = Checked { subjects: Vec::new(), first_due: Millis(u64::MAX) };
        let mut names: BTreeSet<String> = BTreeSet::new();
        for named in runs {
            let staged = check_staged(self.storage.as_ref(), named)?;
            if staged.last_due.since(from) > self.options.delay_ms_max {
                let expected = format!("at most {} ahead", Span(self.options.delay_ms_max));
                let found = format!("{} ahead in {}", Span(staged.last_due.since(from)), named.name.path());
                return Err(invalid("due", expected, found));
            }
            checked.first_due = checked.first_due.min(staged.first_due);
            names.extend(staged.subjects().iter().cloned());
        }
        for name in names {
            checked.subjects.push(self.names.subject_within(&name, self.named.limits().subjects_max)?);
        }
        checked.subjects.retain(|subject| subject.needs_fact);
        Ok(checked)
    }

    /// Submits the adoption, with the subjects that it needs, and waits for its outcome.
    fn adopt_runs(
        &self,
        job: NameHash,
        runs: &[StagedRun],
        mut subjects: Vec<Subject>,
        first_due: Millis,
    ) -> Result<Outcome> {
        let named = |run: &StagedRun| AdoptedRun {
            staged: run.name.staged,
            nonce: run.name.nonce,
            length: run.length,
            digest: run.digest,
            rows: u32::try_from(run.rows).unwrap_or(u32::MAX),
        };
        let named: Vec<AdoptedRun> = runs.iter().map(named).collect();
        let adopts = named.iter().fold(0_u32, |rows, run| rows.saturating_add(run.rows));
        let mut records = Vec::new();
        encode_adopt(&mut records, job, &named);
        at_most("runs", self.submission_bytes_max(), records.len())?;
        let room = self.submission_bytes_max().saturating_sub(records.len()).min(NAMES_BYTES_MAX);
        let mut names = encode_names(&mut subjects, room);
        while !subjects.is_empty() {
            // A subject without messages does no harm, and the submissions behind it need not name it again.
            self.ask(&names.records, names.subjects.len(), Class::Growing, false)?;
            self.names.submitted(&names.subjects);
            names = encode_names(&mut subjects, room);
        }
        names.records.append(&mut records);
        // Reading all of them takes a while. A run that the fact names and that is gone by then would stop the store.
        runs.iter().try_for_each(|run| check_still_staged(self.storage.as_ref(), run))?;
        let submission = submission(&names.records, names.subjects.len().saturating_add(1), Class::Growing);
        let urgency = CommitUrgency { earliest_due: first_due, ..CommitUrgency::URGENT };
        let range = self.submit_expected(Submission { adopts, ..submission }, urgency)?;
        self.names.submitted(&names.subjects);
        let fact = Sequence(range.end.0.saturating_sub(u64::from(adopts)));
        self.lead(range.end);
        self.wait_visible(range.end, None).map_err(|error| self.left_open(error))?;
        // Even if applying it failed, the fact is in the log: the same job again returns the result.
        self.apply_until(range.end).map_err(|error| self.check().err().unwrap_or(error))?;
        let outcome = self.outcomes.take(fact).ok_or(Error::Closed)?;
        self.check_kept(range.end).map(|()| outcome)
    }
}

/// Facts that name subjects.
struct Names {
    records: Vec<u8>,
    subjects: Vec<Subject>,
}

/// Takes as many subjects as their facts have room, at least one.
fn encode_names(subjects: &mut Vec<Subject>, room: usize) -> Names {
    let mut names = Names { records: Vec::new(), subjects: Vec::new() };
    while let Some(subject) = subjects.pop() {
        let before = names.records.len();
        encode_subject(&mut names.records, subject.number, &subject.name);
        if names.records.len() > room && !names.subjects.is_empty() {
            names.records.truncate(before);
            subjects.push(subject);
            break;
        }
        names.subjects.push(subject);
    }
    names
}

/// The number of messages that the descriptions of these runs add up to.
fn check_described(runs: &[StagedRun]) -> Result<u64> {
    at_most("runs", LOAD_RUNS_MAX, runs.len())?;
    if runs.is_empty() {
        return Err(invalid("runs", "one run at least", "none"));
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = runs.iter().find(|run| !names.insert(run.name)) {
        return Err(invalid("runs", "each run once", format!("{} again", twice.name.path())));
    }
    if let Some(empty) = runs.iter().find(|run| run.rows == 0) {
        return Err(invalid("runs", "runs with messages", format!("{} with none", empty.name.path())));
    }
    let count = runs.iter().fold(0_u64, |count, run| count.saturating_add(run.rows));
    if count > LOAD_ROWS_MAX {
        return Err(Error::TooLarge { argument: "messages", limit: LOAD_ROWS_MAX, found: count });
    }
    Ok(count)
}

fn answer_again(job: &str, base: Sequence, before: u64, count: u64) -> Result<Loaded> {
    if before == count {
        return Ok(Loaded { base, count, again: true });
    }
    let expected = format!("{before} messages, with which it was done before");
    Err(invalid("job", expected, format!("{job:?} with {count}")))
}

fn too_old(run: &StagedRun) -> Error {
    invalid("runs", format!("runs that were staged within {}", Span(LOAD_AGE_MS_MAX)), run.name.path())
}

fn refusal(found: Outcome, runs: &[StagedRun]) -> Error {
    let at = |place: u32| runs.get(place as usize);
    match found {
        Outcome::RunTooOld(place) => at(place).map_or(Error::Closed, too_old),
        Outcome::RunAdopted(place) => {
            let found = at(place).map_or_else(String::new, |run| run.name.path());
            invalid("runs", "runs that no job has loaded", found)
        }
        Outcome::JobsFull => Error::NamesFull { argument: "job", limit: LOAD_JOBS_MAX as u64 },
        Outcome::RunsFull => Error::NamesFull { argument: "runs", limit: LOAD_NAMES_MAX as u64 },
        _ => Error::Closed,
    }
}
