//! How long a peer may be silent that must not be: it holds messages which others of its group could
//! have, and a machine answers for a process that is stopped.

use crate::units::Millis;

/// Since when a peer is silent, and whether that matters.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Silence {
    since: Millis,
    is_bounded: bool,
}

impl Silence {
    /// A peer that may be silent.
    pub(in crate::wire) fn new(now: Millis) -> Self {
        Self { since: now, is_bounded: false }
    }

    /// It sent something, or could not have been heard until now.
    pub(in crate::wire) fn broken(&mut self, now: Millis) {
        self.since = now;
    }

    /// From now on it must not be silent, or may be.
    pub(in crate::wire) fn bound(&mut self, is_bounded: bool, now: Millis) {
        if is_bounded && !self.is_bounded {
            self.since = now;
        }
        self.is_bounded = is_bounded;
    }

    /// When it will have been silent for too long.
    pub(in crate::wire) fn end(&self, silence_ms_max: u64) -> Option<Millis> {
        self.is_bounded.then(|| self.since.plus(silence_ms_max))
    }
}
