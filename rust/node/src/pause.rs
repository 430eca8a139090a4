//! Pauses after failures.

use std::time::{Duration, Instant};

/// The first pause after a failure.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest pause after a failure: longer than a pin, so that a node which always fails does not keep all files for ever.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// A pause after a failure. It is twice as long after each further one.
#[derive(Default)]
pub(crate) struct Pause {
    last: Option<(Instant, Duration)>,
}

impl Pause {
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.last.is_some_and(|(began, length)| now.duration_since(began) < length)
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        let length = self.last.map_or(PAUSE, |(_, length)| length.saturating_mul(2).min(PAUSE_MAX));
        self.last = Some((now, length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_twice_as_long_after_each_failure_up_to_a_limit() {
        let (mut pause, mut now) = (Pause::default(), Instant::now());
        assert!(!pause.is_on(now));
        for length in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map(Duration::from_secs) {
            pause.begin(now);
            assert!(pause.is_on(now) && pause.is_on(now + length / 2) && !pause.is_on(now + length));
            now += length;
        }
    }
}
