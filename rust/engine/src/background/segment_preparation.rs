//! Segments that the helper prepares ahead of the log, a piece at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{PreparedSegment, Preparing, PreparingStep};

use crate::background::thread::{HelperState, PIECE_BYTES, RETRY_ROOM};
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::Instant;

impl Shared {
    /// Prepares a piece of the next segment if one is wanted. Returns false if there is nothing to do. While a publish
    /// waits, the segment is not filled with zeros.
    pub(crate) fn prepare_piece(&self, helping: &mut HelperState, hungry_bytes: u64) -> bool {
        let hungry = hungry_bytes > 0;
        if hungry {
            helping.awaited_bytes = hungry_bytes;
            // A publish waits: a segment that is half full of zeros is finished without pauses, another one is begun
            // without zeros.
            if helping.preparing.as_ref().is_some_and(Preparing::is_half_done) {
                self.background.hungry_bytes.fetch_max(hungry_bytes, Ordering::Relaxed);
            } else {
                helping.preparing = None;
            }
        } else if helping.prepare_again.is_some_and(|again| again > Instant::now()) {
            return false;
        }
        helping.prepare_again = None;
        let awaited = helping.awaited_bytes;
        // A segment of the stock may be too small for a large publish.
        let wanted = self.with_commits(|commits| {
            commits.needs_segment(0, self.segments_ahead()) || (awaited > 0 && commits.needs_segment(awaited, 1))
        });
        if !wanted {
            helping.awaited_bytes = 0;
            helping.preparing = None;
            return false;
        }
        let stepped = match helping.preparing.take() {
            Some(preparing) => preparing.step(PIECE_BYTES),
            None => self.begin_segment(awaited, !hungry),
        };
        self.background.prepared_pieces.fetch_add(1, Ordering::Relaxed);
        let done = match stepped {
            Ok(PreparingStep::More(preparing)) => {
                helping.unfinished = Some(preparing.temporary().to_owned());
                helping.preparing = Some(preparing);
                Ok(())
            }
            Ok(PreparingStep::Prepared(prepared)) => {
                self.background.hungry_bytes.store(0, Ordering::Relaxed);
                helping.free_room_checks.check_soon();
                self.adopt(prepared, helping)
            }
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => true,
            // The log has ended: no segment is wanted any more.
            Err(Error::Closed) => false,
            Err(error) => {
                helping.prepare_again = Some(Instant::now() + self.prepare_failed(&error));
                false
            }
        }
    }

    /// Begins a segment for a submission of `awaited_bytes` that waits; 0 if none waits.
    fn begin_segment(&self, awaited_bytes: u64, zero: bool) -> Result<PreparingStep> {
        let header = self.writer()?.get()?.appender.plan_next(awaited_bytes);
        Preparing::begin(Arc::clone(&self.storage), header, zero)?.step(PIECE_BYTES)
    }

    /// Adds a whole segment to the log. If the log has ended meanwhile, the file is remembered, to be removed.
    pub(crate) fn adopt(&self, prepared: PreparedSegment, helping: &mut HelperState) -> Result<()> {
        helping.unfinished = Some(prepared.temporary().to_owned());
        let is_largest = prepared.capacity_bytes() == u64::from(self.segment_bytes);
        let mut guard = self.writer()?;
        let appender = &mut guard.get()?.appender;
        appender.adopt(prepared)?;
        helping.unfinished = None;
        if is_largest {
            self.background.is_grown.store(true, Ordering::Relaxed);
        }
        let synced = appender.synced();
        let is_told = self.with_commits(|commits| {
            // Reported before any caller can see it; not while the mark refuses.
            let is_news = commits.is_disk_full() && commits.free_room().refusal().is_none();
            if is_news {
                self.reports.put(Report::RoomAgain);
            }
            commits.set_disk_full(false);
            is_news
        });
        guard.settle(None, synced)?;
        drop(guard);
        if is_told {
            self.reports.tell();
        }
        self.metrics.prepared_segments.add(1);
        Ok(())
    }

    /// Reports the failure. Returns how soon to try again.
    fn prepare_failed(&self, error: &Error) -> Duration {
        let is_told = self.with_commits(|commits| {
            let is_news = !commits.is_disk_full();
            if is_news {
                self.reports.put(if error.is_no_space() {
                    Report::DiskFull
                } else {
                    Report::BackgroundFailed { work: "prepare", reason: error.to_string() }
                });
            }
            // In any case, a publish that waits for room must hear that there is none.
            commits.set_disk_full(true);
            is_news
        });
        if is_told {
            self.reports.tell();
        }
        self.room.notify_all();
        RETRY_ROOM
    }
}
