//! A store that receives no facts for a while uses the time for a checkpoint.

use super::step::Progress;
use crate::store::owner::Owner;
use crate::store::propose::rest::Rest;
use crate::units::Millis;

/// How long no new fact must have come before the store counts as quiet, in milliseconds.
const QUIET_MS: u64 = 5_000;
/// A quiet store makes a checkpoint once this share of the usual facts or bytes has come since the last one.
const QUIET_SHARE: u64 = 64;

impl Owner {
    /// Makes a checkpoint due when the store is quiet and a checkpoint is worth it. A restart then reads less, and the
    /// disk space of cancelled messages is freed; no later fact would make a checkpoint due. Returns `progress`, with
    /// the time of this checkpoint if it is still to come.
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
