//! Releasing disk space: files that no kept checkpoint needs are removed, and holes that both checkpoints name are
//! punched. A removed file stays readable for a process that has it open, but a punched one turns to zeros under its
//! readers. A hole therefore waits until no view of its segment is left, and no new view is made from then on.

use delaymq_core::error::Result;
use delaymq_core::message_log::Hole;
use delaymq_core::store::{Removable, is_pinned, punch};

use crate::background::thread::{HelperState, RETRY_WORK};
use crate::query::report::Report;
use crate::shared::Shared;
use crate::sync::Instant;

impl Shared {
    /// Removes retired files and punches holes. It waits while a pin or a view holds them, and tries again after a
    /// failure. The next opening, with the checkpoint after it, releases the rest.
    pub(crate) fn retire(&self, helping: &mut HelperState) {
        if helping.retired.is_empty() || helping.retire_again.is_some_and(|again| again > Instant::now()) {
            return;
        }
        helping.retire_again = None;
        // A reader names the end of its pin by the wall clock, which may be behind the trusted time.
        let (reading, clock) = self.time.read_with_wall();
        let given_back = match is_pinned(self.storage.as_ref(), reading.now.min(clock.wall())) {
            Ok(true) => Ok(false),
            Ok(false) => self.give_back(helping),
            Err(error) => Err(error),
        };
        match given_back {
            Ok(true) => {}
            Ok(false) => helping.retire_again = Some(Instant::now() + RETRY_WORK),
            Err(error) => {
                self.reports.add(Report::BackgroundFailed { work: "retire", reason: error.to_string() });
                helping.retire_again = Some(Instant::now() + RETRY_WORK);
            }
        }
    }

    /// True if nothing is left to release.
    fn give_back(&self, helping: &mut HelperState) -> Result<bool> {
        let storage = self.storage.as_ref();
        let retired = &mut helping.retired;
        for path in retired.checkpoints.iter().chain(&retired.files) {
            self.payloads.forget(path);
        }
        if !retired.checkpoints.is_empty() || !retired.files.is_empty() {
            retired.remove(storage)?;
            self.metrics.retired_files.add(retired.files.len() as u64);
        } else if let Some(sweep) = &retired.sweep {
            sweep.sweep(storage)?;
        }
        let run_holes = std::mem::take(&mut retired.run_holes);
        *retired = Removable { holes: std::mem::take(&mut retired.holes), ..Removable::default() };
        let holes = std::mem::take(&mut retired.holes);
        if helping.has_no_holes {
            return Ok(true);
        }
        // Holes whose turn has not come, or that could not be punched now, stay for the next try.
        let (free, viewed): (Vec<Hole>, Vec<Hole>) =
            holes.iter().partition(|hole| self.payloads.is_unmapped(hole.segment()));
        // What is read of a run is copied, so no view of the file stays.
        (retired.holes, retired.run_holes) = (holes, run_holes);
        if let Some(bytes) = punch(storage, &free, &retired.run_holes, self.options.owner.hole_block_bytes)? {
            self.metrics.punched_bytes.add(bytes);
            retired.holes = viewed;
            retired.run_holes.clear();
        } else {
            (retired.holes, retired.run_holes) = (Vec::new(), Vec::new());
            helping.has_no_holes = true;
            self.reports.add(Report::NoHoles);
        }
        Ok(helping.retired.holes.is_empty())
    }
}
