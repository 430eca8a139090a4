//! Bytes and facts: how a record, a batch and each kind of fact look on disk, both ways in one
//! file each. No I/O.
//!
//! To change a format: raise [`FORMAT_VERSION`], keep the old struct under its number with its
//! decoder, add its golden file, edit the new one, and say so in `docs/format.md`. Raise it for
//! unreleased changes too.

pub mod adopt;
pub mod attach;
pub mod batch;
pub mod command;
pub mod expire;
pub mod header;
pub mod limits;
pub mod message;
pub mod meta;
pub mod name;
pub mod queue;
pub mod ready;
pub mod recurring;
pub mod retry;
pub mod terms;

mod fact;

pub use fact::{Fact, KINDS, decode};
pub use header::{RawRecord, RecordFault, RecordHeader, Records, encode_record, seal_record};

/// The format that this release writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 8;

/// The bytes of `value` as a zerocopy struct read from the front of `bytes`.
#[inline]
pub(crate) fn read_struct<T>(bytes: &[u8]) -> Option<T>
where
    T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned + Copy,
{
    T::ref_from_prefix(bytes).ok().map(|(value, _)| *value)
}
