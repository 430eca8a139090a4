//! Whether the disk of a store that leads hangs: it has work, and has done none of it for a while.

use std::time::{Duration, Instant};

use delaymq_core::units::Sequence;
use delaymq_engine::DiskWork;

/// A store that leads and waits for so long for a write, a sync or a segment has a disk that hangs.
pub(super) const DISK_HANGS: Duration = Duration::from_secs(2);

/// See the module.
pub(super) struct DiskWatch {
    done: (Sequence, u64),
    /// When the disk last did some work, or had none.
    since: Instant,
}

impl DiskWatch {
    /// A watch over a store that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self { done: (Sequence(0), 0), since: now }
    }

    /// The thread that watches stood still for so long, and perhaps the whole process. The threads of the store may have done nothing
    /// because they stood still as well, so this time does not count.
    pub(super) fn stood_still(&mut self, standstill: Duration, now: Instant) {
        self.since = self.since.checked_add(standstill).map_or(now, |since| since.min(now));
    }

    /// True if the disk hangs.
    pub(super) fn hangs(&mut self, work: DiskWork, now: Instant) -> bool {
        if !work.is_awaited || work.done != self.done {
            (self.done, self.since) = (work.done, now);
        }
        now.duration_since(self.since) >= DISK_HANGS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: DiskWork = DiskWork { is_awaited: true, done: (Sequence(7), 3) };

    #[test]
    fn a_disk_that_does_no_work_for_two_seconds_hangs() {
        let began = Instant::now();
        let mut watch = DiskWatch::new(began);
        assert!(!watch.hangs(AWAITED, began));
        assert!(!watch.hangs(AWAITED, began + Duration::from_millis(1_999)));
        assert!(watch.hangs(AWAITED, began + DISK_HANGS));
        // It has done something.
        let further = DiskWork { done: (Sequence(8), 3), ..AWAITED };
        assert!(!watch.hangs(further, began + DISK_HANGS));
        assert!(watch.hangs(further, began + DISK_HANGS * 2));
        assert!(!watch.hangs(DiskWork { is_awaited: false, ..further }, began + DISK_HANGS * 2));
    }

    #[test]
    fn a_process_that_stood_still_has_no_disk_that_hangs() {
        let began = Instant::now();
        let mut watch = DiskWatch::new(began);
        assert!(!watch.hangs(AWAITED, began));
        let later = began + Duration::from_secs(60);
        watch.stood_still(Duration::from_secs(60), later);
        assert!(!watch.hangs(AWAITED, later));
        // From then on it counts again.
        assert!(watch.hangs(AWAITED, later + DISK_HANGS));
    }

    #[test]
    fn a_standstill_never_makes_the_watch_begin_later_than_now() {
        let began = Instant::now();
        let mut watch = DiskWatch::new(began);
        watch.stood_still(Duration::from_secs(60), began);
        assert!(!watch.hangs(AWAITED, began));
        assert!(watch.hangs(AWAITED, began + DISK_HANGS));
    }
}
