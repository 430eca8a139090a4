//! A named consumer begins, or exists already: attach (kind 20). One fact does the work of a group, a consumer and
//! a reserve, since each of these could be written only after the one before was applied.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::name::{GroupStart, StartFields, read_start};
use super::read_struct;
use crate::units::SubjectNumber;

/// The kind byte of an attach.
pub const KIND_ATTACH: u8 = 20;

/// Fixed part of an attach; the payload is `number u64` for a start at a number, the group's name, then the consumer's.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `subject`: its number |
/// | 4 | 4 | `start`: where the group starts if it is new: 0 unfinished, 1 latest, 2 number |
/// | 8 | 4 | `block`: the number of offsets and ready numbers to reserve |
/// | 12 | 4 | `group_length`: bytes of the group's name |
/// | 16 | 4 | `broadcast`: 1 if the group is this consumer's alone, else 0 |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttachFixed {
    subject: U32,
    start: U32,
    block: U32,
    group_length: U32,
    broadcast: U32,
}
const _: () = assert!(size_of::<AttachFixed>() == 20);

/// Creates the group and the consumer if they do not exist; the consumer outlives an open. Then reserves `block`
/// offsets above the consumer's next one, and as many numbers above the group's cursor. The consumer was seen at the
/// time of this fact, and is a broadcast consumer or is not, as the fact says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the table above describes every field")]
pub struct Attach<'a> {
    pub subject: SubjectNumber,
    pub start: GroupStart,
    pub block: u32,
    pub is_broadcast: bool,
    pub group: &'a str,
    pub consumer: &'a str,
}

/// Appends an attach.
pub fn encode_attach(out: &mut Vec<u8>, attach: &Attach<'_>) {
    let start = StartFields::of(attach.start);
    let fixed = AttachFixed {
        subject: U32::new(attach.subject.0),
        start: U32::new(start.word),
        block: U32::new(attach.block),
        group_length: U32::new(u32::try_from(attach.group.len()).unwrap_or(u32::MAX)),
        broadcast: U32::new(u32::from(attach.is_broadcast)),
    };
    let payload = [start.bytes(), attach.group.as_bytes(), attach.consumer.as_bytes()];
    encode_record(out, KIND_ATTACH, 0, fixed.as_bytes(), &payload);
}

/// Reads an attach.
pub fn decode_attach<'a>(record: &RawRecord<'a>) -> Option<Attach<'a>> {
    let fixed: AttachFixed = read_struct(record.fixed)?;
    let group_length = usize::try_from(fixed.group_length.get()).ok()?;
    let (start, names) = read_start(fixed.start.get(), record.payload)?;
    let (group, consumer) = names.split_at_checked(group_length)?;
    Some(Attach {
        subject: SubjectNumber(fixed.subject.get()),
        start,
        block: fixed.block.get(),
        is_broadcast: flag_of(fixed.broadcast.get())?,
        group: std::str::from_utf8(group).ok()?,
        consumer: std::str::from_utf8(consumer).ok()?,
    })
}

fn flag_of(number: u32) -> Option<bool> {
    match number {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{header::read_record, seal_record};
    use crate::units::Sequence;

    #[test]
    fn names_that_do_not_fit_their_length_are_no_attach() {
        let attach = Attach {
            subject: SubjectNumber(3),
            start: GroupStart::Latest,
            block: 256,
            is_broadcast: true,
            group: "βilling",
            consumer: "host@@17",
        };
        for (length, is_one) in [(8, true), (1, false), (0, true), (17, false)] {
            let mut bytes = Vec::new();
            encode_attach(&mut bytes, &attach);
            let mut fixed = bytes[16..36].to_vec();
            fixed[12] = length;
            let mut bytes = Vec::new();
            encode_record(&mut bytes, KIND_ATTACH, 0, &fixed, &[attach.group.as_bytes(), attach.consumer.as_bytes()]);
            seal_record(&mut bytes, Sequence(9)).unwrap();
            let read = decode_attach(&read_record(&bytes, Sequence(9)).unwrap());
            assert_eq!(read.is_some(), is_one, "{length}");
            if length == 8 {
                assert_eq!(read, Some(attach));
            }
        }
    }
}
