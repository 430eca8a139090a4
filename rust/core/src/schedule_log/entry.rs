//! The unit of the schedule: one message that waits, in 36 bytes.

use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// The bits of the first word that hold the attempt.
const ATTEMPT_BITS: u32 = 16;
/// The latest due time that an entry holds: some 8,900 years after 1970.
pub const DUE_MAX: Millis = Millis((1 << (64 - ATTEMPT_BITS)) - 1);

/// One entry of the schedule: when, whose, and where its payload lies.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Entry {
    due_and_attempt: u64,
    sequence: u64,
    payload_sequence: u64,
    location: u64,
    subject: u32,
}
const _: () = assert!(size_of::<Entry>() == 36);

impl Entry {
    /// An entry under `key`. `key.sequence` is that of the fact that made it, `payload_sequence`
    /// that of the message record at `location`; they differ for retries and moves. `attempt` is 1
    /// for the first delivery. A due time beyond [`DUE_MAX`] is kept as that: callers check range.
    #[inline]
    pub fn new(
        key: DueKey,
        attempt: u16,
        payload_sequence: Sequence,
        location: Location,
        subject: SubjectNumber,
    ) -> Self {
        debug_assert!(key.due <= DUE_MAX, "due {} is out of range", key.due);
        let due = key.due.min(DUE_MAX).0;
        Self {
            due_and_attempt: (due << ATTEMPT_BITS) | u64::from(attempt),
            sequence: key.sequence.0,
            payload_sequence: payload_sequence.0,
            location: location.0,
            subject: subject.0,
        }
    }

    /// Its place in the schedule's order.
    #[inline]
    pub fn key(&self) -> DueKey {
        DueKey { due: self.due(), sequence: self.sequence() }
    }

    /// When it is due.
    #[inline]
    pub fn due(&self) -> Millis {
        Millis(self.due_and_attempt >> ATTEMPT_BITS)
    }

    /// The sequence of the fact that made it.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    /// The sequence of the message record that holds its payload.
    #[inline]
    pub fn payload_sequence(&self) -> Sequence {
        Sequence(self.payload_sequence)
    }

    /// Where that record lies.
    #[inline]
    pub fn location(&self) -> Location {
        Location(self.location)
    }

    /// Its subject.
    #[inline]
    pub fn subject(&self) -> SubjectNumber {
        SubjectNumber(self.subject)
    }

    /// Which delivery this is; 1 for the first.
    #[inline]
    pub fn attempt(&self) -> u16 {
        u16::try_from(self.due_and_attempt & 0xFFFF).unwrap_or(u16::MAX)
    }

    /// The same entry with its payload elsewhere.
    #[inline]
    pub fn with_location(mut self, location: Location) -> Self {
        self.location = location.0;
        self
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("due", &self.due().0)
            .field("sequence", &self.sequence().0)
            .field("attempt", &self.attempt())
            .field("payload_sequence", &self.payload_sequence().0)
            .field("location", &self.location())
            .field("subject", &self.subject().0)
            .finish()
    }
}

/// Puts entries into the schedule's order. Runs that are in order already cost one comparison an
/// entry.
pub(crate) fn sort_by_key(entries: &mut [Entry]) {
    entries.sort_by(|left, right| {
        let (left_due, right_due) = (left.due_and_attempt >> ATTEMPT_BITS, right.due_and_attempt >> ATTEMPT_BITS);
        (left_due, left.sequence).cmp(&(right_due, right.sequence))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{RunNumber, SegmentNumber};

    #[test]
    fn it_keeps_all_of_its_parts_at_their_limits() {
        let key = DueKey { due: DUE_MAX, sequence: Sequence(u64::MAX) };
        let place = Location::in_segment(SegmentNumber(9), 4_096);
        let entry = Entry::new(key, u16::MAX, Sequence(7), place, SubjectNumber(u32::MAX));
        assert_eq!(entry.key(), key);
        assert_eq!(entry.due(), DUE_MAX);
        assert_eq!(entry.sequence(), Sequence(u64::MAX));
        assert_eq!(entry.attempt(), u16::MAX);
        assert_eq!(entry.payload_sequence(), Sequence(7));
        assert_eq!(entry.location(), place);
        assert_eq!(entry.subject(), SubjectNumber(u32::MAX));
        let moved = entry.with_location(Location::in_run(RunNumber(3), 8));
        assert_eq!(moved.location(), Location::in_run(RunNumber(3), 8));
        assert_eq!(moved.key(), key);
    }

    #[test]
    fn attempts_do_not_change_the_order() {
        let at = |due, sequence, attempt| {
            let key = DueKey { due: Millis(due), sequence: Sequence(sequence) };
            Entry::new(key, attempt, Sequence(sequence), Location(0), SubjectNumber(1))
        };
        let mut entries = vec![at(5, 2, 1), at(5, 1, 9), at(4, 3, 9)];
        sort_by_key(&mut entries);
        let order: Vec<u64> = entries.iter().map(|entry| entry.sequence().0).collect();
        assert_eq!(order, [3, 1, 2]);
    }
}
