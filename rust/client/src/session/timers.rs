//! The timers of a connection.

/// A task at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Timer {
    /// The first answer must have come.
    Hello,
    /// Both sides are alive.
    Ping,
    /// Queued settlements are sent.
    Settle,
    /// The server is asked whether settlements are durable.
    Confirm,
    /// Subscriptions that were refused temporarily are requested again.
    Resubscribe,
    /// A node that is not the primary is left.
    Leave,
    /// Messages whose time to be handled is over go back to their group.
    PassOn,
}

/// The times of the timers that are set.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(std::collections::BTreeMap<Timer, u64>);

impl Timers {
    /// Sets a timer, in place of an earlier time.
    pub(super) fn set(&mut self, timer: Timer, at_ms: u64) {
        self.0.insert(timer, at_ms);
    }

    /// Sets a timer that is not set.
    pub(super) fn set_once(&mut self, timer: Timer, at_ms: u64) {
        self.0.entry(timer).or_insert(at_ms);
    }

    /// Sets a timer, unless it is set to an earlier time.
    pub(super) fn set_earlier(&mut self, timer: Timer, at_ms: u64) {
        self.0.entry(timer).and_modify(|set| *set = at_ms.min(*set)).or_insert(at_ms);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    /// The next time.
    pub(super) fn next_ms(&self) -> Option<u64> {
        self.0.values().min().copied()
    }

    /// Removes the timers that are due.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<Timer> {
        let due: Vec<Timer> = self.0.iter().filter(|(_, at)| **at <= now_ms).map(|(timer, _)| *timer).collect();
        for timer in &due {
            self.clear(*timer);
        }
        due
    }
}
