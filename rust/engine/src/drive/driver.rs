//! Driving the owner. A thread that committed something urgent applies it at once if the owner is free. The driver
//! thread does the rest, and everything that becomes due by time.

use std::num::NonZeroU64;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::clock::Reading;
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, GroupCommit, Submission};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::store::{Budget, Owner, Progress, Proposals};
use delaymq_core::units::{GroupNumber, Millis, Sequence};

use crate::clock::system_clock::ClockReading;
use crate::commit::committer::INLINE_BYTES;
use crate::commit::inbox::{BACKLOG_BYTES, Batches, CommitUrgency, WakeReason};
use crate::consume::ended_deliveries::Settled;
use crate::names::Subject;
use crate::shared::Shared;
use crate::sync::{Instant, MutexGuard};

/// How long facts that no thread waits for may stay unapplied while the store is busy.
const LAZY: Duration = Duration::from_millis(5);
const LAZY_MS: u64 = 5;
/// After this long without new facts the store is idle, and the end of its log is vouched for.
const IDLE: Duration = Duration::from_millis(50);
/// Entries that one step may dispatch: it bounds how long consumers wait for the owner.
const STEP_ENTRIES: usize = 4_096;
/// Facts that are handed to the log's queue together, in bytes. They are small, and each hand-over takes a lock.
const JOINED_BYTES: usize = 4 << 10;
/// How long to wait after a step that failed.
const FAILED_STEP_WAIT: Duration = Duration::from_millis(200);

/// What the owner lock guards: the owner, and its decisions that the log's queue has not accepted.
pub(crate) struct LockedOwner {
    pub(crate) owner: Owner,
    pub(crate) proposals: Proposals,
    /// How many of the proposals the log's queue has accepted.
    sent: usize,
    /// Subjects whose facts are among the proposals.
    new_subjects: Vec<Subject>,
    batches: Batches,
    /// The series that was served last. The next round begins behind it.
    pub(crate) series_cursor: Sequence,
    /// The version of the loaded runs that readers of payloads know.
    pub(crate) loads_told: Option<u64>,
}

impl LockedOwner {
    pub(crate) fn new(owner: Owner) -> Self {
        let (proposals, batches, series_cursor) = (Proposals::default(), Batches::default(), Sequence(0));
        Self { owner, proposals, sent: 0, new_subjects: Vec::new(), batches, series_cursor, loads_told: None }
    }

    /// Proposes deliveries that ended. Returns true if there are any.
    pub(crate) fn propose_settled(&mut self, settled: &[Settled]) -> bool {
        for one in settled {
            one.propose(&mut self.proposals);
            self.new_subjects.extend(one.new_subjects().cloned());
        }
        !settled.is_empty()
    }
}

/// The owner, locked. A thread that brings something urgent meanwhile finds the lock taken and leaves it in the inbox;
/// so the drop of this guard looks there.
pub(crate) struct OwnerGuard<'a> {
    shared: &'a Shared,
    guard: Option<MutexGuard<'a, Option<LockedOwner>>>,
}

impl OwnerGuard<'_> {
    /// The owner, to change it.
    /// Fails with `Closed` if the store has closed.
    pub(crate) fn get(&mut self) -> Result<&mut LockedOwner> {
        self.guard.as_mut().and_then(|guard| guard.as_mut()).ok_or(Error::Closed)
    }
}

impl Drop for OwnerGuard<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        if !is_on(Planted::InboxLeftBehind) {
            self.shared.drive();
        }
    }
}

/// The result of one round of the driver.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) progress: Progress,
    pub(crate) applied: bool,
    /// The end of the facts that were applied by then, on any thread.
    pub(crate) until: Sequence,
    pub(crate) sent: Option<Sequence>,
    pub(crate) failed: Option<Error>,
    /// There was no room for an occurrence that is due.
    pub(crate) no_room: bool,
}

impl Shared {
    /// Locks the owner, and waits for it.
    /// Fails with `Poisoned` if a thread died while it held the lock.
    pub(crate) fn lock_owner(&self) -> Result<OwnerGuard<'_>> {
        let guard = self.owner_lock.lock().map_err(|_| driving_panicked())?;
        Ok(OwnerGuard { shared: self, guard: Some(guard) })
    }

    /// As `lock_owner`, without waiting: `None` if another thread has the lock.
    pub(crate) fn try_lock_owner(&self) -> Result<Option<OwnerGuard<'_>>> {
        match self.owner_lock.try_lock() {
            Ok(guard) => Ok(Some(OwnerGuard { shared: self, guard: Some(guard) })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Poisoned(_)) => Err(driving_panicked()),
        }
    }

    /// Wakes or applies, as the push to the inbox asked for.
    pub(crate) fn wake_for(&self, wake_reason: WakeReason) {
        match (wake_reason, self.inbox.bytes()) {
            (WakeReason::None, _) => {}
            (WakeReason::Now, bytes) if bytes < INLINE_BYTES => {
                self.drive();
                // The driver vouches for the log when nothing more comes. Without this it would sleep through facts
                // that it had no part in.
                self.remind_driver();
            }
            (WakeReason::Now, bytes) if bytes > BACKLOG_BYTES => drop(self.apply_until(self.positions.visible())),
            (WakeReason::Now | WakeReason::Driver, _) => self.driver.raise(),
        }
    }

    /// The driver is needed soon, but not now.
    pub(crate) fn remind_driver(&self) {
        if self.inbox.remind() {
            self.driver.raise();
        }
    }

    /// Facts were sent. Urgent ones are written now, others soon.
    pub(crate) fn write_soon(&self, sent: bool) {
        if self.has_urgent() {
            self.committer.raise();
        } else if sent {
            self.remind_driver();
        }
    }

    /// Applies the inbox if the owner is free. If it is not, the thread that holds the lock looks at the inbox when it
    /// releases it.
    pub(crate) fn drive(&self) {
        while self.inbox.is_urgent() {
            let woken = match self.owner_lock.try_lock() {
                Ok(mut guard) => {
                    let Some(locked) = guard.as_mut() else { return };
                    self.apply_inbox(locked)
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

    /// Applies all visible facts that have arrived. Returns the groups to notify after the owner lock is released.
    pub(crate) fn apply_inbox(&self, locked: &mut LockedOwner) -> Result<Vec<GroupNumber>> {
        self.check_poison()?;
        self.inbox.take(&mut locked.batches);
        for batch in locked.batches.iter() {
            locked.owner.apply(&batch)?;
        }
        self.tell_loads(locked);
        if locked.owner.take_newly_owing() && !is_on(Planted::OwingUntold) {
            self.driver.raise();
        }
        for buffer in locked.batches.clear() {
            self.recycle(buffer);
        }
        self.background.write_stall.note_recent(locked.owner.recent_entries());
        self.outcomes.found(locked.owner.take_outcomes());
        let named = locked.owner.take_named();
        self.subscribers.meet(&named, locked.owner.state());
        let groups = locked.owner.take_woken();
        self.subscribers.introduce(&groups, locked.owner.state());
        Ok(groups)
    }

    /// Applies what is urgent, lets `ask` ask the owner, and sends its decisions. They are urgent where `ask` says so.
    /// Then the lock is released, and what was woken is told.
    ///
    /// # Errors
    /// Those of applying and of `ask`, which poison the store.
    pub(crate) fn ask_owner<T>(
        &self,
        mut guard: OwnerGuard<'_>,
        ask: impl FnOnce(&mut LockedOwner, &mut CommitUrgency) -> Result<T>,
    ) -> Result<T> {
        let (locked, mut urgency) = (guard.get()?, CommitUrgency::NONE);
        let woken = if self.inbox.is_urgent() { self.apply_inbox(locked) } else { Ok(Vec::new()) };
        let asked = woken.and_then(|woken| Ok((woken, ask(locked, &mut urgency)?)));
        let sent = self.send(locked, urgency);
        drop(guard);
        let (woken, found) = asked.inspect_err(|error| self.fail(error))?;
        self.subscribers.tell(&woken);
        self.write_soon(sent?.is_some());
        Ok(found)
    }

    /// Proposes the deliveries that all members have ended. The owner lock is held, so that a thread that waits for its
    /// own finds them either here or sent.
    pub(crate) fn propose_settled(&self, locked: &mut LockedOwner) {
        locked.propose_settled(&self.subscribers.take_settled());
    }

    /// Waits until the fact before `until` is applied; it must be visible.
    pub(crate) fn apply_until(&self, until: Sequence) -> Result<()> {
        loop {
            let woken = {
                let mut guard = self.lock_owner()?;
                let locked = guard.get()?;
                if locked.owner.applied() >= until {
                    return Ok(());
                }
                self.apply_inbox(locked)
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

    /// Hands the owner's proposals to the log's queue. This happens in order and under the owner lock, so that the
    /// order of decisions is the order of the log. Proposals that find no room stay for the next time. Returns the end
    /// of the accepted ones, if there are any.
    pub(crate) fn send(&self, locked: &mut LockedOwner, urgency: CommitUrgency) -> Result<Option<Sequence>> {
        let mut end = None;
        for (proposal, joined) in locked.proposals.joined(locked.sent, JOINED_BYTES) {
            let (records, record_count, must_sync) = (proposal.records, proposal.record_count, proposal.must_sync);
            let submission = Submission { records, record_count, adopts: 0, class: Class::Finishing, must_sync };
            let urgency = if must_sync { CommitUrgency::URGENT } else { urgency };
            let Some(range) = self.try_submit(submission, urgency)? else {
                self.helper.raise();
                return Ok(end);
            };
            locked.sent = locked.sent.saturating_add(joined);
            end = Some(range.end);
        }
        locked.proposals.clear();
        locked.sent = 0;
        self.names.submitted(&locked.new_subjects);
        locked.new_subjects.clear();
        Ok(end)
    }

    /// The driver thread.
    pub(crate) fn run_driver(&self) {
        sharpen_timer();
        let (mut last_news, mut applied) = (Instant::now(), Sequence(0));
        let mut told = true;
        while !self.is_stopping() && self.poison.get().is_none() {
            self.inbox.driver_is_awake();
            let (reading, clock) = self.time.read_with_wall();
            self.report_time();
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
            if was_told && !told && self.has_begun() {
                self.with_commits(GroupCommit::release_spare);
                self.background.witness_wanted.store(true, Ordering::SeqCst);
                self.committer.raise();
            }
            self.sleep_until(round.progress.next, reading, clock, told);
        }
    }

    /// One round: apply, decide, send.
    pub(crate) fn round(&self, reading: Reading) -> Result<Round> {
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let before = locked.owner.applied();
        let woken = self.apply_inbox(locked)?;
        if !self.has_begun() {
            let until = locked.owner.applied();
            drop(guard);
            self.subscribers.tell(&woken);
            return Ok(Round { applied: until > before, until, ..Round::default() });
        }
        let next_hold = self.pass_on_late(reading.now);
        self.propose_settled(locked);
        let stepped = locked.owner.step(reading, Budget { entries: STEP_ENTRIES }, &mut locked.proposals);
        self.metrics.steps.add(1);
        let (rescues, hot) = (locked.owner.take_rescues(), locked.owner.take_hot_minutes());
        let sent = self.send(locked, CommitUrgency::URGENT)?;
        let progressed = self.propose_due_occurrences(locked, reading)?;
        let until = locked.owner.applied();
        let frozen = self.begin_checkpoint(locked);
        drop(guard);
        self.subscribers.tell(&woken);
        self.report_rescues(&rescues);
        self.report_hot(&hot);
        if frozen {
            self.helper.raise();
        }
        let (progress, failed) = match stepped {
            Ok(progress) => (progressed.with(progress, next_hold), None),
            Err(error) => {
                self.report_step_failure(&error);
                (Progress::default(), Some(error))
            }
        };
        Ok(Round {
            progress,
            applied: until > before,
            until,
            sent: progressed.sent.or(sent),
            failed,
            no_room: progressed.no_room,
        })
    }

    /// The driver commits its own decisions while there is nothing else to decide. A message then needs one wake-up on
    /// its way to the consumer.
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
}

/// The time from now until the trusted clock shows `next`, by the readings just taken. The trusted clock follows the
/// wall clock where they agree, so the wait ends with the wall clock's millisecond.
fn until(next: Millis, reading: Reading, clock: ClockReading) -> Duration {
    const MILLISECOND_NS: u64 = 1_000_000;
    let left_ms = next.since(reading.now);
    let past_ns = if reading.now == clock.wall() { clock.wall_ns % MILLISECOND_NS } else { 0 };
    Duration::from_nanos(left_ms.saturating_mul(MILLISECOND_NS).saturating_sub(past_ns))
}

/// Lets timers of this thread end on time, and not up to 50 µs later.
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
