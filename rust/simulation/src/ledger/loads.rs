//! Bulk loads. The ledger reads no files, so callers report the messages of staged runs. The ledger decides with plain
//! lists which of them are stored.

use std::collections::BTreeSet;

use delaymq_core::record::adopt::{Adopt, AdoptedRun};
use delaymq_core::run::LoadName;
use delaymq_core::store::{LOAD_AGE_MS_MAX, LOAD_JOB_KEPT_MS, Outcome};
use delaymq_core::units::{Sequence, SubjectNumber};

use super::{Beginning, Ledger, StagedLine};

fn name_of(run: &AdoptedRun) -> LoadName {
    LoadName { staged: run.staged, nonce: run.nonce }
}

impl Ledger {
    /// Learns the messages of a staged run, in the order of its rows.
    pub fn know_staged(&mut self, name: LoadName, lines: Vec<StagedLine>) {
        self.loads.staged.insert(name, lines);
    }

    /// Takes over the staged runs of another ledger.
    pub(crate) fn learn_staged_of(&mut self, other: &Self) {
        self.loads.staged.clone_from(&other.loads.staged);
    }

    pub(super) fn subject_named(&self, name: &str) -> Option<SubjectNumber> {
        self.topics.iter().find(|(_, topic)| topic.name == name).map(|(number, _)| *number)
    }

    pub(super) fn take_adopt(&mut self, at: Sequence, adopt: &Adopt<'_>) -> Outcome {
        let now = self.loads.now;
        let runs: Vec<LoadName> = adopt.runs().map(|run| name_of(&run)).collect();
        let at_place = |is_it: &dyn Fn(&LoadName) -> bool| (0_u32..).zip(&runs).find(|(_, name)| is_it(name));
        let mut seen = BTreeSet::new();
        let mut each = (0_u32..).zip(&runs);
        if let Some((place, _)) = each.find(|(_, name)| !seen.insert(**name)) {
            return Outcome::RunAdopted(place);
        }
        let known = self.loads.done.iter().rev().find(|(job, _, _)| *job == adopt.job);
        if let Some((_, Outcome::Loaded(base, count), _)) =
            known.filter(|(_, _, adopted)| now.since(*adopted) < LOAD_JOB_KEPT_MS)
        {
            return Outcome::LoadedBefore(*base, *count);
        }
        let is_old = |name: &LoadName| now.since(name.staged) > LOAD_AGE_MS_MAX;
        if let Some((place, _)) = at_place(&|name| self.loads.adopted.contains(name) && !is_old(name)) {
            return Outcome::RunAdopted(place);
        }
        if let Some((place, _)) = at_place(&is_old) {
            return Outcome::RunTooOld(place);
        }
        let mut next = at;
        for name in &runs {
            for line in self.loads.staged.get(name).cloned().unwrap_or_default() {
                let subject = self.subject_named(&line.subject).unwrap_or_default();
                self.begin(next, Beginning { subject, attempt: 1, due: line.due, size: line.size }, false);
                next = next.next();
            }
        }
        let outcome = Outcome::Loaded(at, u64::from(adopt.rows));
        self.loads.done.push((adopt.job, outcome, now));
        self.loads.adopted.extend(runs);
        outcome
    }
}
