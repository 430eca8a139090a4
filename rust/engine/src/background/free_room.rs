//! Free room on the disk: the helper measures it every second, and at each new segment. The log's queue decides what
//! follows.

use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::message_log::RoomChange;

use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::Instant;

/// How long nobody looks again.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// When free room was measured, and whether that worked.
#[derive(Default)]
pub(crate) struct FreeRoomChecks {
    next: Option<Instant>,
    failed: bool,
}

impl FreeRoomChecks {
    /// When the next measurement is due, if there was one.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Much has changed: the next measurement is due now.
    pub(crate) fn check_soon(&mut self) {
        self.next = None;
    }
}

impl Shared {
    /// Measures free room if a mark is set and the interval is over, while a segment of `preparing` bytes is made. If
    /// the measurement fails, nothing changes.
    pub(crate) fn check_free_room(&self, looks: &mut FreeRoomChecks, preparing: u64) {
        if !self.options.marks.are_set() || looks.next.is_some_and(|next| next > Instant::now()) {
            return;
        }
        looks.next = Some(Instant::now() + CHECK_INTERVAL);
        match self.storage.free_bytes() {
            Ok(free_bytes) => {
                looks.failed = false;
                self.note_free(free_bytes, preparing);
                self.give_room_back();
            }
            Err(error) => {
                self.with_commits(|commits| commits.note_free(None, preparing));
                if !std::mem::replace(&mut looks.failed, true) {
                    self.reports.add(Report::BackgroundFailed { work: "free_room", reason: error.to_string() });
                }
            }
        }
    }

    /// Begins a checkpoint if there is little room and a checkpoint would free some. While messages are refused,
    /// nothing else makes one due.
    fn give_room_back(&self) {
        let is_wanted = self.with_commits(|commits| {
            let room = commits.free_room();
            room.is_low() || room.refusal().is_some()
        });
        if !is_wanted {
            return;
        }
        let reading = self.time.read();
        let begun = self.lock_owner().and_then(|mut guard| {
            let locked = guard.get()?;
            Ok(locked.owner.reclaim(reading) && self.begin_checkpoint(locked))
        });
        match begun {
            Ok(true) => self.helper.raise(),
            Ok(false) | Err(Error::Closed) => {}
            Err(error) => self.fail(&error),
        }
    }

    fn note_free(&self, free_bytes: u64, preparing: u64) {
        let marks = self.options.marks;
        // The report is there before any caller can see the change.
        let change = self.with_commits(|commits| {
            let change = commits.note_free(Some(free_bytes), preparing);
            if change.is_low_now {
                self.reports.put(Report::RoomLow { free_bytes, mark_bytes: marks.warn_bytes });
            }
            match change.refuses_now {
                Some(true) => self.reports.put(Report::BelowMark { free_bytes, mark_bytes: marks.refuse_bytes }),
                Some(false) if !commits.is_disk_full() => self.reports.put(Report::RoomAgain),
                Some(false) | None => {}
            }
            change
        });
        if change == RoomChange::default() {
            return;
        }
        self.reports.tell();
        if change.refuses_now.is_none() {
            return;
        }
        // Publishes that wait for a segment are refused, or try again.
        self.room.notify_all();
    }
}
