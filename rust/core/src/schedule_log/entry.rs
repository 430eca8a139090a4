//! The unit of the schedule: one pending message, in 36 bytes.

use crate::record::limits::BODY_BYTES_MAX;
use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// The bits of the first word that hold the attempt.
const ATTEMPT_BITS: u32 = 16;
/// The latest due time that an entry holds: some 8,900 years after 1970.
pub const DUE_MAX: Millis = Millis((1 << (64 - ATTEMPT_BITS)) - 1);

/// One entry of the schedule: due time, subject, and the location of the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(4))]
pub struct Entry {
    due_and_attempt: u64,
    /// The sequence. The lowest 8 bits of the word are those of the body's size.
    sequence: u64,
    /// The payload's sequence. The lowest 8 bits of the word are the next 8 bits of the size.
    payload_sequence: u64,
    location: u64,
    /// The subject's number. The lowest 7 bits of the word are the highest 7 bits of the size.
    subject: u32,
}
const _: () = assert!(size_of::<Entry>() == 36);

/// The greatest sequence that an entry holds. A million facts a second take two thousand years to reach it.
pub const SEQUENCE_MAX: Sequence = Sequence((1 << 56) - 1);
/// The greatest subject number that an entry holds. No store gives out a number above half of it.
pub const SUBJECT_MAX: u32 = (1 << 25) - 1;
/// Stands for an unknown size. A body has at most half as many bytes.
const UNKNOWN: u32 = (1 << 23) - 1;
const _: () = assert!(BODY_BYTES_MAX * 2 <= UNKNOWN as usize + 1);

impl Entry {
    /// Makes an entry with `key`. `key.sequence` is the sequence of the fact that made the entry,
    /// `payload_sequence` that of the message record at `location`. They differ for retries and moves.
    /// `attempt` is 1 for the first delivery. A due time after [`DUE_MAX`] is replaced by it: callers check
    /// the range.
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
            sequence: sequence_word(key.sequence, UNKNOWN),
            payload_sequence: sequence_word(payload_sequence, UNKNOWN >> 8),
            location: location.0,
            subject: (subject.0.min(SUBJECT_MAX) << 7) | (UNKNOWN >> 16),
        }
    }

    /// Makes an entry whose payload is that of the row with the key `origin`, in a run.
    /// [`Self::with_payload_of`] must resolve it before it leaves the schedule.
    #[inline]
    pub fn unresolved(key: DueKey, origin: DueKey, subject: SubjectNumber) -> Self {
        Self::new(key, 1, origin.sequence, Location::of_row(origin.due), subject)
    }

    /// The same entry under another key.
    #[inline]
    pub fn moved_to(mut self, key: DueKey) -> Self {
        debug_assert!(key.due <= DUE_MAX, "due {} is out of range", key.due);
        self.due_and_attempt = (key.due.min(DUE_MAX).0 << ATTEMPT_BITS) | u64::from(self.attempt());
        self.sequence = sequence_word(key.sequence, low_bits(self.sequence));
        self
    }

    /// The key of the row that says where the payload is. `None` if the entry is resolved.
    #[inline]
    pub fn origin(&self) -> Option<DueKey> {
        Some(DueKey { due: self.location().row_due()?, sequence: self.payload_sequence() })
    }

    /// The same entry with the payload sequence of another message.
    #[inline]
    pub fn with_payload_sequence(mut self, payload_sequence: Sequence) -> Self {
        self.payload_sequence = sequence_word(payload_sequence, low_bits(self.payload_sequence));
        self
    }

    /// The same entry with the payload, the subject and the attempt of `other`. Without `other`, its payload
    /// has no location, and the reader of the payload voids the message.
    pub fn with_payload_of(&self, other: Option<Self>) -> Self {
        match other.filter(|other| other.origin().is_none()) {
            Some(other) => {
                let payload = (other.payload_sequence(), other.location());
                Self::new(self.key(), other.attempt(), payload.0, payload.1, other.subject())
                    .with_size(self.size().or(other.size()))
            }
            None => self.with_location(Location::NOWHERE),
        }
    }

    /// The same entry with this body size, in bytes.
    #[inline]
    pub fn with_size(mut self, size: Option<u32>) -> Self {
        let size = size.map_or(UNKNOWN, |size| size.min(UNKNOWN - 1));
        self.sequence = sequence_word(self.sequence(), size);
        self.payload_sequence = sequence_word(self.payload_sequence(), size >> 8);
        self.subject = (self.subject & !0x7F) | (size >> 16);
        self
    }

    /// Bytes of its body. `None` if unknown.
    #[inline]
    pub fn size(&self) -> Option<u32> {
        let size = low_bits(self.sequence) | (low_bits(self.payload_sequence) << 8) | ((self.subject & 0x7F) << 16);
        (size != UNKNOWN).then_some(size)
    }

    /// Its place in the schedule's order.
    #[inline]
    pub fn key(&self) -> DueKey {
        DueKey { due: self.due(), sequence: self.sequence() }
    }

    /// Its due time.
    #[inline]
    pub fn due(&self) -> Millis {
        Millis(self.due_and_attempt >> ATTEMPT_BITS)
    }

    /// The sequence of the fact that made it.
    #[inline]
    pub fn sequence(&self) -> Sequence {
        Sequence(self.sequence >> 8)
    }

    /// The sequence of the message record that holds its payload.
    #[inline]
    pub fn payload_sequence(&self) -> Sequence {
        Sequence(self.payload_sequence >> 8)
    }

    /// The location of that record.
    #[inline]
    pub fn location(&self) -> Location {
        Location(self.location)
    }

    /// Its subject.
    #[inline]
    pub fn subject(&self) -> SubjectNumber {
        SubjectNumber(self.subject >> 7)
    }

    /// The attempt that is due. 1 for the first delivery.
    #[inline]
    pub fn attempt(&self) -> u16 {
        u16::try_from(self.due_and_attempt & 0xFFFF).unwrap_or(u16::MAX)
    }

    /// The same entry with its payload at `location`.
    #[inline]
    pub fn with_location(mut self, location: Location) -> Self {
        self.location = location.0;
        self
    }
}

/// A word with the sequence above the lowest 8 bits of a number.
#[inline]
fn sequence_word(sequence: Sequence, number: u32) -> u64 {
    (sequence.0.min(SEQUENCE_MAX.0) << 8) | u64::from(number & 0xFF)
}

/// The lowest 8 bits of a word.
#[inline]
fn low_bits(word: u64) -> u32 {
    (word & 0xFF) as u32
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
            .field("size", &self.size())
            .finish()
    }
}

/// Sorts entries into the schedule's order. Parts that are sorted already cost one comparison for each entry.
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
        let key = DueKey { due: DUE_MAX, sequence: SEQUENCE_MAX };
        let place = Location::in_segment(SegmentNumber(9), 4_096);
        let entry = Entry::new(key, u16::MAX, Sequence(7), place, SubjectNumber(SUBJECT_MAX));
        assert_eq!(entry.key(), key);
        assert_eq!(entry.due(), DUE_MAX);
        assert_eq!(entry.sequence(), SEQUENCE_MAX);
        assert_eq!(entry.size(), None);
        assert_eq!(entry.attempt(), u16::MAX);
        assert_eq!(entry.payload_sequence(), Sequence(7));
        assert_eq!(entry.location(), place);
        assert_eq!(entry.subject(), SubjectNumber(SUBJECT_MAX));
        let moved = entry.with_location(Location::in_run(RunNumber(3), 8));
        assert_eq!(moved.location(), Location::in_run(RunNumber(3), 8));
        assert_eq!(moved.key(), key);
        for size in [0, 1, 255, 256, 65_535, 65_536, BODY_BYTES_MAX as u32] {
            let sized = entry.with_size(Some(size));
            assert_eq!((sized.size(), sized.key(), sized.payload_sequence()), (Some(size), key, Sequence(7)));
            assert_eq!((sized.subject(), sized.location()), (entry.subject(), place));
            assert_eq!(sized.moved_to(key).with_payload_sequence(Sequence(9)).size(), Some(size));
            assert_eq!(sized.with_size(None), entry);
        }
        assert_eq!(entry.with_size(Some(u32::MAX)).size(), Some(UNKNOWN - 1));
        let beyond = DueKey { due: DUE_MAX, sequence: Sequence(u64::MAX) };
        let beyond = Entry::new(beyond, 1, Sequence(u64::MAX), place, SubjectNumber(u32::MAX));
        assert_eq!((beyond.sequence(), beyond.subject()), (SEQUENCE_MAX, SubjectNumber(SUBJECT_MAX)));
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
