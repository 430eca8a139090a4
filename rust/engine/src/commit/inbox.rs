//! The inbox: visible batches between the thread that committed them and the thread that drives the owner.
//!
//! Small batches are copied together, large ones are handed over with their buffers. The inbox also knows what the
//! sleeping driver plans to do, so that one look under one mutex says whether it must be woken.

use delaymq_core::clock::Reading;
use delaymq_core::record::batch::{BATCH_HEADER_BYTES, BatchHeader};
use delaymq_core::store::VisibleBatch;
use delaymq_core::units::{Location, Millis};

use crate::held;
use crate::sync::Mutex;

/// A batch of at least this many bytes is handed over with its buffer.
const HANDED_OVER_FROM: usize = 128 << 10;

/// With more bytes than this in the inbox, a committing thread waits until they are applied.
pub(crate) const BACKLOG_BYTES: usize = 64 << 20;
/// With more bytes than this in the inbox, the driver is woken even if nothing is urgent: the bytes are still in the
/// processor's caches then, and few buffers are in use.
const PORTION_BYTES: usize = 1 << 20;
/// Later than everything.
const FAR: Millis = Millis(u64::MAX);

#[derive(Clone, Copy, Debug)]
enum Place {
    /// These bytes of the arena.
    Arena { start: usize, length: usize },
    /// This buffer.
    Buffer { index: usize },
}

#[derive(Clone, Copy, Debug)]
struct Arrived {
    header: BatchHeader,
    start: Location,
    place: Place,
}

/// Batches in log order.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    arrived: Vec<Arrived>,
    arena: Vec<u8>,
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Batches {
    /// The batches, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = VisibleBatch<'_>> {
        self.arrived.iter().map(|arrived| {
            let whole = match arrived.place {
                Place::Arena { start, length } => self.arena.get(start..start.saturating_add(length)),
                Place::Buffer { index } => self.buffers.get(index).map(Vec::as_slice),
            };
            let records = whole.and_then(|whole| whole.get(BATCH_HEADER_BYTES..)).unwrap_or_default();
            VisibleBatch { header: arrived.header, start: arrived.start, records }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Takes a whole batch; `buffer` is empty afterwards.
    fn add(&mut self, start: Location, buffer: &mut Vec<u8>) {
        let Some(header) = BatchHeader::read(buffer) else { return };
        self.bytes = self.bytes.saturating_add(buffer.len());
        let place = if buffer.len() >= HANDED_OVER_FROM {
            self.buffers.push(std::mem::take(buffer));
            Place::Buffer { index: self.buffers.len().saturating_sub(1) }
        } else {
            let place = Place::Arena { start: self.arena.len(), length: buffer.len() };
            self.arena.extend_from_slice(buffer);
            buffer.clear();
            place
        };
        self.arrived.push(Arrived { header, start, place });
    }

    /// Forgets the batches and gives back the buffers that were handed over.
    pub(crate) fn clear(&mut self) -> std::vec::Drain<'_, Vec<u8>> {
        self.arrived.clear();
        self.arena.clear();
        self.bytes = 0;
        self.buffers.drain(..)
    }
}

/// How urgent a batch is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommitUrgency {
    /// A thread waits for what is in it.
    pub(crate) urgent: bool,
    /// The earliest due time among its messages.
    pub(crate) earliest_due: Millis,
}

impl CommitUrgency {
    /// Not urgent.
    pub(crate) const NONE: Self = Self { urgent: false, earliest_due: FAR };

    /// A thread waits for it.
    pub(crate) const URGENT: Self = Self { urgent: true, earliest_due: FAR };

    /// The more urgent of both.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { urgent: self.urgent || other.urgent, earliest_due: self.earliest_due.min(other.earliest_due) }
    }
}

/// Which thread has to look at the inbox now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum WakeReason {
    /// None: the driver is awake, or wakes soon enough.
    None,
    /// The sleeping driver, since there is something to plan.
    Driver,
    /// The committing thread itself, since a thread waits for the result of applying.
    Now,
}

#[derive(Debug)]
struct State {
    batches: Batches,
    urgent: bool,
    earliest_due: Millis,
    /// When the driver looks here next without being woken.
    driver_looks_at: Millis,
    /// The driver knows that there is something, and looks often until there is nothing.
    told: bool,
    /// A thread reminded the driver since it woke.
    reminded: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let state = State {
            batches: Batches::default(),
            urgent: false,
            earliest_due: FAR,
            driver_looks_at: Millis(0),
            told: true,
            reminded: false,
        };
        Self { state: Mutex::new(state) }
    }

    /// Adds a visible batch; callers add in log order. `buffer` is empty afterwards.
    pub(crate) fn push(
        &self,
        start: Location,
        buffer: &mut Vec<u8>,
        urgency: CommitUrgency,
        now: Reading,
    ) -> WakeReason {
        let mut state = held(&self.state);
        state.batches.add(start, buffer);
        state.earliest_due = state.earliest_due.min(urgency.earliest_due);
        let is_ready = urgency.earliest_due <= now.now && !now.held;
        state.urgent |= urgency.urgent || is_ready;
        if state.urgent || state.batches.bytes > BACKLOG_BYTES {
            WakeReason::Now
        } else if !state.told
            || urgency.earliest_due < state.driver_looks_at
            || (state.batches.bytes > PORTION_BYTES && state.driver_looks_at > Millis(0))
        {
            state.told = true;
            state.driver_looks_at = Millis(0);
            WakeReason::Driver
        } else {
            WakeReason::None
        }
    }

    /// Takes the batches that have arrived, in exchange for `emptied`.
    pub(crate) fn take(&self, emptied: &mut Batches) {
        let mut state = held(&self.state);
        std::mem::swap(&mut state.batches, emptied);
        state.urgent = false;
        state.earliest_due = FAR;
    }

    /// True if a batch should be applied at once.
    pub(crate) fn is_urgent(&self) -> bool {
        held(&self.state).urgent
    }

    /// Bytes in the inbox.
    pub(crate) fn bytes(&self) -> usize {
        held(&self.state).batches.bytes
    }

    /// The driver is going to sleep until `looks_at`, and not longer than the lazy interval if `told`. Returns false if
    /// it must not: there is something that it has not seen.
    pub(crate) fn driver_sleeps(&self, looks_at: Millis, told: bool) -> bool {
        let mut state = held(&self.state);
        let unseen = !told && (state.reminded || !state.batches.is_empty());
        if state.urgent || state.earliest_due < looks_at || unseen {
            return false;
        }
        state.driver_looks_at = looks_at;
        state.told = told;
        true
    }

    /// Asks for the driver within the lazy interval; true if it must be woken for that.
    pub(crate) fn remind(&self) -> bool {
        let mut state = held(&self.state);
        state.reminded = true;
        !std::mem::replace(&mut state.told, true)
    }

    /// The driver is awake and looks here before it sleeps again.
    pub(crate) fn driver_is_awake(&self) {
        let mut state = held(&self.state);
        state.driver_looks_at = Millis(0);
        state.told = true;
        state.reminded = false;
    }
}

#[cfg(test)]
mod tests {
    use delaymq_core::record::batch::{BatchFields, seal_batch};
    use delaymq_core::record::encode_record;
    use delaymq_core::units::{Epoch, SegmentNumber, Sequence};

    use super::*;

    fn batch(base: u64, body: usize) -> Vec<u8> {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        encode_record(&mut bytes, 1, 0, &[0; 24], &[&vec![7; body]]);
        let fields = BatchFields {
            stream: [1; 16],
            epoch: Epoch(1),
            base_sequence: Sequence(base),
            record_count: 1,
            trusted: Millis(1),
            held: false,
            chain_before: 0,
            durability: 0,
            synced: Location(0),
            committed: Location(0),
            segment: SegmentNumber(1),
            local_flags: 0,
        };
        seal_batch(&mut bytes, &fields).unwrap();
        bytes
    }

    #[test]
    fn small_and_large_batches_come_out_in_order() {
        let inbox = Inbox::new();
        for (base, body) in [(1, 10), (2, 1 << 20), (3, 20)] {
            let mut bytes = batch(base, body);
            inbox.push(Location(base), &mut bytes, CommitUrgency::NONE, Reading { now: Millis(0), held: false });
            assert!(bytes.is_empty());
        }
        let mut batches = Batches::default();
        inbox.take(&mut batches);
        let seen: Vec<_> = batches.iter().map(|batch| (batch.header.base_sequence.get(), batch.start.0)).collect();
        assert_eq!(seen, [(1, 1), (2, 2), (3, 3)]);
        assert!(batches.iter().all(|batch| !batch.records.is_empty()));
        assert_eq!(batches.clear().count(), 1);
        assert!(batches.is_empty());
    }

    #[test]
    fn a_sleeping_driver_is_woken_once_for_each_portion() {
        let inbox = Inbox::new();
        let now = Reading { now: Millis(50), held: false };
        let push = |base| inbox.push(Location(base), &mut batch(base, PORTION_BYTES / 2), CommitUrgency::NONE, now);
        assert_eq!(push(1), WakeReason::None, "an awake driver looks by itself");
        assert!(inbox.driver_sleeps(Millis(100), true));
        assert_eq!([push(2), push(3)], [WakeReason::Driver, WakeReason::None]);
        inbox.take(&mut Batches::default());
        assert!(inbox.driver_sleeps(Millis(200), true));
        assert_eq!([push(4), push(5), push(6)], [WakeReason::None, WakeReason::Driver, WakeReason::None]);
    }

    #[test]
    fn a_driver_that_was_reminded_does_not_go_to_sleep_for_long() {
        let inbox = Inbox::new();
        inbox.driver_is_awake();
        assert!(!inbox.remind(), "it is awake");
        assert!(!inbox.driver_sleeps(Millis(100), false), "what it was reminded of came after its look");
        assert!(inbox.driver_sleeps(Millis(100), true), "it looks again soon");
        inbox.driver_is_awake();
        assert!(inbox.driver_sleeps(Millis(100), false));
        assert!(inbox.remind(), "it sleeps for long");
        assert!(!inbox.remind());
    }

    #[test]
    fn the_driver_is_told_once_and_woken_for_what_is_due_before_it_looks() {
        let inbox = Inbox::new();
        let now = Reading { now: Millis(50), held: false };
        let due = |due| CommitUrgency { urgent: false, earliest_due: Millis(due) };
        assert!(inbox.driver_sleeps(Millis(100), false));
        assert_eq!(inbox.push(Location(1), &mut batch(1, 1), due(100), now), WakeReason::Driver);
        inbox.take(&mut Batches::default());
        assert!(inbox.driver_sleeps(Millis(100), true));
        assert_eq!(inbox.push(Location(2), &mut batch(2, 1), due(100), now), WakeReason::None);
        assert_eq!(inbox.push(Location(3), &mut batch(3, 1), due(99), now), WakeReason::Driver);
        assert!(!inbox.driver_sleeps(Millis(200), false));
        assert_eq!(inbox.push(Location(4), &mut batch(4, 1), due(50), now), WakeReason::Now);
        assert!(!inbox.driver_sleeps(Millis(200), true));
    }
}
