//! What a store does with the time in which nothing comes.

use super::step::Progress;
use crate::store::owner::Owner;
use crate::store::propose::rest::Rest;
use crate::units::Millis;

/// Without a new fact for so long, nothing more is expected soon.
const QUIET_MS: u64 = 5_000;
/// Then a checkpoint is due where this share of what makes one due otherwise has come since the last.
const QUIET_SHARE: u64 = 64;

impl Owner {
    /// The tail of what came is put into runs where it is worth that, so that a restart has less to read, and the room
    /// of what was cancelled is given back: no other facts will come that make a checkpoint due. Returns `progress` with
    /// the time of this in it.
    pub(in crate::store) fn rest(&mut self, now: Millis, progress: Progress) -> Progress {
        let next = self.state.position.next_sequence;
        if self.rest.next != next {
            self.rest = Rest { next, since: now, ..self.rest };
        }
        if self.rest.asked == next || self.freezing || !self.share_of_checkpoint(QUIET_SHARE) {
            return progress;
        }
        let due = self.rest.since.plus(QUIET_MS);
        if now < due {
            return Progress { next: progress.next.map_or(Some(due), |next| Some(next.min(due))), ..progress };
        }
        self.rest.asked = next;
        self.reclaims = true;
        progress
    }
}
