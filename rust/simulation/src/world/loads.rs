//! Bulk loads: messages are staged next to the store and adopted, all or none, and once however often the job is tried.

use delaymq_core::error::Error;
use delaymq_core::record::terms::NameHash;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::store::{LOAD_AGE_MS_MAX, LOAD_SWEPT_MS, Outcome};
use delaymq_core::units::{DueKey, Millis, Sequence, SubjectNumber};

use super::World;
use super::asked::{Command, Job};
use crate::ledger::StagedLine;
use crate::node::{Due, NewRow, stage};

/// Jobs that may be submitted again.
const JOBS_MAX: usize = 12;

impl World {
    /// An operation about loads.
    pub(super) fn go_on_with_loads(&mut self) {
        match self.chance.below(20) {
            0..=8 => self.load_new(),
            9..=12 => self.load_again(),
            13..=15 => self.settle(),
            16..=17 => self.step(),
            18 if self.plan.recurring_percent == 0 && self.chance.percent(30) => {
                // Staged runs grow old.
                let by_ms = self.chance.one_of(&[LOAD_AGE_MS_MAX, LOAD_AGE_MS_MAX + 1, LOAD_SWEPT_MS]);
                self.clock.advance(by_ms);
                self.note(&format!("it is {by_ms} ms later"));
            }
            _ => {
                // These runs are never adopted.
                let rows = self.rows();
                self.stage(rows);
            }
        }
    }

    fn rows(&mut self) -> Vec<NewRow> {
        let count = self.chance.one_of(&[1, 2, 5, 12]);
        let same = self.chance.percent(20).then(|| self.due());
        let mut rows = Vec::new();
        for _ in 0..count {
            let now = self.node.as_ref().map_or(Millis(0), |node| node.reading().now);
            let due = match same.unwrap_or_else(|| self.due()) {
                Due::After(delay_ms) => now.plus(delay_ms),
                Due::At(due) => due,
            };
            let subject = self.some_subject();
            rows.push(NewRow { subject, due, body: self.short_body() });
        }
        rows
    }

    /// Writes staged runs. The rows come back in the order of their sequences.
    fn stage(&mut self, rows: Vec<NewRow>) -> Option<(Vec<NewRow>, Vec<StagedRun>)> {
        let now = self.node.as_ref()?.reading().now;
        let name = LoadName { staged: now, nonce: self.chance.bytes16() };
        let rows_max = u32::try_from(self.chance.one_of(&[1, 3, 100])).unwrap_or(1);
        let staged = stage(self.disk.shared().as_ref(), &rows, name, rows_max);
        let runs = self.survive("stage", staged)?;
        let mut sorted = rows;
        sorted.chunks_mut(rows_max as usize).for_each(|part| part.sort_by_key(|row| row.due));
        let mut image = self.disk.storage().image();
        let mut left = sorted.as_slice();
        for run in &runs {
            let (here, rest) = left.split_at(usize::try_from(run.rows).unwrap_or_default());
            left = rest;
            let line = |row: &NewRow| StagedLine {
                subject: row.subject.clone(),
                due: row.due,
                size: u32::try_from(row.body.len()).unwrap_or(u32::MAX),
            };
            let lines: Vec<StagedLine> = here.iter().map(line).collect();
            let bytes = image.remove(&run.name.path()).unwrap_or_default();
            if let Some(Err(error)) = self.replica.as_mut().map(|replica| replica.know_staged(run.name, &bytes, &lines))
            {
                self.oracle.blame(format!("the replica cannot be told of {}: {error}", run.name.path()));
            }
            self.loading.staged.push((run.name, bytes, lines));
        }
        self.note(&format!("stage {} messages in {} runs", sorted.len(), runs.len()));
        Some((sorted, runs))
    }

    fn load_new(&mut self) {
        let rows = self.rows();
        let Some((rows, runs)) = self.stage(rows) else { return };
        self.loading.next_job += 1;
        let job = Job { hash: NameHash { low: self.loading.next_job, high: 7 }, rows, runs };
        if self.loading.jobs.len() >= JOBS_MAX {
            self.loading.jobs.remove(0);
        }
        self.loading.jobs.push(job.clone());
        // Sometimes the job dies behind the staging, and is tried later.
        if self.chance.percent(80) {
            self.load(&job);
        }
    }

    /// Submits a job again: because no answer came, with runs that were staged again, or under another name.
    fn load_again(&mut self) {
        let Some(mut job) = self.chance.pick(&self.loading.jobs).cloned() else { return self.load_new() };
        match self.chance.below(4) {
            0 => {
                let Some((rows, runs)) = self.stage(job.rows.clone()) else { return };
                (job.rows, job.runs) = (rows, runs);
            }
            1 => {
                self.loading.next_job += 1;
                job.hash = NameHash { low: self.loading.next_job, high: 7 };
            }
            _ => {}
        }
        self.load(&job);
    }

    fn load(&mut self, job: &Job) {
        let now = self.clock.read();
        let Some(node) = &mut self.node else { return };
        let now = node.look(now).now;
        let result = node.load(job.hash, &job.runs);
        // A run that was adopted is removed when all its messages are finished, and another one when it is old.
        let is_old = job.runs.iter().any(|run| now.since(run.name.staged) >= LOAD_SWEPT_MS);
        let is_of_job = |rows: &[(SubjectNumber, NewRow)]| rows.iter().map(|(_, row)| row).eq(&job.rows);
        let is_under_way = |command: &Command| matches!(command, Command::Load { rows, .. } if is_of_job(rows));
        let was_done = self.commands.values().any(is_under_way) || !self.loading.done.is_empty();
        if let Err(Error::MissingFile { path, .. }) = &result
            && (is_old || was_done)
        {
            return self.note(&format!("{path} is not there any more"));
        }
        let Some(asked) = self.survive("load", result) else { return };
        let Some(fact) = asked else {
            self.note("load must wait for room");
            return self.prepare();
        };
        self.note(&format!("load {:?} of {} messages by {fact}", job.hash, job.rows.len()));
        let mut rows = Vec::new();
        for (row, sequence) in job.rows.iter().zip(fact.0..) {
            let number = self.subject_number(&row.subject).unwrap_or_default();
            rows.push((number, row.clone()));
            self.dues.insert(row.due);
            let entry = Self::entry(number, row.due, &row.body).loaded();
            self.oracle.submitted_on_terms(Sequence(sequence), entry);
        }
        self.await_outcome(fact, Command::Load { job: job.hash, rows });
    }

    pub(super) fn load_answered(
        &mut self,
        fact: Sequence,
        job: NameHash,
        rows: Vec<(SubjectNumber, NewRow)>,
        outcome: Outcome,
    ) {
        let sequences: Vec<Sequence> = (fact.0..).map(Sequence).take(rows.len()).collect();
        let Outcome::Loaded(base, count) = outcome else {
            for sequence in &sequences {
                self.oracle.was_not_stored(*sequence);
            }
            if let Outcome::LoadedBefore(base, count) = outcome {
                let before = *self.loading.done.entry(job).or_insert((base, count));
                if before != (base, count) {
                    self.oracle.blame(format!("{job:?} was answered {before:?}, then {base} and {count}"));
                }
            }
            return;
        };
        if (base, count) != (fact, rows.len() as u64) {
            self.oracle.blame(format!("load {fact} of {} messages was answered {base} and {count}", rows.len()));
        }
        self.loading.done.insert(job, (base, count));
        for (sequence, (subject, row)) in sequences.into_iter().zip(rows) {
            self.oracle.was_stored(sequence);
            let size = u32::try_from(row.body.len()).unwrap_or(u32::MAX);
            if let Some(receipt) = self.receipt_under(DueKey { due: row.due, sequence }, subject, size) {
                self.keep(receipt);
            }
        }
    }
}
