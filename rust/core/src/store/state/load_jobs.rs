//! Recent loads: the jobs, so that a repeated job gets the answer of the first time, and the names of the staged runs,
//! so that no run is adopted twice. Part of the state, by the log's own time.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::record::terms::NameHash;
use crate::run::LoadName;
use crate::store::checkpoint::codec::{FieldReader, FieldWriter};
use crate::units::{Millis, Sequence};

/// The maximum number of remembered jobs.
pub const LOAD_JOBS_MAX: usize = 65_536;
/// How long a job is remembered, in milliseconds: seven days.
pub const LOAD_JOB_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1_000;
/// How old a staged run may be when it is adopted, in milliseconds: twenty hours. It is swept after a day.
pub const LOAD_AGE_MS_MAX: u64 = 20 * 60 * 60 * 1_000;
/// The age at which a staged run that was not adopted is removed, in milliseconds: a day.
pub const LOAD_SWEPT_MS: u64 = 24 * 60 * 60 * 1_000;
/// The maximum number of staged runs that are adopted within [`LOAD_AGE_MS_MAX`].
pub const LOAD_NAMES_MAX: usize = 65_536;

/// Bytes of a job, and of a name, in a checkpoint.
const SAVED_JOB_BYTES: usize = 40;
const SAVED_NAME_BYTES: usize = 24;

/// An adopted load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadJob {
    /// The sequence of its first message.
    pub base: Sequence,
    /// The number of its messages.
    pub count: u64,
    /// The trusted time of its fact.
    pub adopted: Millis,
}

/// The remembered loads: see the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadJobs {
    jobs: BTreeMap<NameHash, LoadJob>,
    /// In log order, which is also the order of their times.
    order: BTreeMap<Sequence, NameHash>,
    names: BTreeSet<LoadName>,
}

impl LoadJobs {
    /// The number of remembered jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if no job is remembered.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The load of this job, unless it was forgotten.
    pub fn get(&self, job: NameHash) -> Option<LoadJob> {
        self.jobs.get(&job).copied()
    }

    /// True if the staged run was adopted. Names of runs that are too old to be adopted are forgotten.
    pub(in crate::store) fn has_adopted(&self, name: &LoadName) -> bool {
        self.names.contains(name)
    }

    /// True if `more` names would exceed the limit.
    pub(in crate::store) fn is_full_of_names(&self, more: usize) -> bool {
        self.names.len().saturating_add(more) > LOAD_NAMES_MAX
    }

    /// Remembers a load.
    pub(in crate::store) fn note(&mut self, job: NameHash, load: LoadJob, names: impl Iterator<Item = LoadName>) {
        if let Some(before) = self.jobs.insert(job, load) {
            self.order.remove(&before.base);
        }
        self.order.insert(load.base, job);
        self.names.extend(names);
    }

    /// Forgets jobs after their time, and the names of runs that are too old to be adopted.
    pub(in crate::store) fn forget_over(&mut self, now: Millis) {
        while let Some(oldest) = self.order.first_entry() {
            let is_over = |load: &LoadJob| now.since(load.adopted) >= LOAD_JOB_KEPT_MS;
            if !self.jobs.get(oldest.get()).is_none_or(is_over) {
                break;
            }
            self.jobs.remove(&oldest.remove());
        }
        while self.names.first().is_some_and(|oldest| is_too_old(oldest, now)) {
            self.names.pop_first();
        }
    }

    /// Writes a count, then for each job, in log order, `job 16 | base u64 | count u64 | adopted_ms u64`; then a count
    /// and the names of adopted runs, ascending, `staged_ms u64 | nonce 16`.
    pub(in crate::store) fn write(&self, out: &mut FieldWriter) {
        out.count(self.order.len());
        for job in self.order.values() {
            let load = self.jobs.get(job).copied();
            out.u64(job.low);
            out.u64(job.high);
            out.u64(load.map_or(0, |load| load.base.0));
            out.u64(load.map_or(0, |load| load.count));
            out.u64(load.map_or(0, |load| load.adopted.0));
        }
        out.count(self.names.len());
        for name in &self.names {
            out.u64(name.staged.0);
            out.array(&name.nonce);
        }
    }

    /// Reads what [`Self::write`] wrote, in a checkpoint whose next sequence is `next`.
    ///
    /// # Errors
    /// `Corrupt` if jobs or names are out of order, or one occurs twice.
    pub(in crate::store) fn read(from: &mut FieldReader<'_>, next: Sequence) -> Result<Self> {
        let mut read = Self::default();
        let mut end = Sequence(0);
        for _ in 0..from.count(SAVED_JOB_BYTES)? {
            let job = NameHash { low: from.u64()?, high: from.u64()? };
            let load = LoadJob { base: Sequence(from.u64()?), count: from.u64()?, adopted: Millis(from.u64()?) };
            let follows = load.base >= end && load.count > 0 && load.base.plus(load.count) <= next;
            if !follows || read.jobs.contains_key(&job) {
                return Err(from.malformed("loads in the order of the log, each job once"));
            }
            end = load.base.plus(load.count);
            read.note(job, load, std::iter::empty());
        }
        for _ in 0..from.count(SAVED_NAME_BYTES)? {
            let name = LoadName { staged: Millis(from.u64()?), nonce: from.array()? };
            if read.names.last().is_some_and(|last| *last >= name) {
                return Err(from.malformed("names of staged runs that ascend"));
            }
            read.names.insert(name);
        }
        Ok(read)
    }
}

/// True if a staged run is too old to be adopted at `now`.
pub fn is_too_old(name: &LoadName, now: Millis) -> bool {
    now.since(name.staged) > LOAD_AGE_MS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn job(low: u64) -> NameHash {
        NameHash { low, high: 1 }
    }

    fn load(base: u64, count: u64, adopted: u64) -> LoadJob {
        LoadJob { base: Sequence(base), count, adopted: Millis(adopted) }
    }

    fn name(staged: u64) -> LoadName {
        LoadName { staged: Millis(staged), nonce: [staged as u8; 16] }
    }

    #[test]
    fn a_job_and_a_name_are_known_until_their_times_are_over() {
        let mut jobs = LoadJobs::default();
        jobs.note(job(1), load(5, 2, 100), [name(90), name(70)].into_iter());
        jobs.note(job(2), load(7, 9, 200), std::iter::empty());
        jobs.forget_over(Millis(100 + LOAD_AGE_MS_MAX - 10));
        assert!(jobs.has_adopted(&name(90)) && !jobs.has_adopted(&name(70)));
        jobs.forget_over(Millis(100 + LOAD_JOB_KEPT_MS - 1));
        assert_eq!((jobs.get(job(1)), jobs.len()), (Some(load(5, 2, 100)), 2));
        jobs.forget_over(Millis(100 + LOAD_JOB_KEPT_MS));
        assert_eq!((jobs.get(job(1)), jobs.get(job(2))), (None, Some(load(7, 9, 200))));
        assert!(!jobs.has_adopted(&name(90)) && jobs.order.len() == 1);
    }

    #[test]
    fn what_is_saved_reads_back_and_what_does_not_follow_is_refused() {
        let mut jobs = LoadJobs::default();
        jobs.note(job(9), load(5, 2, 100), [name(90), name(70)].into_iter());
        jobs.note(job(2), load(7, 9, 200), [name(71)].into_iter());
        let mut out = FieldWriter::default();
        jobs.write(&mut out);
        let read = |next| LoadJobs::read(&mut FieldReader::new("checkpoint", &out.bytes), Sequence(next));
        assert_eq!(read(16).unwrap(), jobs);
        assert!(read(15).is_err(), "it ends behind what is known");
        // The count of the first job, the base and the job of the second, the first name.
        for (at, value) in [(8 + 24, 0), (8 + 40 + 16, 6), (8 + 40, 9), (8 + 80 + 8, 200)] {
            let mut bytes = out.bytes.clone();
            bytes[at] = value;
            assert!(LoadJobs::read(&mut FieldReader::new("checkpoint", &bytes), Sequence(16)).is_err(), "{at}");
        }
    }
}
