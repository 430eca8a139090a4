//! Facts of delivery: reserve (kind 10), assign (11), acknowledge (12), pass over (25). Facts that end one delivery and
//! begin another are in [`super::retry`].

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{ConsumerNumber, GroupNumber, PullOffset, ReadyNumber};

/// The kind byte of a reserve.
pub const KIND_RESERVE: u8 = 10;
/// The kind byte of an assignment.
pub const KIND_ASSIGN: u8 = 11;
/// The kind byte of an acknowledgement.
pub const KIND_ACKNOWLEDGE: u8 = 12;
/// The kind byte of a pass-over.
pub const KIND_PASS_OVER: u8 = 25;
/// Flag of an acknowledgement: the consumer's filters did not let the messages pass, and nobody received them.
pub const FLAG_FILTERED: u8 = 1;
/// Bytes of one range in a payload.
pub const RANGE_BYTES: usize = 16;

/// Fixed part of a reserve: `group u32 | consumer u32 | offset_end u64 | number_end u64`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReserveFixed {
    group: U32,
    consumer: U32,
    offset_end: U64,
    number_end: U64,
}

/// Allows assignments that are not synced yet to hand out offsets of the consumer below `offset_end` and numbers of
/// the group below `number_end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Reserve {
    pub group: GroupNumber,
    pub consumer: ConsumerNumber,
    pub offset_end: PullOffset,
    pub number_end: ReadyNumber,
}

/// Appends a reserve.
pub fn encode_reserve(out: &mut Vec<u8>, reserve: Reserve) {
    let fixed = ReserveFixed {
        group: U32::new(reserve.group.0),
        consumer: U32::new(reserve.consumer.0),
        offset_end: U64::new(reserve.offset_end.0),
        number_end: U64::new(reserve.number_end.0),
    };
    encode_record(out, KIND_RESERVE, 0, fixed.as_bytes(), &[]);
}

/// Reads a reserve.
pub fn decode_reserve(record: &RawRecord<'_>) -> Option<Reserve> {
    let fixed: ReserveFixed = read_struct(record.fixed)?;
    Some(Reserve {
        group: GroupNumber(fixed.group.get()),
        consumer: ConsumerNumber(fixed.consumer.get()),
        offset_end: PullOffset(fixed.offset_end.get()),
        number_end: ReadyNumber(fixed.number_end.get()),
    })
}

/// A range in a payload: `first u64 | count u64`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RangeBytes {
    first: U64,
    count: U64,
}
const _: () = assert!(size_of::<RangeBytes>() == RANGE_BYTES);

/// `count` numbers, starting at `first`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct NumberRange {
    pub first: u64,
    pub count: u64,
}

/// Ranges in a payload, in order.
#[derive(Clone, Copy, Debug)]
pub struct Ranges<'a> {
    payload: &'a [u8],
}

impl<'a> Ranges<'a> {
    pub(super) fn new(payload: &'a [u8]) -> Option<Self> {
        payload.len().is_multiple_of(RANGE_BYTES).then_some(Self { payload })
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = NumberRange> + 'a {
        self.payload.chunks_exact(RANGE_BYTES).filter_map(|chunk| {
            let range: RangeBytes = read_struct(chunk)?;
            Some(NumberRange { first: range.first.get(), count: range.count.get() })
        })
    }
}

pub(super) fn range_bytes(ranges: &[NumberRange]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(ranges.len() * RANGE_BYTES);
    for range in ranges {
        let bytes = RangeBytes { first: U64::new(range.first), count: U64::new(range.count) };
        payload.extend_from_slice(bytes.as_bytes());
    }
    payload
}

/// Joins ascending numbers into ranges.
pub fn ranges_of(numbers: impl IntoIterator<Item = u64>) -> Vec<NumberRange> {
    let mut ranges: Vec<NumberRange> = Vec::new();
    for number in numbers {
        add_to_ranges(&mut ranges, number);
    }
    ranges
}

/// Adds a number that is above all in the ranges.
pub fn add_to_ranges(ranges: &mut Vec<NumberRange>, number: u64) {
    match ranges.last_mut() {
        Some(last) if last.first.saturating_add(last.count) == number => last.count += 1,
        _ => ranges.push(NumberRange { first: number, count: 1 }),
    }
}

/// Fixed part of assign, acknowledge and pass over: `group u32 | consumer u32 | first_offset u64` (zero except in an
/// assignment).
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RangesFixed {
    group: U32,
    consumer: U32,
    first_offset: U64,
}

/// Numbers given to a consumer: the first under `first_offset`, each next one under the next offset.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Assign<'a> {
    pub group: GroupNumber,
    pub consumer: ConsumerNumber,
    pub first_offset: PullOffset,
    pub numbers: Ranges<'a>,
}

/// Appends an assignment of these numbers, in order.
pub fn encode_assign(
    out: &mut Vec<u8>,
    group: GroupNumber,
    consumer: ConsumerNumber,
    first_offset: PullOffset,
    numbers: &[NumberRange],
) {
    let fixed = RangesFixed {
        group: U32::new(group.0),
        consumer: U32::new(consumer.0),
        first_offset: U64::new(first_offset.0),
    };
    encode_record(out, KIND_ASSIGN, 0, fixed.as_bytes(), &[&range_bytes(numbers)]);
}

/// Reads an assignment.
pub fn decode_assign<'a>(record: &RawRecord<'a>) -> Option<Assign<'a>> {
    let fixed: RangesFixed = read_struct(record.fixed)?;
    Some(Assign {
        group: GroupNumber(fixed.group.get()),
        consumer: ConsumerNumber(fixed.consumer.get()),
        first_offset: PullOffset(fixed.first_offset.get()),
        numbers: Ranges::new(record.payload)?,
    })
}

/// Pull offsets that a consumer has finished, or whose messages its filters did not let pass after they were assigned.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct Acknowledge<'a> {
    pub group: GroupNumber,
    pub consumer: ConsumerNumber,
    pub offsets: Ranges<'a>,
    pub filtered: bool,
}

/// Appends an acknowledgement of these offsets.
pub fn encode_acknowledge(out: &mut Vec<u8>, group: GroupNumber, consumer: ConsumerNumber, offsets: &[NumberRange]) {
    encode_finished(out, 0, (group, consumer), offsets);
}

/// Appends the fact that filters did not let the messages of these offsets pass.
pub fn encode_filtered(out: &mut Vec<u8>, group: GroupNumber, consumer: ConsumerNumber, offsets: &[NumberRange]) {
    encode_finished(out, FLAG_FILTERED, (group, consumer), offsets);
}

fn encode_finished(
    out: &mut Vec<u8>,
    flags: u8,
    (group, consumer): (GroupNumber, ConsumerNumber),
    offsets: &[NumberRange],
) {
    let fixed = RangesFixed { group: U32::new(group.0), consumer: U32::new(consumer.0), first_offset: U64::ZERO };
    encode_record(out, KIND_ACKNOWLEDGE, flags, fixed.as_bytes(), &[&range_bytes(offsets)]);
}

/// Reads an acknowledgement.
pub fn decode_acknowledge<'a>(record: &RawRecord<'a>) -> Option<Acknowledge<'a>> {
    let fixed: RangesFixed = read_struct(record.fixed)?;
    Some(Acknowledge {
        group: GroupNumber(fixed.group.get()),
        consumer: ConsumerNumber(fixed.consumer.get()),
        offsets: Ranges::new(record.payload)?,
        filtered: record.header.flags & FLAG_FILTERED != 0,
    })
}

/// Numbers that the filters of a consumer did not let pass before they were assigned. They are finished for the group.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "said above")]
pub struct PassOver<'a> {
    pub group: GroupNumber,
    pub consumer: ConsumerNumber,
    pub numbers: Ranges<'a>,
}

/// Appends a pass-over of these numbers.
pub fn encode_pass_over(out: &mut Vec<u8>, group: GroupNumber, consumer: ConsumerNumber, numbers: &[NumberRange]) {
    let fixed = RangesFixed { group: U32::new(group.0), consumer: U32::new(consumer.0), first_offset: U64::ZERO };
    encode_record(out, KIND_PASS_OVER, 0, fixed.as_bytes(), &[&range_bytes(numbers)]);
}

/// Reads a pass-over.
pub fn decode_pass_over<'a>(record: &RawRecord<'a>) -> Option<PassOver<'a>> {
    let fixed: RangesFixed = read_struct(record.fixed)?;
    Some(PassOver {
        group: GroupNumber(fixed.group.get()),
        consumer: ConsumerNumber(fixed.consumer.get()),
        numbers: Ranges::new(record.payload)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ascending_numbers_join_into_ranges() {
        let ranges = ranges_of([1, 2, 3, 7, 9, 10]);
        assert_eq!(
            ranges,
            vec![
                NumberRange { first: 1, count: 3 },
                NumberRange { first: 7, count: 1 },
                NumberRange { first: 9, count: 2 }
            ]
        );
    }
}
