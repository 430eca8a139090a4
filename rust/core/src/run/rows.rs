//! The two kinds of row, 48 bytes each, little-endian.
//!
//! | schedule row | bytes | dispatch row | bytes |
//! |---|---|---|---|
//! | `due_ms` | 8 | `subject` | 4 |
//! | `sequence` | 8 | `attempt` | 2 |
//! | `payload_sequence` | 8 | `reserved` | 2 |
//! | `location` | 8 | `number` | 8 |
//! | `subject` | 4 | `sequence` | 8 |
//! | `attempt` | 2 | `payload_sequence` | 8 |
//! | `reserved` | 2 | `location` | 8 |
//! | `length` | 4 | `due_ms` | 8 |
//! | `size_and_one` | 4 | | |

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::RunKind;
use super::staging::Relation;
use crate::record::read_struct;
use crate::units::{DueKey, Location, Millis, ReadyNumber, Sequence, SubjectNumber};

/// Bytes of a row of either kind.
pub const ROW_BYTES: usize = 48;

/// The order of rows: due time and sequence, or subject and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RowKey {
    /// Due milliseconds, or the subject.
    pub major: u64,
    /// The sequence, or the ready number.
    pub minor: u64,
}

impl From<DueKey> for RowKey {
    fn from(key: DueKey) -> Self {
        Self { major: key.due.0, minor: key.sequence.0 }
    }
}

impl RowKey {
    /// The key of a ready message.
    pub fn ready(subject: SubjectNumber, number: ReadyNumber) -> Self {
        Self { major: u64::from(subject.0), minor: number.0 }
    }

    /// This key in a schedule run.
    pub fn due_key(self) -> DueKey {
        DueKey { due: Millis(self.major), sequence: Sequence(self.minor) }
    }
}

/// A row of a run, which has a key.
pub trait Row: Copy + std::fmt::Debug {
    /// The kind of run that has these rows.
    const KIND: RunKind;

    /// Its key.
    fn key(&self) -> RowKey;

    /// Its due time.
    fn due(&self) -> Millis;

    /// The sequence of the fact that made its entry.
    fn sequence(&self) -> Sequence;

    /// The location of its payload.
    fn location(&self) -> Location;

    /// The sequence of the record at that location.
    fn payload_sequence(&self) -> Sequence;

    /// The payload record's length without padding. 0 if the record is not in the run.
    fn payload_length(&self) -> u32;

    /// Bytes of the body. `None` if they are unknown, or if runs of this kind do not record them.
    fn size(&self) -> Option<u32>;

    /// Its subject.
    fn subject(&self) -> SubjectNumber;

    /// Appends the row's bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a row back. `None` if bytes are missing.
    fn decode(bytes: &[u8]) -> Option<Self>;

    /// Translates a row of a staged run for the store that adopted it. Only schedule runs are staged.
    #[must_use]
    fn adopted(self, _relation: &Relation) -> Self {
        self
    }
}

/// A pending message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduleRow {
    /// Due time and sequence.
    pub key: DueKey,
    /// The sequence of the message record.
    pub payload_sequence: Sequence,
    /// The location of that record.
    pub location: Location,
    /// Its subject.
    pub subject: SubjectNumber,
    /// The attempt that is due. 1 is the first delivery.
    pub attempt: u16,
    /// The payload record's length without padding. 0 if the record is not in the run.
    pub length: u32,
    /// Bytes of the body. `None` if unknown, because the entry was found again in the log.
    pub size: Option<u32>,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ScheduleRowBytes {
    due_ms: U64,
    sequence: U64,
    payload_sequence: U64,
    location: U64,
    subject: U32,
    attempt: U16,
    reserved: U16,
    length: U32,
    size_and_one: U32,
}
const _: () = assert!(size_of::<ScheduleRowBytes>() == ROW_BYTES);

impl Row for ScheduleRow {
    const KIND: RunKind = RunKind::Schedule;

    fn key(&self) -> RowKey {
        self.key.into()
    }

    fn due(&self) -> Millis {
        self.key.due
    }

    fn sequence(&self) -> Sequence {
        self.key.sequence
    }

    fn location(&self) -> Location {
        self.location
    }

    fn payload_sequence(&self) -> Sequence {
        self.payload_sequence
    }

    fn payload_length(&self) -> u32 {
        self.length
    }

    fn size(&self) -> Option<u32> {
        self.size
    }

    fn subject(&self) -> SubjectNumber {
        self.subject
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let row = ScheduleRowBytes {
            due_ms: U64::new(self.key.due.0),
            sequence: U64::new(self.key.sequence.0),
            payload_sequence: U64::new(self.payload_sequence.0),
            location: U64::new(self.location.0),
            subject: U32::new(self.subject.0),
            attempt: U16::new(self.attempt),
            reserved: U16::ZERO,
            length: U32::new(self.length),
            size_and_one: U32::new(self.size.map_or(0, |size| size.saturating_add(1))),
        };
        out.extend_from_slice(row.as_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        let row: ScheduleRowBytes = read_struct(bytes)?;
        Some(Self {
            key: DueKey { due: Millis(row.due_ms.get()), sequence: Sequence(row.sequence.get()) },
            payload_sequence: Sequence(row.payload_sequence.get()),
            location: Location(row.location.get()),
            subject: SubjectNumber(row.subject.get()),
            attempt: row.attempt.get(),
            length: row.length.get(),
            size: row.size_and_one.get().checked_sub(1),
        })
    }

    #[inline]
    fn adopted(self, relation: &Relation) -> Self {
        relation.row(self)
    }
}

/// A ready message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DispatchRow {
    /// Its subject.
    pub subject: SubjectNumber,
    /// Its number within the subject.
    pub number: ReadyNumber,
    /// The attempt. 1 is the first delivery.
    pub attempt: u16,
    /// The sequence of the fact that made its entry.
    pub sequence: Sequence,
    /// The sequence of the message record.
    pub payload_sequence: Sequence,
    /// The location of that record.
    pub location: Location,
    /// Its due time.
    pub due: Millis,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DispatchRowBytes {
    subject: U32,
    attempt: U16,
    reserved: U16,
    number: U64,
    sequence: U64,
    payload_sequence: U64,
    location: U64,
    due_ms: U64,
}
const _: () = assert!(size_of::<DispatchRowBytes>() == ROW_BYTES);

impl Row for DispatchRow {
    const KIND: RunKind = RunKind::Dispatch;

    fn key(&self) -> RowKey {
        RowKey::ready(self.subject, self.number)
    }

    fn due(&self) -> Millis {
        self.due
    }

    fn sequence(&self) -> Sequence {
        self.sequence
    }

    fn location(&self) -> Location {
        self.location
    }

    fn payload_sequence(&self) -> Sequence {
        self.payload_sequence
    }

    fn payload_length(&self) -> u32 {
        0
    }

    fn size(&self) -> Option<u32> {
        None
    }

    fn subject(&self) -> SubjectNumber {
        self.subject
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let row = DispatchRowBytes {
            subject: U32::new(self.subject.0),
            attempt: U16::new(self.attempt),
            reserved: U16::ZERO,
            number: U64::new(self.number.0),
            sequence: U64::new(self.sequence.0),
            payload_sequence: U64::new(self.payload_sequence.0),
            location: U64::new(self.location.0),
            due_ms: U64::new(self.due.0),
        };
        out.extend_from_slice(row.as_bytes());
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Option<Self> {
        let row: DispatchRowBytes = read_struct(bytes)?;
        Some(Self {
            subject: SubjectNumber(row.subject.get()),
            number: ReadyNumber(row.number.get()),
            attempt: row.attempt.get(),
            sequence: Sequence(row.sequence.get()),
            payload_sequence: Sequence(row.payload_sequence.get()),
            location: Location(row.location.get()),
            due: Millis(row.due_ms.get()),
        })
    }
}

impl Relation {
    /// Translates a row.
    #[inline]
    pub(in crate::run) fn row(&self, row: ScheduleRow) -> ScheduleRow {
        ScheduleRow {
            key: DueKey { due: row.key.due, sequence: self.sequence(row.key.sequence) },
            payload_sequence: self.sequence(row.payload_sequence),
            location: Location::in_run(self.number, row.location.offset()),
            subject: self.subject_at(row.subject),
            ..row
        }
    }
}
