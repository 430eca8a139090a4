//! Facts that begin and end named things: subject (kind 5), group (6), group end (7), consumer (8), consumer end
//! (9), group reset (19). Names are UTF-8 payloads.
//!
//! A subject's number is given out before its fact is applied, so the fact carries it, and each
//! publish repeats the fact until it has been applied. Groups and consumers get their numbers from
//! `apply`.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{ConsumerNumber, GroupNumber, ReadyNumber, SubjectNumber};

/// The kind byte of a subject fact.
pub const KIND_SUBJECT: u8 = 5;
/// The kind byte of a group fact.
pub const KIND_GROUP: u8 = 6;
/// The kind byte of a group's end.
pub const KIND_GROUP_END: u8 = 7;
/// The kind byte of a consumer fact.
pub const KIND_CONSUMER: u8 = 8;
/// The kind byte of a consumer's end.
pub const KIND_CONSUMER_END: u8 = 9;
/// The kind byte of a group's reset.
pub const KIND_GROUP_RESET: u8 = 19;

/// Fixed part of all six: `first u32 | second u32`, as each fact says.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NameFixed {
    first: U32,
    second: U32,
}

/// Where a new group starts, as its fact says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupStart {
    /// At the first message that some group has not finished.
    Unfinished,
    /// At the next message that becomes ready.
    Latest,
    /// At the message of this number, even if all groups have finished it: the group reads again what is kept.
    Number(ReadyNumber),
}

/// Appends `number | 0`, name.
pub fn encode_subject(out: &mut Vec<u8>, number: SubjectNumber, name: &str) {
    encode(out, KIND_SUBJECT, number.0, 0, name);
}

/// How a group ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupEnd {
    /// The group alone, even if consumers are active; its retries and dead letters stay.
    Alone,
    /// The group with its retries and dead letters, if it has no consumer.
    WithItsRetries,
}

/// The start as it stands in a fact: a word of the fixed part, and bytes that come first in the payload.
pub(super) struct StartFields {
    pub(super) word: u32,
    number: [u8; 8],
    length: usize,
}

impl StartFields {
    pub(super) fn of(start: GroupStart) -> Self {
        let (word, number, length) = match start {
            GroupStart::Unfinished => (0, 0, 0),
            GroupStart::Latest => (1, 0, 0),
            GroupStart::Number(number) => (2, number.0, size_of::<u64>()),
        };
        Self { word, number: number.to_le_bytes(), length }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.number.get(..self.length).unwrap_or_default()
    }
}

/// Reads a start, and returns it with the rest of the payload.
pub(super) fn read_start(word: u32, payload: &[u8]) -> Option<(GroupStart, &[u8])> {
    match word {
        0 => Some((GroupStart::Unfinished, payload)),
        1 => Some((GroupStart::Latest, payload)),
        2 => {
            let (number, rest) = payload.split_first_chunk()?;
            Some((GroupStart::Number(ReadyNumber(u64::from_le_bytes(*number))), rest))
        }
        _ => None,
    }
}

/// Appends `subject | start (0 unfinished, 1 latest, 2 number)`, for a number `number u64`, group name.
pub fn encode_group(out: &mut Vec<u8>, subject: SubjectNumber, start: GroupStart, name: &str) {
    let start = StartFields::of(start);
    encode_parts(out, KIND_GROUP, subject.0, start.word, &[start.bytes(), name.as_bytes()]);
}

/// Appends `group | how (0 alone, 1 with its retries)`: the group is removed.
pub fn encode_group_end(out: &mut Vec<u8>, group: GroupNumber, end: GroupEnd) {
    let how = match end {
        GroupEnd::Alone => 0,
        GroupEnd::WithItsRetries => 1,
    };
    encode(out, KIND_GROUP_END, group.0, how, "");
}

/// Appends `group | start (0 unfinished, 1 latest, 2 number)`, for a number `number u64`: the group begins again
/// elsewhere.
pub fn encode_group_reset(out: &mut Vec<u8>, group: GroupNumber, start: GroupStart) {
    let start = StartFields::of(start);
    encode_parts(out, KIND_GROUP_RESET, group.0, start.word, &[start.bytes()]);
}

/// Appends `group | 0`, consumer name.
pub fn encode_consumer(out: &mut Vec<u8>, group: GroupNumber, name: &str) {
    encode(out, KIND_CONSUMER, group.0, 0, name);
}

/// Appends `group | consumer`: what it holds goes back to its group.
pub fn encode_consumer_end(out: &mut Vec<u8>, group: GroupNumber, consumer: ConsumerNumber) {
    encode(out, KIND_CONSUMER_END, group.0, consumer.0, "");
}

fn encode(out: &mut Vec<u8>, kind: u8, first: u32, second: u32, name: &str) {
    encode_parts(out, kind, first, second, &[name.as_bytes()]);
}

fn encode_parts(out: &mut Vec<u8>, kind: u8, first: u32, second: u32, payload: &[&[u8]]) {
    let fixed = NameFixed { first: U32::new(first), second: U32::new(second) };
    encode_record(out, kind, 0, fixed.as_bytes(), payload);
}

fn fixed_of(record: &RawRecord<'_>) -> Option<(u32, u32)> {
    let fixed: NameFixed = read_struct(record.fixed)?;
    Some((fixed.first.get(), fixed.second.get()))
}

/// Reads a subject fact: number and name.
pub fn decode_subject<'a>(record: &RawRecord<'a>) -> Option<(SubjectNumber, &'a str)> {
    let (number, _) = fixed_of(record)?;
    Some((SubjectNumber(number), std::str::from_utf8(record.payload).ok()?))
}

/// Reads a group fact: subject, start and name.
pub fn decode_group<'a>(record: &RawRecord<'a>) -> Option<(SubjectNumber, GroupStart, &'a str)> {
    let (subject, start) = fixed_of(record)?;
    let (start, name) = read_start(start, record.payload)?;
    Some((SubjectNumber(subject), start, std::str::from_utf8(name).ok()?))
}

/// Reads a group's end.
pub fn decode_group_end(record: &RawRecord<'_>) -> Option<(GroupNumber, GroupEnd)> {
    let (group, how) = fixed_of(record)?;
    let end = match how {
        0 => GroupEnd::Alone,
        1 => GroupEnd::WithItsRetries,
        _ => return None,
    };
    Some((GroupNumber(group), end))
}

/// Reads a group's reset: the group, and where it begins again.
pub fn decode_group_reset(record: &RawRecord<'_>) -> Option<(GroupNumber, GroupStart)> {
    let (group, start) = fixed_of(record)?;
    let (start, rest) = read_start(start, record.payload)?;
    rest.is_empty().then_some((GroupNumber(group), start))
}

/// Reads a consumer fact: group and name.
pub fn decode_consumer<'a>(record: &RawRecord<'a>) -> Option<(GroupNumber, &'a str)> {
    let (group, _) = fixed_of(record)?;
    Some((GroupNumber(group), std::str::from_utf8(record.payload).ok()?))
}

/// Reads a consumer's end.
pub fn decode_consumer_end(record: &RawRecord<'_>) -> Option<(GroupNumber, ConsumerNumber)> {
    fixed_of(record).map(|(group, consumer)| (GroupNumber(group), ConsumerNumber(consumer)))
}
