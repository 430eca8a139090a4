//! The time limit for silent peers with subscriptions: such a peer holds messages that others of its group could
//! have. A machine can keep the connection of a stopped process open, so a closed connection is not enough.

use crate::units::Millis;

/// Since when a peer is silent, and whether a limit applies.
#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Silence {
    since: Millis,
    is_bounded: bool,
}

impl Silence {
    /// A peer without a limit.
    pub(in crate::wire) fn new(now: Millis) -> Self {
        Self { since: now, is_bounded: false }
    }

    /// The peer sent something, or could not be read until now.
    pub(in crate::wire) fn broken(&mut self, now: Millis) {
        self.since = now;
    }

    /// Sets whether a limit applies from now on.
    pub(in crate::wire) fn bound(&mut self, is_bounded: bool, now: Millis) {
        if is_bounded && !self.is_bounded {
            self.since = now;
        }
        self.is_bounded = is_bounded;
    }

    /// When the limit is reached.
    pub(in crate::wire) fn end(&self, silence_ms_max: u64) -> Option<Millis> {
        self.is_bounded.then(|| self.since.plus(silence_ms_max))
    }
}
