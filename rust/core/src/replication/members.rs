//! The state of each other node, as a primary knows it: how far its log is matched, sent and durable there.

use super::clocks::Measured;
use crate::units::Sequence;

/// How far the exchange with a node has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// It was asked to promise the epoch.
    Asked,
    /// It has promised, and was sent the end to keep.
    Matching,
    /// Its log is the beginning of the primary's.
    Matched,
    /// Its log has other facts of an epoch that both have. Batches cannot mend that.
    Diverged,
}

/// One other node, as a primary sees it.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) stage: Stage,
    /// The number of the exchange.
    pub(super) attempt: u64,
    /// The sequence after the last fact that is durable there. `None` before it said so in this epoch.
    pub(super) durable: Option<Sequence>,
    /// The sequence after the last fact that was sent.
    pub(super) sent: Sequence,
    /// When it was last heard.
    pub(super) heard_ms: u64,
    /// The end of the log at the last heartbeat.
    pub(super) beat_end: Sequence,
    /// The end of the log that it must reach, and since when.
    awaited: Option<(Sequence, u64)>,
    /// Its wall clock.
    pub(super) clock: Option<Measured>,
    /// How far its clock is at least ahead of the group's.
    pub(super) clock_ahead_ms: Option<i64>,
    pub(super) is_clock_apart: bool,
}

impl Member {
    /// A node that is asked for its promise now.
    pub(super) fn asked(attempt: u64, now_ms: u64) -> Self {
        Self {
            stage: Stage::Asked,
            attempt,
            durable: None,
            sent: Sequence(0),
            heard_ms: now_ms,
            beat_end: Sequence(0),
            awaited: None,
            clock: None,
            clock_ahead_ms: None,
            is_clock_apart: false,
        }
    }

    /// Begins another exchange. What is durable stays so.
    pub(super) fn ask_again(&mut self, attempt: u64) {
        (self.stage, self.attempt) = (Stage::Asked, attempt);
    }

    /// Notes how far the log of the primary reaches, and since when the node lacks some of it.
    pub(super) fn await_end(&mut self, end: Sequence, now_ms: u64) {
        let reached = |until: Sequence| self.durable.is_some_and(|durable| durable >= until);
        match self.awaited {
            Some((until, _)) if !reached(until) => {}
            _ if reached(end) => self.awaited = None,
            _ => self.awaited = Some((end, now_ms)),
        }
    }

    /// The primary stood still, so that what it waits for may have come later.
    pub(super) fn stood_still(&mut self, later: impl Fn(u64) -> u64) {
        self.heard_ms = later(self.heard_ms);
        self.awaited = self.awaited.map(|(end, since_ms)| (end, later(since_ms)));
    }

    /// True if the node was not heard for `limit_ms`, or did not make durable for as long what the log holds.
    pub(super) fn is_silent(&self, now_ms: u64, limit_ms: u64) -> bool {
        let late = |since_ms: u64| now_ms.saturating_sub(since_ms) >= limit_ms;
        late(self.heard_ms) || self.awaited.is_some_and(|(_, since_ms)| late(since_ms))
    }

    /// True if it lags behind the log by less than a heartbeat.
    pub(super) fn is_near(&self) -> bool {
        self.beat_end > Sequence(0) && self.has(self.beat_end)
    }

    /// True if everything before `end` is durable there.
    pub(super) fn has(&self, end: Sequence) -> bool {
        self.stage == Stage::Matched && self.durable.is_some_and(|durable| durable >= end)
    }
}
