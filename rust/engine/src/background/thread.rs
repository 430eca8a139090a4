//! The helper thread: it prepares segments, writes checkpoints and removes files. It works in small pieces with pauses,
//! since long writes delay the syncs of others by tens of milliseconds.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Preparing;
use delaymq_core::planted::failpoint::{Failpoint, reached};
use delaymq_core::store::{CheckpointProgress, CheckpointWork, FinishedCheckpoint, Removable};

use crate::background::free_room::FreeRoomChecks;
use crate::background::write_stall::WriteStall;
use crate::commit::write_back::WriteBackHandle;
use crate::drive::driver::LockedOwner;
use crate::files::mapping::give_back_freed_memory;
use crate::held;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Instant, Mutex};

/// Bytes written between two pauses.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// The same, while nothing waits for the disk as much as a checkpoint does.
const HURRIED_PIECE_BYTES: u64 = 8 << 20;
/// How soon a full disk is tried again.
pub(crate) const RETRY_ROOM: Duration = Duration::from_millis(50);
/// How soon other work that failed is tried again.
pub(crate) const RETRY_WORK: Duration = Duration::from_secs(1);
/// How long the helper sleeps if no thread raises it.
const HELPER_SLEEP: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Checkpoints {
    work: Option<Box<CheckpointWork>>,
    under_way: bool,
    finished: u64,
    failed: Option<Error>,
}

/// What other threads ask of the helper.
#[derive(Default)]
pub(crate) struct Background {
    /// The bytes of records of a submission that waits for a segment; 0 if none waits.
    pub(crate) hungry_bytes: AtomicU64,
    /// Pieces of segments that were prepared.
    pub(crate) prepared_pieces: AtomicU64,
    /// A segment of the full size was prepared: the segments of the log do not grow any more.
    pub(crate) is_grown: AtomicBool,
    /// A publish waited for a segment although the stock had segments of the full size.
    pub(crate) was_hungry: AtomicBool,
    /// The log is idle, and its end is not vouched for yet.
    pub(crate) witness_wanted: AtomicBool,
    /// The checkpoint under way falls behind the arriving messages: it is written without pauses.
    pub(crate) lagging: AtomicBool,
    /// Publishes stall if too many entries are in no run.
    pub(crate) write_stall: WriteStall,
    /// A thread waits for the checkpoint under way: it is written without pauses.
    awaited: AtomicBool,
    /// A thread waits for a checkpoint: one that failed is tried again at once.
    checkpoint_wanted: AtomicBool,
    /// The file of a segment that was not part of the log when the helper ended.
    pub(crate) unfinished: Mutex<Option<String>>,
    checkpoints: Mutex<Checkpoints>,
    checkpointed: Condvar,
}

impl Background {
    /// True if the checkpoint must be written as fast as the disk takes it.
    fn is_behind(&self) -> bool {
        self.lagging.load(Ordering::Relaxed) || self.awaited.load(Ordering::Relaxed)
    }

    /// True if a thread waits for the helper's work.
    pub(crate) fn is_awaited(&self) -> bool {
        self.hungry_bytes.load(Ordering::Relaxed) > 0 || self.is_behind()
    }
}

/// The helper's own state.
#[derive(Default)]
pub(crate) struct HelperState {
    pub(crate) preparing: Option<Preparing>,
    /// The file of the last segment that was begun, while it is not part of the log.
    pub(crate) unfinished: Option<String>,
    /// The bytes of the publish that segments are prepared for, in addition to the usual stock; 0 for none.
    pub(crate) awaited_bytes: u64,
    pub(crate) prepare_again: Option<Instant>,
    checkpoint: Option<Box<CheckpointWork>>,
    checkpoint_again: Option<Instant>,
    pub(crate) retired: Removable,
    pub(crate) retire_again: Option<Instant>,
    /// The file system punches no holes.
    pub(crate) has_no_holes: bool,
    write_back: WriteBackHandle,
    pub(crate) free_room_checks: FreeRoomChecks,
}

impl Shared {
    /// Freezes the state if a checkpoint is due. The driver calls this under the owner lock.
    pub(crate) fn begin_checkpoint(&self, locked: &mut LockedOwner) -> bool {
        self.background.lagging.store(locked.owner.checkpoint_lags(), Ordering::Relaxed);
        locked.owner.checkpoint_due() && self.freeze(locked)
    }

    fn freeze(&self, locked: &mut LockedOwner) -> bool {
        let mut checkpoints = held(&self.background.checkpoints);
        if checkpoints.under_way {
            return false;
        }
        let Some(work) = locked.owner.freeze() else { return false };
        self.write_checkpoint(&mut checkpoints, work);
        true
    }

    /// Goes on with a checkpoint that was frozen before this store began.
    pub(crate) fn go_on_with_checkpoint(&self, work: CheckpointWork) {
        self.write_checkpoint(&mut held(&self.background.checkpoints), work);
    }

    fn write_checkpoint(&self, checkpoints: &mut Checkpoints, work: CheckpointWork) {
        checkpoints.work = Some(Box::new(work));
        checkpoints.under_way = true;
        checkpoints.failed = None;
        self.background.write_stall.note_written(0, true);
    }

    /// Takes a checkpoint of everything that is visible now and waits for it.
    ///
    /// # Errors
    /// The error that made it fail; it is tried again nevertheless.
    pub(crate) fn checkpoint_now(&self) -> Result<()> {
        let until = self.positions.visible();
        self.apply_until(until)?;
        loop {
            let mut guard = self.lock_owner()?;
            let began = self.freeze(guard.get()?);
            drop(guard);
            held(&self.background.checkpoints).failed = None;
            self.background.checkpoint_wanted.store(true, Ordering::SeqCst);
            self.background.awaited.store(true, Ordering::SeqCst);
            self.helper.raise();
            self.await_checkpoint()?;
            if began {
                return Ok(());
            }
        }
    }

    fn await_checkpoint(&self) -> Result<()> {
        let mut checkpoints = held(&self.background.checkpoints);
        let before = checkpoints.finished;
        while checkpoints.under_way && checkpoints.finished == before {
            if let Some(error) = &checkpoints.failed {
                return Err(error.clone());
            }
            self.check_poison()?;
            if self.is_stopping() {
                return Err(Error::Closed);
            }
            let waited = self.background.checkpointed.wait_timeout(checkpoints, RETRY_ROOM);
            checkpoints = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Removes the segment of the ended helper that is not part of the log. If that fails, the next opening removes it.
    pub(crate) fn clear_up(&self) {
        if let Some(unfinished) = held(&self.background.unfinished).take() {
            drop(self.storage.remove(&unfinished));
        }
    }

    /// The helper thread.
    pub(crate) fn run_helper(&self) {
        let mut helping = HelperState::default();
        let mut time_kept = None;
        while !self.is_stopping() && self.poison.get().is_none() {
            let hungry_bytes = self.background.hungry_bytes.swap(0, Ordering::Relaxed);
            let prepared = self.prepare_piece(&mut helping, hungry_bytes);
            let checkpointed = self.checkpoint_piece(&mut helping);
            let sent = self.write_back(&mut helping.write_back);
            self.retire(&mut helping);
            let preparing = helping.preparing.as_ref().map_or(0, Preparing::capacity_bytes);
            self.check_free_room(&mut helping.free_room_checks, preparing);
            self.keep_time(&mut time_kept);
            if prepared || checkpointed || sent {
                if !self.background.is_awaited() {
                    self.pause();
                }
                continue;
            }
            let again = [
                helping.prepare_again,
                helping.checkpoint_again,
                helping.retire_again,
                helping.free_room_checks.next(),
            ];
            let wait = again
                .into_iter()
                .flatten()
                .min()
                .map_or(HELPER_SLEEP, |again| again.saturating_duration_since(Instant::now()));
            self.helper.sleep(wait);
        }
        *held(&self.background.unfinished) = helping.unfinished;
    }

    /// Writes a piece of the checkpoint under way. Returns false if there is none.
    fn checkpoint_piece(&self, helping: &mut HelperState) -> bool {
        let wanted = self.background.checkpoint_wanted.swap(false, Ordering::SeqCst);
        if !wanted && helping.checkpoint_again.is_some_and(|again| again > Instant::now()) {
            return false;
        }
        helping.checkpoint_again = None;
        if helping.checkpoint.is_none() {
            helping.checkpoint = held(&self.background.checkpoints).work.take();
            if let Some(work) = &mut helping.checkpoint {
                work.await_archives(self.awaited_from());
            }
        }
        let Some(work) = helping.checkpoint.as_mut() else { return false };
        let synced = self.with_commits(|commits| commits.synced_mark().location);
        let piece = if self.background.is_behind() { HURRIED_PIECE_BYTES } else { PIECE_BYTES };
        let written = work.write_piece(&self.storage, piece, synced);
        self.background.write_stall.note_written(work.entries_written(), written.is_ok());
        if self.background.lagging.load(Ordering::Relaxed) {
            self.room.notify_all();
        }
        let progress = match written {
            Ok(CheckpointProgress::WaitForSync(_)) => {
                // Most of it is sent to the disk without holding the log.
                self.write_back_all(&mut helping.write_back);
                self.sync_log().map(|()| None)
            }
            Ok(CheckpointProgress::More) => Ok(None),
            Ok(CheckpointProgress::Finished(finished)) => Ok(Some(finished)),
            Err(error) => Err(error),
        };
        match progress {
            Ok(None) => true,
            Ok(Some(finished)) => {
                helping.checkpoint = None;
                self.finish_checkpoint(helping, finished);
                true
            }
            Err(Error::Closed) => false,
            Err(error) => {
                self.checkpoint_failed(helping, error);
                false
            }
        }
    }

    fn checkpoint_failed(&self, helping: &mut HelperState, error: Error) {
        helping.checkpoint_again = Some(Instant::now() + RETRY_WORK);
        self.reports.add(Report::BackgroundFailed { work: "checkpoint", reason: error.to_string() });
        held(&self.background.checkpoints).failed = Some(error);
        self.background.checkpointed.notify_all();
    }

    fn finish_checkpoint(&self, helping: &mut HelperState, finished: FinishedCheckpoint) {
        reached(Failpoint::CheckpointInstalled);
        if let Some(error) = finished.merge_failure() {
            self.reports.add(Report::BackgroundFailed { work: "merge", reason: error.to_string() });
        }
        self.metrics.merged_windows.add(finished.merged_windows() as u64);
        let installed = self.lock_owner().and_then(|mut guard| {
            let locked = guard.get()?;
            let owner = &mut locked.owner;
            let removable = owner.install(finished)?;
            self.background.write_stall.note_recent(owner.recent_entries());
            self.tell_loads(locked);
            Ok(removable)
        });
        self.background.write_stall.note_written(0, false);
        self.room.notify_all();
        let removable = match installed {
            Ok(removable) => removable,
            Err(error) => return self.fail(&error),
        };
        self.metrics.checkpoints.add(1);
        give_back_freed_memory();
        helping.retired.extend(removable);
        self.retire(helping);
        let mut checkpoints = held(&self.background.checkpoints);
        checkpoints.finished = checkpoints.finished.saturating_add(1);
        checkpoints.under_way = false;
        self.background.awaited.store(false, Ordering::SeqCst);
        self.background.checkpointed.notify_all();
        drop(checkpoints);
        // Messages that came meanwhile may make the next checkpoint due, and nothing else may wake the driver for it.
        self.driver.raise();
    }
}
