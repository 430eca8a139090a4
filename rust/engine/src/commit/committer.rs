//! Writing the log. A thread that finds the writer free may commit by itself, which saves two wake-ups. The committer
//! thread commits what is submitted without waiting.

use std::ops::Range;
use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{
    AppendMarks, Appended, Class, Commit, GroupCommit, Mark, ScannedBatch, SegmentAppender, Submission, Submitted,
};
use delaymq_core::planted::failpoint::{Failpoint, reached};
use delaymq_core::planted::{self, Planted};
use delaymq_core::units::{Location, Sequence};

use crate::commit::inbox::{CommitUrgency, WakeReason};
use crate::held;
use crate::shared::Shared;
use crate::sync::{Instant, MutexGuard};

/// Prepared segments that should lie ahead of the log, and ahead of one that once ran out of them.
const SEGMENTS_AHEAD: usize = 2;
const SEGMENTS_AHEAD_AFTER_HUNGER: usize = 4;
/// How long a submission waits for room before it looks again.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// How long the committer sleeps if no thread raises it.
const COMMITTER_SLEEP: Duration = Duration::from_secs(60);

/// The queue before the log.
pub(crate) struct Queue {
    pub(crate) commits: GroupCommit,
    /// The urgency of what is queued.
    pub(crate) urgency: CommitUrgency,
}

/// A batch that is written and not yet visible.
pub(crate) struct Unreleased {
    end: Sequence,
    start: Location,
    bytes: Vec<u8>,
    urgency: CommitUrgency,
}

impl Unreleased {
    /// A batch that was in the log before.
    pub(crate) fn of_tail(batch: ScannedBatch) -> Self {
        let end = batch.end().sequence;
        Self { end, start: batch.start, bytes: batch.bytes, urgency: CommitUrgency::URGENT }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The writer of the log; its holder is the only thread that writes.
pub(crate) struct Writer {
    pub(crate) appender: SegmentAppender,
}

/// The writer, locked. A thread that wants to commit meanwhile finds the lock taken and leaves its records queued; so
/// the drop of this guard looks at the queue, and wakes for what became visible.
pub(crate) struct WriterGuard<'a> {
    shared: &'a Shared,
    guard: Option<MutexGuard<'a, Option<Writer>>>,
    wake_reason: WakeReason,
}

impl WriterGuard<'_> {
    /// The writer.
    ///
    /// # Errors
    /// `Closed` if the store has closed.
    pub(crate) fn get(&mut self) -> Result<&mut Writer> {
        self.guard.as_mut().and_then(|guard| guard.as_mut()).ok_or(Error::Closed)
    }

    /// Writes and syncs one batch. Returns false if none is queued or the log has failed.
    fn commit_one(&mut self) -> bool {
        let Some((commit, urgency)) = self.shared.take_commit() else { return false };
        reached(Failpoint::BatchTaken);
        let written = self.write(commit, urgency);
        if let Err(error) = &written {
            self.shared.fail(error);
        }
        written.is_ok()
    }

    fn write(&mut self, mut commit: Commit, urgency: CommitUrgency) -> Result<()> {
        let shared = self.shared;
        let reading = shared.time.read();
        let marks = AppendMarks {
            record_count: commit.record_count,
            trusted: reading.now,
            held: reading.held,
            committed: commit.committed,
            durability: shared.options.durability,
        };
        let writer = self.get()?;
        let appended = writer.appender.append(&mut commit.bytes, &marks)?;
        let Appended { start, end, synced, .. } = appended;
        if let Some(copies) = &shared.copies {
            // They get it while this disk syncs it.
            copies.appended(&appended);
        }
        let must_sync = commit.must_sync && !planted::is_on(Planted::AckBeforeSync);
        let synced = if must_sync { shared.timed_sync(&mut writer.appender)? } else { synced };
        shared.metrics.commits.add(1);
        shared.metrics.committed_bytes.add(commit.bytes.len() as u64);
        shared.offer_write_back();
        shared.await_release(Unreleased { end: end.sequence, start, bytes: commit.bytes, urgency });
        self.settle(Some(end), synced)
    }

    /// Reports to the queue what happened on the disk, and releases what became visible.
    pub(crate) fn settle(&mut self, written: Option<Mark>, synced: Mark) -> Result<()> {
        let shared = self.shared;
        let writer = self.get()?;
        let (visible, wants_segment) = {
            let mut queue = held(&shared.queue);
            let commits = &mut queue.commits;
            if let Some(end) = written {
                commits.written(end);
            }
            commits.synced(synced);
            commits.room(writer.appender.tail_room(), writer.appender.stock_rooms());
            if let Some(segment) = commits.written_mark().location.segment() {
                shared.payloads.log_is_in(segment);
            }
            (commits.visible().sequence, commits.needs_segment(0, shared.segments_ahead()))
        };
        shared.check_poison()?;
        self.wake_reason = self.wake_reason.max(shared.release(visible));
        reached(Failpoint::VisibleBegins);
        shared.positions.advance(visible);
        reached(Failpoint::Visible);
        shared.room.notify_all();
        if wants_segment {
            shared.helper.raise();
        }
        if let Some(copies) = &shared.copies {
            copies.synced(synced.sequence);
        }
        Ok(())
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        if !planted::is_on(Planted::QueueLeftBehind) && self.shared.with_commits(|commits| commits.queued_bytes() > 0) {
            self.shared.committer.raise();
        }
        self.shared.wake_for(self.wake_reason);
    }
}

impl Shared {
    fn await_release(&self, batch: Unreleased) {
        self.unreleased_bytes.fetch_add(batch.bytes(), Ordering::Relaxed);
        held(&self.unreleased).push_back(batch);
    }

    /// Hands the batches before `visible` to the inbox, in the order of the log: other threads that do so wait meanwhile.
    pub(crate) fn release(&self, visible: Sequence) -> WakeReason {
        let mut wake_reason = WakeReason::None;
        let now = self.time.read();
        let mut unreleased = held(&self.unreleased);
        while unreleased.front().is_some_and(|front| front.end <= visible) {
            let Some(mut batch) = unreleased.pop_front() else { break };
            self.unreleased_bytes.fetch_sub(batch.bytes(), Ordering::Relaxed);
            wake_reason = wake_reason.max(self.inbox.push(batch.start, &mut batch.bytes, batch.urgency, now));
            self.recycle(batch.bytes);
        }
        wake_reason
    }

    /// Waits until there may be more room than when `seen` was counted.
    pub(crate) fn await_room(&self, seen: u64) {
        self.helper.raise();
        self.committer.raise();
        self.room.wait_beyond(seen, ROOM_WAIT);
    }

    /// Hands records to the log's queue; `None` if there is no room for them now. From then on their sequences are
    /// certain, unless the store is poisoned.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `DiskFull`, `TooLarge`.
    pub(crate) fn try_submit(
        &self,
        submission: Submission<'_>,
        urgency: CommitUrgency,
    ) -> Result<Option<Range<Sequence>>> {
        if submission.class == Class::Growing && self.is_ahead_of_copies() {
            return Ok(None);
        }
        let mut queue = held(&self.queue);
        match queue.commits.submit(submission)? {
            Submitted::Accepted(range) => {
                queue.urgency = queue.urgency.and(urgency);
                Ok(Some(range))
            }
            Submitted::NeedRoom => {
                self.hunger(submission);
                Ok(None)
            }
            Submitted::QueueFull => Ok(None),
        }
    }

    /// Asks the helper for a segment that has room for the submission.
    fn hunger(&self, submission: Submission<'_>) {
        self.background.hungry_bytes.store(submission.records.len() as u64, Ordering::Relaxed);
        // A caller that does not wait for room raises no thread itself.
        self.helper.raise();
        if submission.class == Class::Growing && self.background.is_grown.load(Ordering::Relaxed) {
            self.background.was_hungry.store(true, Ordering::Relaxed);
        }
    }

    /// How many prepared segments should lie ahead: more if the usual stock was used up once.
    pub(crate) fn segments_ahead(&self) -> usize {
        if self.background.was_hungry.load(Ordering::Relaxed) { SEGMENTS_AHEAD_AFTER_HUNGER } else { SEGMENTS_AHEAD }
    }

    /// Commits on this thread if no other thread does, until everything below `until` is visible or the queue is empty. Where
    /// copies are awaited, until it is written.
    /// Records that others add meanwhile are left to the committer, except for one more batch if it is urgent: waking
    /// the committer would take as long as a short sync.
    pub(crate) fn lead(&self, until: Sequence) {
        let mut guard = match self.writer.try_lock() {
            Ok(guard) => WriterGuard { shared: self, guard: Some(guard), wake_reason: WakeReason::None },
            Err(TryLockError::Poisoned(_)) => return self.fail(&committing_panicked()),
            // The holder looks at the queue again when it releases the lock.
            Err(TryLockError::WouldBlock) => return,
        };
        let mut favours = 1;
        loop {
            if self.is_led(until) {
                if favours == 0 || guard.wake_reason == WakeReason::Now || !self.has_urgent() {
                    return;
                }
                favours -= 1;
            }
            if !guard.commit_one() {
                return;
            }
            self.metrics.led_commits.add(1);
        }
    }

    /// As `lead`, for a thread that must not wait for the disk: a batch that needs a sync or another segment is left to
    /// the committer.
    pub(crate) fn lead_quickly(&self, until: Sequence) {
        let writer = if self.inbox.bytes() < INLINE_BYTES { self.writer.try_lock().ok() } else { None };
        let Some(writer) = writer else { return self.committer.raise() };
        let mut guard = WriterGuard { shared: self, guard: Some(writer), wake_reason: WakeReason::None };
        while !self.is_led(until) && self.with_commits(|commits| commits.next_is_quick()) {
            if !guard.commit_one() {
                return;
            }
            self.metrics.led_commits.add(1);
        }
    }

    fn take_commit(&self) -> Option<(Commit, CommitUrgency)> {
        let mut queue = held(&self.queue);
        let commit = queue.commits.take()?;
        let urgency = queue.urgency;
        if queue.commits.queued_bytes() == 0 {
            queue.urgency = CommitUrgency::NONE;
        }
        Some((commit, urgency))
    }

    fn timed_sync(&self, appender: &mut SegmentAppender) -> Result<Mark> {
        let began = Instant::now();
        let synced = appender.sync()?;
        self.metrics.syncs.add(1);
        self.metrics.sync_us.add(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        Ok(synced)
    }

    pub(crate) fn recycle(&self, bytes: Vec<u8>) {
        if bytes.capacity() > 0 {
            held(&self.queue).commits.recycle(bytes);
        }
    }

    /// Locks the writer.
    ///
    /// # Errors
    /// `Poisoned` if a thread died while it held the lock.
    pub(crate) fn writer(&self) -> Result<WriterGuard<'_>> {
        let guard = self.writer.lock().map_err(|_| committing_panicked())?;
        Ok(WriterGuard { shared: self, guard: Some(guard), wake_reason: WakeReason::None })
    }

    /// Makes everything durable that was written so far.
    ///
    /// # Errors
    /// `Poisoned` if that fails, `Closed` if the log is closed.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let mut guard = self.writer()?;
        let synced = guard.get()?.appender.sync();
        synced.and_then(|synced| guard.settle(None, synced)).inspect_err(|error| self.fail(error))
    }

    /// Writes what is queued and seals the log: nothing is accepted any more.
    ///
    /// # Errors
    /// `Poisoned` if that fails.
    pub(crate) fn end_log(&self) -> Result<()> {
        self.check_poison()?;
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        self.propose_settled(locked);
        self.send(locked, CommitUrgency::NONE)?;
        drop(guard);
        let mut guard = self.writer()?;
        self.with_commits(GroupCommit::close);
        while guard.commit_one() {}
        self.check_poison()?;
        let visible = self.with_commits(|commits| commits.visible().location);
        guard.get()?.appender.seal_and_close(visible).inspect_err(|error| self.fail(error))
    }

    /// The committer thread.
    pub(crate) fn run_committer(&self) {
        while !self.is_stopping() {
            self.committer.sleep(COMMITTER_SLEEP);
            let mut guard = match self.writer() {
                Ok(guard) => guard,
                Err(error) => return self.fail(&error),
            };
            // What became visible may be urgent: releasing the lock handles that first.
            while guard.commit_one() && guard.wake_reason < WakeReason::Now {}
            if self.background.witness_wanted.swap(false, Ordering::SeqCst)
                && let Err(error) = self.witness(&mut guard)
            {
                self.fail(&error);
            }
        }
    }

    /// Vouches for what was written, if the log is idle.
    fn witness(&self, guard: &mut WriterGuard<'_>) -> Result<()> {
        let (idle, visible) = self.with_commits(|commits| (commits.is_idle(), commits.visible().location));
        let over = self.poison.get().is_some() || self.closing.load(Ordering::SeqCst);
        let appender = &mut guard.get()?.appender;
        if !idle || over || !appender.witness_due() {
            return Ok(());
        }
        let reading = self.time.read();
        appender.append_witness(reading.now, reading.held, visible)?;
        let synced = appender.synced();
        guard.settle(None, synced)
    }
}

/// More bytes than this are applied by the driver, while the committer goes on writing: applying so much takes about as
/// long as waking the driver.
pub(crate) const INLINE_BYTES: usize = 256 << 10;

fn committing_panicked() -> Error {
    Error::Poisoned { reason: "a thread died while it wrote the log".to_owned() }
}
