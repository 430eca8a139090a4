//! Driving the owner. Whoever committed something that somebody waits for applies it on the spot
//! where the owner is free; the driver thread does the rest, and everything that time asks for.

use std::num::NonZeroU64;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::clock::Reading;
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, GroupCommit, Submission};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::run::run_path;
use delaymq_core::store::{Budget, Owner, Progress, Proposals, Rescue};
use delaymq_core::units::{Millis, Sequence};

use crate::clock::store_time::TimeNews;
use crate::clock::system_clock::ClockReading;
use crate::commit::committer::INLINE_BYTES;
use crate::commit::inbox::{Attention, BACKLOG_BYTES, Batches, Haste};
use crate::consume::ended_deliveries::Settled;
use crate::consume::subscribers::Woken;
use crate::names::Subject;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::{Instant, MutexGuard};

/// How long facts may wait for the driver that nobody waits for, while the store is busy.
const LAZY: Duration = Duration::from_millis(5);
const LAZY_MS: u64 = 5;
/// Without news for so long, the store is idle: the log's end is vouched for.
const IDLE: Duration = Duration::from_millis(50);
/// Entries that one step may dispatch: it bounds how long consumers wait for the owner.
const STEP_ENTRIES: usize = 4_096;
/// How long to wait after a step that failed.
const FAILED_STEP_WAIT: Duration = Duration::from_millis(200);

/// The owner and what it has decided.
pub(crate) struct Seat {
    pub(crate) owner: Owner,
    pub(crate) proposals: Proposals,
    /// How many of the proposals the log's queue has accepted.
    sent: usize,
    /// Subjects whose facts are among the proposals.
    new_subjects: Vec<Subject>,
    batches: Batches,
    /// The series that was gone on with last: those behind it come next.
    pub(crate) series_cursor: Sequence,
    /// What of the loaded runs whoever reads payloads knows.
    pub(crate) loads_told: Option<u64>,
}

impl Seat {
    pub(crate) fn new(owner: Owner) -> Self {
        let (proposals, batches, series_cursor) = (Proposals::default(), Batches::default(), Sequence(0));
        Self { owner, proposals, sent: 0, new_subjects: Vec::new(), batches, series_cursor, loads_told: None }
    }

    /// Proposes deliveries that ended; true where there are any.
    pub(crate) fn propose_settled(&mut self, settled: &[Settled]) -> bool {
        for one in settled {
            one.propose(&mut self.proposals);
            self.new_subjects.extend(one.new_subjects().cloned());
        }
        !settled.is_empty()
    }
}

/// The owner, held. Who brought something urgent meanwhile found it taken and left it in the inbox,
/// so letting go looks there.
pub(crate) struct SeatGuard<'a> {
    shared: &'a Shared,
    guard: Option<MutexGuard<'a, Option<Seat>>>,
}

impl SeatGuard<'_> {
    /// The owner, to change it.
    ///
    /// # Errors
    /// `Closed` where the store has let it go.
    pub(crate) fn get(&mut self) -> Result<&mut Seat> {
        self.guard.as_mut().and_then(|guard| guard.as_mut()).ok_or(Error::Closed)
    }
}

impl Drop for SeatGuard<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        if !is_on(Planted::InboxLeftBehind) {
            self.shared.drive();
        }
    }
}

/// What a round of the driver left.
pub(crate) struct Round {
    pub(crate) progress: Progress,
    pub(crate) applied: bool,
    /// What was applied by then, by whom ever.
    pub(crate) until: Sequence,
    pub(crate) sent: Option<Sequence>,
    pub(crate) failed: Option<Error>,
    /// What a series owes found no room.
    pub(crate) no_room: bool,
}

impl Shared {
    /// The owner, whoever else wants it.
    ///
    /// # Errors
    /// `Poisoned` where somebody died while holding it.
    pub(crate) fn seat(&self) -> Result<SeatGuard<'_>> {
        let guard = self.seat.lock().map_err(|_| driving_panicked())?;
        Ok(SeatGuard { shared: self, guard: Some(guard) })
    }

    /// As `seat`, with `None` where somebody else has the owner.
    ///
    /// # Errors
    /// As `seat`.
    pub(crate) fn try_seat(&self) -> Result<Option<SeatGuard<'_>>> {
        match self.seat.try_lock() {
            Ok(guard) => Ok(Some(SeatGuard { shared: self, guard: Some(guard) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Poisoned(_)) => Err(driving_panicked()),
        }
    }

    /// Does what a push to the inbox asked for.
    pub(crate) fn attend(&self, attention: Attention) {
        match (attention, self.inbox.bytes()) {
            (Attention::None, _) => {}
            (Attention::Now, bytes) if bytes < INLINE_BYTES => {
                self.drive();
                // It vouches for the log when nothing more comes, and would sleep through what it has no part in.
                self.remind_driver();
            }
            (Attention::Now, bytes) if bytes > BACKLOG_BYTES => drop(self.apply_until(self.positions.visible())),
            (Attention::Now | Attention::Driver, _) => self.driver.raise(),
        }
    }

    /// Something waits that needs the driver soon, but not now.
    pub(crate) fn remind_driver(&self) {
        if self.inbox.remind() {
            self.driver.raise();
        }
    }

    /// Facts were sent: those that somebody waits for are written now, the others soon.
    pub(crate) fn hurry(&self, sent: bool) {
        if self.is_hurried() {
            self.committer.raise();
        } else if sent {
            self.remind_driver();
        }
    }

    /// Applies what is in the inbox where the owner is free. Where it is not, whoever has it looks
    /// here when letting go.
    pub(crate) fn drive(&self) {
        while self.inbox.is_urgent() {
            let woken = match self.seat.try_lock() {
                Ok(mut guard) => {
                    let Some(seat) = guard.as_mut() else { return };
                    self.apply_inbox(seat)
                }
                Err(TryLockError::WouldBlock) => return,
                Err(TryLockError::Poisoned(_)) => Err(driving_panicked()),
            };
            match woken {
                Ok(woken) => self.subscribers.tell(&woken),
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// Applies all visible facts that have arrived. Returns what is to be told, after letting go of
    /// the owner.
    pub(crate) fn apply_inbox(&self, seat: &mut Seat) -> Result<Woken> {
        self.check_poison()?;
        self.inbox.take(&mut seat.batches);
        for batch in seat.batches.iter() {
            seat.owner.apply(&batch)?;
        }
        self.tell_loads(seat);
        if seat.owner.take_newly_owing() && !is_on(Planted::OwingUntold) {
            self.driver.raise();
        }
        for buffer in seat.batches.clear() {
            self.recycle(buffer);
        }
        self.background.crowd.note_recent(seat.owner.recent_entries());
        self.outcomes.found(seat.owner.take_outcomes());
        let groups = seat.owner.take_woken();
        self.subscribers.introduce(&groups, seat.owner.state());
        Ok(Woken { groups, subjects: seat.owner.take_woken_subjects() })
    }

    /// Proposes what everybody has settled. With the owner held, so that who waits for their own to
    /// be sent finds it here or sent.
    pub(crate) fn propose_settled(&self, seat: &mut Seat) {
        seat.propose_settled(&self.subscribers.take_settled());
    }

    /// Waits until the fact before `until` is applied; it must be visible.
    pub(crate) fn apply_until(&self, until: Sequence) -> Result<()> {
        loop {
            let woken = {
                let mut guard = self.seat()?;
                let seat = guard.get()?;
                if seat.owner.applied() >= until {
                    return Ok(());
                }
                self.apply_inbox(seat)
            };
            match woken {
                Ok(woken) => self.subscribers.tell(&woken),
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            }
        }
    }

    /// Hands the owner's proposals to the log's queue, in order and before the owner is let go, so
    /// that the order of decisions is the order of the log. What finds no room stays for the next
    /// time. Returns the end of what was accepted, where something was.
    pub(crate) fn send(&self, seat: &mut Seat, haste: Haste) -> Result<Option<Sequence>> {
        let mut end = None;
        for proposal in seat.proposals.iter().skip(seat.sent) {
            let submission = Submission {
                records: proposal.records,
                record_count: proposal.record_count,
                adopts: 0,
                class: Class::Finishing,
                must_sync: proposal.must_sync,
            };
            let haste = if proposal.must_sync { Haste::URGENT } else { haste };
            let Some(range) = self.try_submit(submission, haste)? else {
                self.helper.raise();
                return Ok(end);
            };
            seat.sent = seat.sent.saturating_add(1);
            end = Some(range.end);
        }
        seat.proposals.clear();
        seat.sent = 0;
        self.names.submitted(&seat.new_subjects);
        seat.new_subjects.clear();
        Ok(end)
    }

    /// The driver thread.
    pub(crate) fn run_driver(&self) {
        sharpen_timer();
        let (mut last_news, mut applied) = (Instant::now(), Sequence(0));
        let mut told = true;
        let mut news = TimeNews::default();
        while !self.is_stopping() && self.poison.get().is_none() {
            self.inbox.driver_is_awake();
            let (reading, clock) = self.time.read_with_wall();
            self.report_time(&mut news);
            let round = match self.round(reading) {
                Ok(round) => round,
                Err(error) => return self.fail(&error),
            };
            self.commit_decisions(&round);
            if round.until > applied || round.sent.is_some() {
                (last_news, applied) = (Instant::now(), round.until);
            }
            if round.failed.is_some() {
                self.driver.sleep(FAILED_STEP_WAIT);
                continue;
            }
            if round.progress.more || self.inbox.is_urgent() {
                continue;
            }
            let was_told = told;
            told = last_news.elapsed() < IDLE;
            if was_told && !told {
                self.with_commits(GroupCommit::release_spare);
                self.background.witness_wanted.store(true, Ordering::SeqCst);
                self.committer.raise();
            }
            self.sleep_until(round.progress.next, reading, clock, told);
        }
    }

    /// Applies, decides, sends.
    pub(crate) fn round(&self, reading: Reading) -> Result<Round> {
        let mut guard = self.seat()?;
        let seat = guard.get()?;
        let before = seat.owner.applied();
        let woken = self.apply_inbox(seat)?;
        self.propose_settled(seat);
        let stepped = seat.owner.step(reading, Budget { entries: STEP_ENTRIES }, &mut seat.proposals);
        self.metrics.steps.add(1);
        let (rescues, hot) = (seat.owner.take_rescues(), seat.owner.take_hot_minutes());
        let sent = self.send(seat, Haste::URGENT)?;
        let gone_on = self.go_on_with_series(seat, reading)?;
        let until = seat.owner.applied();
        let frozen = self.begin_checkpoint(seat);
        drop(guard);
        self.subscribers.tell(&woken);
        self.report_rescues(&rescues);
        self.report_hot(&hot);
        if frozen {
            self.helper.raise();
        }
        let (progress, failed) = match stepped {
            Ok(progress) => (gone_on.with(progress), None),
            Err(error) => {
                self.report_step_failure(&error);
                (Progress::default(), Some(error))
            }
        };
        Ok(Round {
            progress,
            applied: until > before,
            until,
            sent: gone_on.sent.or(sent),
            failed,
            no_room: gone_on.no_room,
        })
    }

    /// The driver commits its own decisions while there is nothing else to decide; the way of a
    /// message to its consumer is then free of wake-ups but the last.
    fn commit_decisions(&self, round: &Round) {
        match round.sent {
            Some(end) if !round.progress.more => self.lead(end),
            _ if self.with_commits(|commits| commits.queued_bytes() > 0) => self.committer.raise(),
            _ => {}
        }
    }

    fn sleep_until(&self, next: Option<Millis>, reading: Reading, clock: ClockReading, told: bool) {
        let mut wait = self.time.sleep_max();
        let mut looks_at = Millis(u64::MAX);
        if let Some(next) = next {
            looks_at = next;
            wait = wait.min(until(next, reading, clock));
        }
        if told {
            looks_at = looks_at.min(reading.now.plus(LAZY_MS));
            wait = wait.min(LAZY);
        }
        if self.inbox.driver_sleeps(looks_at, told) && !wait.is_zero() {
            self.driver.sleep(wait);
        }
    }

    fn report_rescues(&self, rescues: &[Rescue]) {
        for rescue in rescues {
            self.metrics.voided.add(rescue.lost.len() as u64);
            let reason = format!("{}; {} entries found again in the log", rescue.error, rescue.found);
            self.reports.add(Report::RunDamaged { path: run_path(rescue.run), reason: reason.clone() });
            for sequence in &rescue.lost {
                let subject = String::new();
                self.reports.add(Report::Voided { subject, sequence: *sequence, reason: reason.clone() });
            }
        }
    }

    fn report_step_failure(&self, error: &Error) {
        let path = match error {
            Error::Corrupt { path, .. } | Error::Storage { path, .. } | Error::MissingFile { path, .. } => path.clone(),
            _ => String::new(),
        };
        self.reports.add(Report::RunDamaged { path, reason: error.to_string() });
    }
}

/// From now until the trusted clock shows `next`, by the readings just taken. The trusted clock
/// takes the wall's time when it agrees with it, so the wait ends with the wall's millisecond.
fn until(next: Millis, reading: Reading, clock: ClockReading) -> Duration {
    const MILLISECOND_NS: u64 = 1_000_000;
    let left_ms = next.since(reading.now);
    let past_ns = if reading.now == clock.wall() { clock.wall_ns % MILLISECOND_NS } else { 0 };
    Duration::from_nanos(left_ms.saturating_mul(MILLISECOND_NS).saturating_sub(past_ns))
}

/// Timers of this thread end when they should, not up to 50 µs later.
fn sharpen_timer() {
    #[cfg(target_os = "linux")]
    // A kernel that refuses makes messages a little later, nothing else.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

fn driving_panicked() -> Error {
    Error::Poisoned { reason: "a thread died while it applied facts".to_owned() }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
