//! The wall clocks of the nodes, compared, so that no node takes over whose clock is wrong while another node may.
//!
//! A heartbeat has the time of the primary's own clock, which only goes on. The answer returns it with the wall clock of the
//! replica, which the replica read at some moment in between: half of the time in between is the error. So the primary knows
//! all clocks. It tells each replica how far its clock is from that of the group, which is the clock that most nodes agree
//! with. If no majority agrees, as of two nodes, it is the clock that is the least far: messages are then late rather than
//! early.
//!
//! A clock is kept as its *start*: what it showed when the own clock of the node that measures showed 0. Between two
//! measurements, the start changes if the clock is stepped, and only then.

use crate::units::Millis;

/// Clocks that are further apart than this disagree.
const APART_MS_MAX: i64 = 100;
/// A clock that disagreed with that of the group agrees again if it is no further from it than this.
const TOGETHER_MS_MAX: i64 = 50;
/// How long an exact measurement is kept while the later ones are less exact.
const EXACT_KEPT_MS: u64 = 5_000;
/// A measurement says nothing of the clock after so long.
const MEASURED_FOR_MS: u64 = 10_000;
/// Each clock of a measurement shows whole milliseconds.
const ROUNDING_MS: i64 = 2;

/// The start of a clock that shows `wall` now.
fn start_of(wall: Millis, now_ms: u64) -> Option<i64> {
    let (wall, now) = (i64::try_from(wall.0).ok()?, i64::try_from(now_ms).ok()?);
    wall.checked_sub(now)
}

/// The wall clock of another node, as a primary has measured it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_field_names, reason = "a name carries its unit")]
pub(super) struct Measured {
    start_ms: i64,
    error_ms: i64,
    at_ms: u64,
}

impl Measured {
    /// The clock of a node that showed `wall` between `asked_ms` and now. `None` if that cannot be.
    pub(super) fn between(asked_ms: u64, now_ms: u64, wall: Millis) -> Option<Self> {
        let half = now_ms.checked_sub(asked_ms)? / 2;
        let start_ms = start_of(wall, asked_ms.saturating_add(half))?;
        Some(Self { start_ms, error_ms: i64::try_from(half).ok()?.saturating_add(ROUNDING_MS), at_ms: now_ms })
    }

    /// The better one of this measurement and a later one. If they contradict each other, the clock was stepped.
    pub(super) fn or_later(self, later: Self) -> Self {
        let is_recent = later.at_ms.saturating_sub(self.at_ms) < EXACT_KEPT_MS;
        let is_stepped = certain_ms(self, later) != 0;
        if is_recent && !is_stepped && self.error_ms < later.error_ms { self } else { later }
    }

    /// The same, unless it is too old.
    pub(super) fn still(self, now_ms: u64) -> Option<Self> {
        (now_ms.saturating_sub(self.at_ms) < MEASURED_FOR_MS).then_some(self)
    }

    /// How far this clock is ahead of that of the node that measured it, in milliseconds.
    pub(super) fn ahead_of(self, own: Self) -> i64 {
        self.start_ms.saturating_sub(own.start_ms)
    }
}

/// How far a clock is at least ahead of another one, in milliseconds; less than 0 if it is behind.
pub(super) fn certain_ms(clock: Measured, other: Measured) -> i64 {
    let ahead_ms = clock.start_ms.saturating_sub(other.start_ms);
    let error_ms = clock.error_ms.saturating_add(other.error_ms);
    if ahead_ms.saturating_abs() <= error_ms {
        0
    } else {
        ahead_ms.saturating_sub(ahead_ms.signum().saturating_mul(error_ms))
    }
}

/// True if a clock that is so far ahead disagrees, after one that did or did not.
pub(super) fn is_apart(was_apart: bool, ahead_ms: i64) -> bool {
    ahead_ms.saturating_abs() > if was_apart { TOGETHER_MS_MAX } else { APART_MS_MAX }
}

/// The clock of the group.
pub(super) fn of_group(clocks: &[Measured]) -> Option<Measured> {
    let agrees = |clock: Measured, other: &Measured| certain_ms(clock, *other).saturating_abs() <= APART_MS_MAX;
    let agreeing = |clock: &Measured| clocks.iter().filter(|other| agrees(*clock, other)).count();
    let most = clocks.iter().map(agreeing).max()?;
    if most.saturating_mul(2) > clocks.len() {
        clocks.iter().find(|clock| agreeing(clock) == most).copied()
    } else {
        clocks.iter().min_by_key(|clock| clock.start_ms).copied()
    }
}

/// The wall clock of a node itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct OwnClock {
    /// `None` before the caller has shown it.
    start_ms: Option<i64>,
    /// How far it was ahead of the group's, and its start then.
    compared: Option<(i64, i64)>,
    is_apart: bool,
}

impl OwnClock {
    /// The clock shows this now.
    pub(super) fn show(&mut self, wall: Millis, now_ms: u64) {
        self.start_ms = start_of(wall, now_ms);
        self.judge();
    }

    /// The clock is so far ahead of the group's.
    pub(super) fn compare(&mut self, ahead_ms: i64) {
        self.compared = self.start_ms.map(|start_ms| (ahead_ms, start_ms));
        self.judge();
    }

    fn judge(&mut self) {
        self.is_apart = self.ahead_ms().is_some_and(|ahead_ms| is_apart(self.is_apart, ahead_ms));
    }

    /// The time that it shows. 0 if that is not known.
    pub(super) fn wall(&self, now_ms: u64) -> Millis {
        let wall = self.start_ms.zip(i64::try_from(now_ms).ok()).map(|(start, now)| start.saturating_add(now));
        Millis(wall.and_then(|wall| u64::try_from(wall).ok()).unwrap_or(0))
    }

    /// It, as a measurement without an error.
    pub(super) fn measured(&self, now_ms: u64) -> Option<Measured> {
        self.start_ms.map(|start_ms| Measured { start_ms, error_ms: 0, at_ms: now_ms })
    }

    /// How far it is at least ahead of the group's clock, in milliseconds; less than 0 if it is behind. `None` if it was not
    /// compared.
    pub(super) fn ahead_ms(&self) -> Option<i64> {
        let ((ahead_ms, then), now) = self.compared.zip(self.start_ms)?;
        Some(ahead_ms.saturating_add(now.saturating_sub(then)))
    }

    /// True if it disagrees with that of the group.
    pub(super) fn is_apart(&self) -> bool {
        self.is_apart
    }
}

#[cfg(test)]
mod tests;
