//! Recurring series. The due time of the next occurrence is computed here, from the rule and the occurrence before.
//! Apply decides whether it is stored.

use delaymq_core::clock::Reading;
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::schedule_log::DUE_MAX;
use delaymq_core::store::{Owed, Progress};
use delaymq_core::units::{Millis, Sequence, SubjectNumber};
use delaymq_recurrence::{Refused, Rule, Zones, next_turn};

use crate::commit::inbox::CommitUrgency;
use crate::drive::driver::LockedOwner;
use crate::query::report::Report;
use crate::shared::Shared;

/// Series that are served in one round; the others wait for the next round.
const SERIES_AT_ONCE: usize = 64;
/// How soon an occurrence that found no room is tried again, in milliseconds.
const ROOM_RETRY_MS: u64 = 200;

/// The result of serving series.
#[derive(Default)]
pub(crate) struct SeriesProgress {
    /// The end of the facts that the log's queue has accepted, if there are any.
    pub(crate) sent: Option<Sequence>,
    /// At least one occurrence found no room.
    pub(crate) no_room: bool,
    /// More series are due.
    more: bool,
    /// When to look again.
    next: Option<Millis>,
}

impl SeriesProgress {
    /// Merges this with the progress of a step, and with the time at which a message was held for too long.
    pub(crate) fn with(&self, progress: Progress, next_hold: Option<Millis>) -> Progress {
        let next = progress.next.into_iter().chain(self.next).chain(next_hold).min();
        Progress { more: progress.more || self.more, next, ..progress }
    }
}

impl Shared {
    /// Proposes the first occurrence of a series that has just begun, without waiting for the driver. Waits for room.
    pub(crate) fn propose_first_occurrence(&self, subject: SubjectNumber, name: &str) -> Result<()> {
        loop {
            self.check()?;
            let room = self.room.count();
            let (progressed, end) = {
                let mut guard = self.lock_owner()?;
                let locked = guard.get()?;
                let reading = self.time.read();
                let number = locked.owner.state().recurring.named(subject, name);
                let before = number.map(|number| Sequence(number.0.saturating_sub(1)));
                let owed = before.filter(|_| !reading.held).map(|before| locked.owner.owed(before, 1));
                // It comes directly behind the series before it, unless another thread has already served it.
                let its = owed.into_iter().flatten().filter(|owed| Some(owed.series) == number).collect();
                let progressed = self.propose_occurrences(locked, reading.now, its)?;
                (progressed, self.with_commits(|commits| commits.next_sequence()))
            };
            self.finish(end)?;
            if !progressed.no_room || self.with_commits(|commits| commits.is_disk_full()) {
                return Ok(());
            }
            self.await_room(room);
        }
    }

    /// Proposes the next occurrence of each series that is due, in turns. The owner lock is held, so that no occurrence
    /// is proposed twice. While the clock holds dispatch, nothing is due.
    pub(crate) fn propose_due_occurrences(&self, locked: &mut LockedOwner, reading: Reading) -> Result<SeriesProgress> {
        if reading.held || !locked.owner.owes() {
            return Ok(SeriesProgress::default());
        }
        let owed = locked.owner.owed(locked.series_cursor, SERIES_AT_ONCE);
        if let Some(last) = owed.last() {
            locked.series_cursor = last.series;
        }
        let progressed = self.propose_occurrences(locked, reading.now, owed)?;
        let (more, next) = if progressed.no_room {
            (false, Some(reading.now.plus(ROOM_RETRY_MS)))
        } else {
            (locked.owner.owes(), None)
        };
        Ok(SeriesProgress { more, next, ..progressed })
    }

    /// After one occurrence found no room, facts that need no room still go on: the end of a rule frees some.
    fn propose_occurrences(&self, locked: &mut LockedOwner, now: Millis, owed: Vec<Owed>) -> Result<SeriesProgress> {
        let mut progressed = SeriesProgress::default();
        let mut records = Vec::new();
        let zones = self.time_zones.current();
        for one in owed {
            let due = match due_of(&one, &zones, now) {
                Ok(due) => due.map(Millis).filter(|due| *due <= DUE_MAX),
                Err(refused) => {
                    // Nothing is guessed: the series waits until a release that knows the rule opens the store.
                    locked.owner.occurrence_submitted(one.series);
                    self.report_unknown_rule(&one, &refused);
                    continue;
                }
            };
            if progressed.no_room && due.is_some() {
                continue;
            }
            records.clear();
            let record_count = one.encode(due, now, &mut records);
            let class = if due.is_some() { Class::Growing } else { Class::Finishing };
            let submission = Submission { records: &records, record_count, adopts: 0, class, must_sync: false };
            let submitted = match self.try_submit(submission, CommitUrgency::URGENT) {
                Err(Error::DiskFull) => None,
                other => other?,
            };
            let Some(range) = submitted else {
                self.helper.raise();
                progressed.no_room = true;
                continue;
            };
            locked.owner.occurrence_submitted(one.series);
            progressed.sent = Some(range.end);
            if due.is_none() {
                let subject = self.names.name_of(one.recurs.subject).to_string();
                self.reports.add(Report::SeriesOver { subject, name: one.recurs.name.clone() });
            }
        }
        Ok(progressed)
    }

    fn report_unknown_rule(&self, owed: &Owed, refused: &Refused) {
        let subject = self.names.name_of(owed.recurs.subject).to_string();
        let Refused { part, expected, found } = refused;
        let reason = format!("{part}: expected {expected}, found {found}");
        self.reports.add(Report::SeriesRests { subject, name: owed.recurs.name.clone(), reason });
    }
}

fn due_of(owed: &Owed, zones: &Zones, now: Millis) -> std::result::Result<Option<u64>, Refused> {
    let catch_up = match owed.recurs.catch_up {
        CatchUp::One => delaymq_recurrence::CatchUp::One,
        CatchUp::Skip => delaymq_recurrence::CatchUp::Skip,
        CatchUp::All => delaymq_recurrence::CatchUp::All,
    };
    let rule = Rule::parse(&owed.recurs.rule, &owed.recurs.zone, zones)?;
    next_turn(&rule, catch_up, owed.after.0, now.0)
}
