//! Pauses of the helper, which leave the disk to the log.

use std::time::Duration;

use crate::background::thread::PIECE_BYTES;
use crate::shared::Shared;
use crate::sync::{Instant, thread};

/// The longest pause after a piece, while no thread waits for it.
const PAUSE: Duration = Duration::from_millis(10);
/// A pause ends early when the log has grown by this much: preparation must keep up with the arriving messages, and a
/// little more.
const PAUSE_BYTES: u64 = PIECE_BYTES / 3 * 2;
/// How often a pause looks at the log.
const PAUSE_STEP: Duration = Duration::from_millis(1);

impl Shared {
    /// Leaves the disk to the commits for a while: each sync of a piece lengthens theirs.
    pub(crate) fn pause(&self) {
        let grown = self.metrics.committed_bytes.read().saturating_add(PAUSE_BYTES);
        let until = Instant::now() + PAUSE;
        while Instant::now() < until && self.metrics.committed_bytes.read() < grown && !self.is_stopping() {
            thread::sleep(PAUSE_STEP);
            if self.background.is_awaited() {
                return;
            }
        }
    }
}
