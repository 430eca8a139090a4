//! How records, batches and each kind of fact look on disk. One file encodes and decodes each. No I/O.
//!
//! To change what is on disk, follow the steps in CONTRIBUTING.md.

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

mod characters;
mod fact;
mod format;

pub use fact::{Fact, KINDS, decode};
pub use format::{FORMAT_VERSION, written_format};
pub(crate) use format::{check_format, made_up_number};
pub use header::{RawRecord, RecordFault, RecordHeader, Records, encode_record, seal_record};

/// The bytes of `value` as a zerocopy struct read from the front of `bytes`.
#[inline]
pub(crate) fn read_struct<T>(bytes: &[u8]) -> Option<T>
where
    T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned + Copy,
{
    T::ref_from_prefix(bytes).ok().map(|(value, _)| *value)
}
