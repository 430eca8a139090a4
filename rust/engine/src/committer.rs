//! Writing the log. Whoever finds the writer free may commit on its own thread, which saves two
//! wake-ups; what is submitted without waiting is committed by a thread of its own.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{
    AppendMarks, Appended, Class, Commit, GroupCommit, Mark, SegmentAppender, Submission, Submitted,
};
use delaymq_core::store::Owner;
use delaymq_core::units::{Location, Sequence};

use crate::held;
use crate::inbox::{Attention, Haste};
use crate::shared::Shared;

/// Prepared segments that should lie ahead of the log.
pub(crate) const SEGMENTS_AHEAD: usize = 2;
/// How long a submission waits for room before it looks again.
const ROOM_WAIT: Duration = Duration::from_millis(20);
/// How long the committer sleeps when nobody raises it.
const COMMITTER_SLEEP: Duration = Duration::from_secs(60);

/// The queue before the log.
pub(crate) struct Queue {
    pub(crate) commits: GroupCommit,
    /// How much of a hurry there is in what is queued.
    pub(crate) haste: Haste,
}

/// A batch that is written and not yet visible.
struct Unreleased {
    end: Sequence,
    start: Location,
    bytes: Vec<u8>,
    haste: Haste,
}

/// Who holds this writes the log.
pub(crate) struct Writer {
    pub(crate) appender: SegmentAppender,
    unreleased: VecDeque<Unreleased>,
}

impl Writer {
    pub(crate) fn new(appender: SegmentAppender) -> Self {
        Self { appender, unreleased: VecDeque::new() }
    }
}

impl Shared {
    /// Hands records to the log's queue, waiting for room where they make the store grow. Their
    /// sequences are certain from then on, unless the store is poisoned.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `DiskFull`, `TooLarge`.
    pub(crate) fn submit(&self, submission: Submission<'_>, haste: Haste) -> Result<Range<Sequence>> {
        loop {
            let seen = self.room.count();
            if let Some(range) = self.try_submit(submission, haste)? {
                return Ok(range);
            }
            self.await_room(seen);
        }
    }

    /// Waits until there may be more room than when `seen` was counted.
    pub(crate) fn await_room(&self, seen: u64) {
        self.helper.raise();
        self.committer.raise();
        self.room.wait_beyond(seen, ROOM_WAIT);
    }

    /// As `submit`, with `None` where it would have to wait.
    pub(crate) fn try_submit(&self, submission: Submission<'_>, haste: Haste) -> Result<Option<Range<Sequence>>> {
        let mut queue = held(&self.queue);
        match queue.commits.submit(submission)? {
            Submitted::Accepted(range) => {
                queue.haste = queue.haste.and(haste);
                Ok(Some(range))
            }
            Submitted::NeedRoom => {
                self.background.hungry.store(submission.class == Class::Growing, Ordering::Relaxed);
                Ok(None)
            }
            Submitted::QueueFull => Ok(None),
        }
    }

    /// Commits on this thread where nobody else does, until everything below `until` is visible or
    /// the queue is empty. What others add meanwhile is left to the committer.
    pub(crate) fn lead(&self, until: Sequence) {
        let attention = match self.writer.try_lock() {
            Ok(mut writer) => {
                let mut attention = Attention::None;
                while !self.is_visible(until)
                    && let Some(more) = self.commit_one(&mut writer)
                {
                    self.metrics.led_commits.add(1);
                    attention = attention.max(more);
                }
                attention
            }
            Err(TryLockError::Poisoned(_)) => return self.fail(&committing_panicked()),
            // Whoever has it looks at the queue again when it lets go.
            Err(TryLockError::WouldBlock) => Attention::None,
        };
        self.after_commits(attention);
    }

    /// What every holder of the writer does after letting go.
    fn after_commits(&self, attention: Attention) {
        if self.with_commits(|commits| commits.queued_bytes() > 0) {
            self.committer.raise();
        }
        self.attend(attention);
    }

    /// Writes and syncs one batch; `None` where none is queued or the log is done for.
    fn commit_one(&self, writer: &mut Option<Writer>) -> Option<Attention> {
        let writer = writer.as_mut()?;
        let (commit, haste) = {
            let mut queue = held(&self.queue);
            let commit = queue.commits.take()?;
            let haste = queue.haste;
            if queue.commits.queued_bytes() == 0 {
                queue.haste = Haste::NONE;
            }
            (commit, haste)
        };
        match self.write(writer, commit, haste) {
            Ok(attention) => Some(attention),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    fn write(&self, writer: &mut Writer, mut commit: Commit, haste: Haste) -> Result<Attention> {
        let reading = self.time.read();
        let marks = AppendMarks {
            record_count: commit.record_count,
            trusted: reading.now,
            held: reading.held,
            committed: commit.committed,
            durability: self.options.durability,
        };
        let appended = writer.appender.append(&mut commit.bytes, &marks)?;
        let Appended { start, end, .. } = appended;
        let synced = if commit.must_sync { self.timed_sync(&mut writer.appender)? } else { appended.synced };
        self.metrics.commits.add(1);
        self.metrics.committed_bytes.add(commit.bytes.len() as u64);
        writer.unreleased.push_back(Unreleased { end: end.sequence, start, bytes: commit.bytes, haste });
        self.settle(writer, Some(end), synced)
    }

    fn timed_sync(&self, appender: &mut SegmentAppender) -> Result<Mark> {
        let began = Instant::now();
        let synced = appender.sync()?;
        self.metrics.syncs.add(1);
        self.metrics.sync_us.add(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
        Ok(synced)
    }

    /// Tells the queue what happened on the disk, and lets go what became visible by it.
    pub(crate) fn settle(&self, writer: &mut Writer, written: Option<Mark>, synced: Mark) -> Result<Attention> {
        let (visible, wants_segment) = {
            let mut queue = held(&self.queue);
            let commits = &mut queue.commits;
            if let Some(end) = written {
                commits.written(end);
            }
            commits.synced(synced);
            commits.room(writer.appender.tail_room(), writer.appender.stock_rooms());
            (commits.visible().sequence, commits.needs_segment(0, SEGMENTS_AHEAD))
        };
        self.check_poison()?;
        let mut attention = Attention::None;
        while writer.unreleased.front().is_some_and(|front| front.end <= visible) {
            let Some(mut batch) = writer.unreleased.pop_front() else { break };
            let reading = self.time.read();
            attention = attention.max(self.inbox.push(batch.start, &mut batch.bytes, batch.haste, reading));
            self.recycle(batch.bytes);
        }
        self.positions.advance(visible);
        self.room.tell_all();
        if wants_segment {
            self.helper.raise();
        }
        Ok(attention)
    }

    pub(crate) fn recycle(&self, bytes: Vec<u8>) {
        if bytes.capacity() > 0 {
            held(&self.queue).commits.recycle(bytes);
        }
    }

    /// The writer, for whoever has other work with the log. `after_writing` follows.
    pub(crate) fn writer(&self) -> Result<MutexGuard<'_, Option<Writer>>> {
        self.writer.lock().map_err(|_| committing_panicked())
    }

    /// Call after letting go of the writer.
    pub(crate) fn after_writing(&self, attention: Attention) {
        self.after_commits(attention);
    }

    /// Makes everything durable that was written so far.
    ///
    /// # Errors
    /// `Poisoned` where that fails, `Closed` where the log is closed.
    pub(crate) fn sync_log(&self) -> Result<()> {
        let mut guard = self.writer()?;
        let writer = guard.as_mut().ok_or(Error::Closed)?;
        let settled = writer.appender.sync().and_then(|synced| self.settle(writer, None, synced));
        drop(guard);
        match settled {
            Ok(attention) => {
                self.after_writing(attention);
                Ok(())
            }
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    /// Writes what is queued and ends the log on purpose: nothing is accepted any more.
    ///
    /// # Errors
    /// `Poisoned` where that fails.
    pub(crate) fn end_log(&self) -> Result<()> {
        self.check_poison()?;
        if let Some(seat) = self.seat()?.as_mut() {
            for batch in self.subscribers.take_acknowledged() {
                Owner::acknowledge(batch.group, batch.consumer, &batch.offsets, &mut seat.proposals);
            }
            self.send(seat, Haste::NONE)?;
        }
        let mut guard = self.writer()?;
        self.with_commits(GroupCommit::close);
        while self.commit_one(&mut guard).is_some() {}
        self.check_poison()?;
        let writer = guard.as_mut().ok_or(Error::Closed)?;
        let visible = self.with_commits(|commits| commits.visible().location);
        writer.appender.seal_and_close(visible).inspect_err(|error| self.fail(error))
    }

    /// The committer thread.
    pub(crate) fn run_committer(&self) {
        loop {
            self.committer.sleep(COMMITTER_SLEEP);
            let Ok(mut writer) = self.writer() else { return self.fail(&committing_panicked()) };
            let mut attention = Attention::None;
            while let Some(more) = self.commit_one(&mut writer) {
                attention = attention.max(more);
                // The owner must not fall behind for long: whoever drives it is let to it.
                if attention == Attention::Now && self.inbox.bytes() < INLINE_BYTES {
                    break;
                }
            }
            if self.background.witness_wanted.swap(false, Ordering::SeqCst)
                && let Err(error) = self.witness(&mut writer)
            {
                self.fail(&error);
            }
            let done = self.is_stopping();
            drop(writer);
            self.after_commits(attention);
            if done {
                return;
            }
        }
    }

    /// Vouches for what was written, if the log is idle.
    fn witness(&self, writer: &mut Option<Writer>) -> Result<()> {
        let Some(writer) = writer.as_mut() else { return Ok(()) };
        let (idle, visible) = self.with_commits(|commits| (commits.is_idle(), commits.visible().location));
        let over = self.poison.get().is_some() || self.closing.load(Ordering::SeqCst);
        if !idle || over || !writer.appender.witness_due() {
            return Ok(());
        }
        let reading = self.time.read();
        writer.appender.append_witness(reading.now, reading.held, visible)?;
        let synced = writer.appender.synced();
        self.settle(writer, None, synced).map(drop)
    }
}

/// More than this is applied by the driver, while the committer goes on writing.
pub(crate) const INLINE_BYTES: usize = 64 << 10;

fn committing_panicked() -> Error {
    Error::Poisoned { reason: "a thread died while it wrote the log".to_owned() }
}
