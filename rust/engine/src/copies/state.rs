//! The state of a store that leads, next to that of a store alone: its log as other nodes have it, what is taken, and what was
//! taken on too few copies. Each part has a mutex of its own, so that no look waits for a sync or for the owner.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::Error;
use delaymq_core::message_log::{Appended, Mark};
use delaymq_core::replication::LogView;
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::LogEnds;
use delaymq_core::units::{Epoch, Sequence};

use crate::copies::waiting_loads::WaitingLoads;
use crate::held;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// How many ranges of short commits are told apart. One more joins the two oldest ones, with what is between them: its
/// outcome counts as unknown, too.
const SHORT_RANGES_MAX: usize = 1_024;

/// How many places are remembered: a few for each of a few nodes.
const CURSORS_MAX: usize = 16;

/// Called when the log has grown, more of it is durable, or the store has failed.
pub(crate) type Changed = Arc<dyn Fn() + Send + Sync>;

/// Called on a thread that may wait when the message of an entry is damaged. True if it may be whole now, because another copy has it.
pub(crate) type Mend = Arc<dyn Fn(&Entry) -> bool + Send + Sync>;

/// The additional state of a store that leads.
pub(crate) struct Copies {
    pub(crate) epoch: Epoch,
    pub(super) log: Mutex<WrittenLog>,
    pub(super) changed: Changed,
    pub(crate) mend: Mend,
    /// The first fact of the epoch is applied: the store may decide.
    pub(super) has_begun: AtomicBool,
    /// The sequence after the first fact of the epoch; 0 before it is queued.
    pub(super) begun_at: AtomicU64,
    pub(super) taken: Mutex<Taken>,
    pub(super) cursors: Mutex<Cursors>,
    /// The sequence from which on the log is kept for other nodes.
    pub(super) kept_from: AtomicU64,
    pub(super) loads: WaitingLoads,
}

impl Copies {
    pub(crate) fn new(epoch: Epoch, log: WrittenLog, changed: Changed, mend: Mend) -> Self {
        Self {
            epoch,
            log: Mutex::new(log),
            changed,
            mend,
            has_begun: AtomicBool::new(false),
            begun_at: AtomicU64::new(0),
            taken: Mutex::default(),
            cursors: Mutex::default(),
            kept_from: AtomicU64::new(u64::MAX),
            loads: WaitingLoads::default(),
        }
    }

    /// Tells the node that there is something new.
    pub(crate) fn tell(&self) {
        (self.changed)();
    }

    pub(super) fn begun_at(&self) -> Sequence {
        Sequence(self.begun_at.load(Ordering::SeqCst))
    }

    pub(super) fn note_committed(&self, end: Sequence, count: CopyCount) {
        held(&self.taken).committed(end, count);
    }

    /// A batch was written, and not synced. The other nodes may have it from now on.
    pub(crate) fn appended(&self, appended: &Appended) {
        {
            let mut log = held(&self.log);
            log.ends.appended(&appended.header);
            log.ends.synced(appended.synced.sequence);
            log.written = appended.end;
        }
        self.tell();
    }

    /// Everything before this sequence is durable, and group commit knows of it: what the node commits then is found there.
    pub(crate) fn synced(&self, durable: Sequence) {
        {
            let mut log = held(&self.log);
            if durable <= log.ends.durable() {
                return;
            }
            log.ends.synced(durable);
        }
        self.tell();
    }

    /// The end of what is written.
    pub(crate) fn written(&self) -> Mark {
        held(&self.log).written
    }
}

/// How far the log is written and durable.
pub(crate) struct WrittenLog {
    pub(crate) ends: LogEnds,
    /// The end of what is written: batches before it may be read.
    pub(crate) written: Mark,
}

/// The number of copies, and how many the group demands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyCount {
    /// The nodes that have everything that is committed.
    pub copies: usize,
    /// The smallest number with which a publish is answered as stored.
    pub min_copies: usize,
}

impl CopyCount {
    pub(super) fn is_short(self) -> bool {
        self.copies < self.min_copies
    }

    pub(super) fn refusal(self, maybe_stored: bool) -> Error {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Error::NotEnoughCopies { copies: number(self.copies), min_copies: number(self.min_copies), maybe_stored }
    }
}

/// Whether a store that leads takes publishes and the like. Deliveries and queries go on in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Intake {
    /// It does.
    #[default]
    Yes,
    /// Too few nodes have a copy.
    NotEnough(CopyCount),
    /// Another node is to become primary.
    HandingOver,
}

/// Whether requests are taken, and which were taken on too few copies.
#[derive(Default)]
pub(crate) struct Taken {
    pub(super) intake: Intake,
    /// The sequence below which everything is committed.
    pub(super) committed: Sequence,
    /// The count of the last commit.
    pub(super) count: CopyCount,
    /// Facts that were committed on too few copies, in order, with the count of the last of each range.
    pub(super) short: VecDeque<(Range<Sequence>, CopyCount)>,
}

impl Taken {
    /// Everything before `end` is committed on so many copies.
    pub(super) fn committed(&mut self, end: Sequence, count: CopyCount) {
        self.count = count;
        if end <= self.committed {
            return;
        }
        let range = std::mem::replace(&mut self.committed, end)..end;
        if !count.is_short() {
            return;
        }
        match self.short.back_mut().filter(|(last, _)| last.end == range.start) {
            Some(last) => *last = (last.0.start..end, count),
            None => self.short.push_back((range, count)),
        }
        if self.short.len() > SHORT_RANGES_MAX
            && let Some((oldest, _)) = self.short.pop_front()
            && let Some((next, _)) = self.short.front_mut()
        {
            next.start = oldest.start;
        }
    }

    /// The count with which the last fact before `end` was committed, if that was too short.
    pub(super) fn short_at(&self, end: Sequence) -> Option<CopyCount> {
        let place = self.short.partition_point(|(range, _)| range.end < end);
        self.short.get(place).filter(|(range, _)| range.start < end).map(|(_, count)| *count)
    }
}

/// The ends of the last shipments, the newest last.
#[derive(Default)]
pub(crate) struct Cursors {
    pub(super) ends: VecDeque<Mark>,
}

impl Cursors {
    pub(super) fn find(&self, first: Sequence) -> Option<Mark> {
        self.ends.iter().copied().find(|end| end.sequence == first)
    }

    pub(super) fn note(&mut self, end: Mark) {
        self.ends.retain(|known| known.sequence != end.sequence);
        if self.ends.len() >= CURSORS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
    }

    pub(super) fn forget(&mut self, place: Mark) {
        self.ends.retain(|known| *known != place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: CopyCount = CopyCount { copies: 1, min_copies: 2 };
    const ENOUGH: CopyCount = CopyCount { copies: 2, min_copies: 2 };

    fn short(taken: &Taken, ends: Range<u64>) -> Vec<u64> {
        ends.filter(|end| taken.short_at(Sequence(*end)).is_some()).collect()
    }

    #[test]
    fn what_was_committed_on_too_few_copies_is_known_and_the_rest_is_not_touched() {
        let mut taken = Taken::default();
        for (end, count) in [(3, ENOUGH), (5, SHORT), (6, SHORT), (6, ENOUGH), (9, ENOUGH), (10, SHORT)] {
            taken.committed(Sequence(end), count);
        }
        assert_eq!(short(&taken, 0..20), [4, 5, 6, 10]);
        assert_eq!(taken.short.len(), 2, "what stands together is one range");
    }

    #[test]
    fn the_oldest_ranges_join() {
        let mut taken = Taken::default();
        for turn in 0..=SHORT_RANGES_MAX as u64 {
            taken.committed(Sequence(2 * turn + 2), ENOUGH);
            taken.committed(Sequence(2 * turn + 3), SHORT);
        }
        assert_eq!(taken.short.len(), SHORT_RANGES_MAX);
        assert_eq!(short(&taken, 0..10), [3, 4, 5, 7, 9]);
    }
}
