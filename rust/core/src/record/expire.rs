//! Expire (kind 18): an operator ends ready messages that no consumer took for too long.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::queue::{NumberRange, Ranges, range_bytes};
use super::read_struct;
use crate::units::{Millis, SubjectNumber};

/// The kind byte of an expire.
pub const KIND_EXPIRE: u8 = 18;

/// Fixed part of an expire: `subject u32 | reserved u32 | due_before_ms u64`. The payload is ranges of ready
/// numbers.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpireFixed {
    subject: U32,
    reserved: U32,
    due_before_ms: U64,
}
const _: () = assert!(size_of::<ExpireFixed>() == 16);

/// Finishes these ready messages of the subject for every group that does not hold them, and for later groups. All
/// were due before `due_before`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Expire<'a> {
    pub subject: SubjectNumber,
    pub due_before: Millis,
    pub numbers: Ranges<'a>,
}

/// Appends an expire of these numbers, in order.
pub fn encode_expire(out: &mut Vec<u8>, subject: SubjectNumber, due_before: Millis, numbers: &[NumberRange]) {
    let fixed =
        ExpireFixed { subject: U32::new(subject.0), reserved: U32::ZERO, due_before_ms: U64::new(due_before.0) };
    encode_record(out, KIND_EXPIRE, 0, fixed.as_bytes(), &[&range_bytes(numbers)]);
}

/// Reads an expire.
pub fn decode_expire<'a>(record: &RawRecord<'a>) -> Option<Expire<'a>> {
    let fixed: ExpireFixed = read_struct(record.fixed)?;
    Some(Expire {
        subject: SubjectNumber(fixed.subject.get()),
        due_before: Millis(fixed.due_before_ms.get()),
        numbers: Ranges::new(record.payload)?,
    })
}
