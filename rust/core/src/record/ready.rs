//! Kind 4, the ready fact: entries that became due, in dispatch order.
//!
//! Fixed part: `count u32 | reserved u32`. Payload: `count` times `due_ms u64 | sequence u64 | subject u32 |
//! reserved u32`. It has no locations: a replay finds each entry by its key, and skips entries that are not
//! pending. The subject is included so that an entry takes its number even if its own bytes are damaged: otherwise
//! every later number of the subject would mean another message.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{DueKey, Millis, Sequence, SubjectNumber};

/// The kind byte of a ready fact.
pub const KIND_READY: u8 = 4;
/// Bytes of one entry in the payload.
pub const READY_ENTRY_BYTES: usize = 24;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReadyFixed {
    count: U32,
    reserved: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReadyEntry {
    due_ms: U64,
    sequence: U64,
    subject: U32,
    reserved: U32,
}
const _: () = assert!(size_of::<ReadyEntry>() == READY_ENTRY_BYTES);

/// The entries of a ready fact, in order.
#[derive(Clone, Copy, Debug)]
pub struct ReadyList<'a> {
    payload: &'a [u8],
}

impl<'a> ReadyList<'a> {
    /// How many entries it lists.
    pub fn len(&self) -> usize {
        self.payload.len() / READY_ENTRY_BYTES
    }

    /// True if it lists none.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// The entries' keys and subjects, in order.
    pub fn entries(&self) -> impl Iterator<Item = (DueKey, SubjectNumber)> + 'a {
        self.payload.chunks_exact(READY_ENTRY_BYTES).filter_map(|chunk| {
            let entry: ReadyEntry = read_struct(chunk)?;
            let key = DueKey { due: Millis(entry.due_ms.get()), sequence: Sequence(entry.sequence.get()) };
            Some((key, SubjectNumber(entry.subject.get())))
        })
    }
}

/// Appends a ready fact.
pub fn encode_ready(out: &mut Vec<u8>, entries: impl ExactSizeIterator<Item = (DueKey, SubjectNumber)>) {
    let count = entries.len();
    let mut payload = Vec::with_capacity(count * READY_ENTRY_BYTES);
    for (key, subject) in entries {
        let entry = ReadyEntry {
            due_ms: U64::new(key.due.0),
            sequence: U64::new(key.sequence.0),
            subject: U32::new(subject.0),
            reserved: U32::ZERO,
        };
        payload.extend_from_slice(entry.as_bytes());
    }
    let fixed = ReadyFixed { count: U32::new(u32::try_from(count).unwrap_or(u32::MAX)), reserved: U32::ZERO };
    encode_record(out, KIND_READY, 0, fixed.as_bytes(), &[&payload]);
}

/// Reads a ready fact; `None` if count and payload differ.
pub fn decode_ready<'a>(record: &RawRecord<'a>) -> Option<ReadyList<'a>> {
    let fixed: ReadyFixed = read_struct(record.fixed)?;
    let fits = record.payload.len() == fixed.count.get() as usize * READY_ENTRY_BYTES;
    fits.then_some(ReadyList { payload: record.payload })
}
