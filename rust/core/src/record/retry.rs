//! Facts that deliver a message again elsewhere: retry (kind 13), which also makes dead letters, and redrive (17).
//! Each begins a new entry, under its own sequence, for the payload that it names.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::expire::{EXPIRED_REASON, FLAG_RECEIVED, received_flag};
use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber};

/// The kind byte of a retry.
pub const KIND_RETRY: u8 = 13;
/// The kind byte of a redrive.
pub const KIND_REDRIVE: u8 = 17;
/// The longest reason of a dead letter, in bytes of UTF-8.
pub const REASON_BYTES_MAX: usize = 1024;

/// `destination` of a retry that is delivered again.
const AGAIN: u32 = 0;
/// `destination` of a retry that makes a dead letter.
const DEAD_LETTER: u32 = 1;
/// `destination` of a retry that makes a dead letter of a message that had expired.
const EXPIRED: u32 = 2;

/// Fixed part of a retry; the payload is the reason of a dead letter that a consumer made. With [`FLAG_RECEIVED`], a
/// consumer may have received a message that had expired.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `group` |
/// | 4 | 4 | `consumer` |
/// | 8 | 8 | `offset`: the consumer's pull offset that ends |
/// | 16 | 8 | `number`: the group's number under that offset |
/// | 24 | 8 | `due_ms` of the new entry; for a dead letter, when it became one |
/// | 32 | 4 | `target`: the subject that the new entry goes to |
/// | 36 | 4 | `attempt`: the number of the next delivery; for a dead letter, the number of deliveries |
/// | 40 | 8 | `payload_sequence`: the sequence of the message |
/// | 48 | 4 | `destination`: 0 deliver again, 1 dead letter, 2 dead letter of a message that had expired |
/// | 52 | 4 | `size`: the bytes of the message's body, plus 1; 0 if they are not known |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RetryFixed {
    group: U32,
    consumer: U32,
    offset: U64,
    number: U64,
    due_ms: U64,
    target: U32,
    attempt: U32,
    payload_sequence: U64,
    destination: U32,
    size: U32,
}
const _: () = assert!(size_of::<RetryFixed>() == 56);

/// Where a message goes when its delivery ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination<'a> {
    /// The group receives it again when it is due.
    Again,
    /// It becomes a dead letter of the group, at once.
    DeadLetter {
        /// The reason, in the words of the caller.
        reason: &'a str,
    },
    /// It had expired when it was to be handed over, and becomes a dead letter of the group, at once. Only the store
    /// says so: the words of a caller are never taken for it.
    Expired {
        /// A consumer may have received it under this assignment, before it expired.
        received: bool,
    },
}

/// Why a message became a dead letter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Death {
    /// A consumer said so.
    Reason(Box<str>),
    /// It had expired, see [`Destination::Expired`].
    Expired {
        /// A consumer may have received it.
        received: bool,
    },
}

impl Death {
    /// The cause of a dead letter; `None` for a retry that is delivered again.
    pub fn of(destination: Destination<'_>) -> Option<Self> {
        match destination {
            Destination::Again => None,
            Destination::DeadLetter { reason } => Some(Self::Reason(Box::from(reason))),
            Destination::Expired { received } => Some(Self::Expired { received }),
        }
    }

    /// Where such a message goes.
    pub const fn destination(&self) -> Destination<'_> {
        match self {
            Self::Reason(reason) => Destination::DeadLetter { reason },
            Self::Expired { received } => Destination::Expired { received: *received },
        }
    }
}

impl<'a> Destination<'a> {
    /// The reason of a dead letter.
    pub const fn reason(self) -> Option<&'a str> {
        match self {
            Self::Again => None,
            Self::DeadLetter { reason } => Some(reason),
            Self::Expired { .. } => Some(EXPIRED_REASON),
        }
    }
}

/// One delivery ends. An entry for the same payload begins in the target subject under this fact's own sequence.
/// The group becomes a group of the target, from number 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the table above describes every field")]
pub struct Retry<'a> {
    pub group: GroupNumber,
    pub consumer: ConsumerNumber,
    pub offset: PullOffset,
    pub number: ReadyNumber,
    pub due: Millis,
    pub target: SubjectNumber,
    pub attempt: u32,
    pub payload_sequence: Sequence,
    pub size: Option<u32>,
    pub destination: Destination<'a>,
}

/// Appends a retry.
pub fn encode_retry(out: &mut Vec<u8>, retry: &Retry<'_>) {
    let (destination, reason, flags) = match retry.destination {
        Destination::Again => (AGAIN, "", 0),
        Destination::DeadLetter { reason } => (DEAD_LETTER, reason, 0),
        Destination::Expired { received } => (EXPIRED, "", received_flag(received)),
    };
    let fixed = RetryFixed {
        group: U32::new(retry.group.0),
        consumer: U32::new(retry.consumer.0),
        offset: U64::new(retry.offset.0),
        number: U64::new(retry.number.0),
        due_ms: U64::new(retry.due.0),
        target: U32::new(retry.target.0),
        attempt: U32::new(retry.attempt),
        payload_sequence: U64::new(retry.payload_sequence.0),
        destination: U32::new(destination),
        size: U32::new(retry.size.map_or(0, |size| size.saturating_add(1))),
    };
    encode_record(out, KIND_RETRY, flags, fixed.as_bytes(), &[reason.as_bytes()]);
}

/// Reads a retry.
pub fn decode_retry<'a>(record: &RawRecord<'a>) -> Option<Retry<'a>> {
    let fixed: RetryFixed = read_struct(record.fixed)?;
    let destination = match fixed.destination.get() {
        AGAIN => Destination::Again,
        DEAD_LETTER => Destination::DeadLetter { reason: std::str::from_utf8(record.payload).ok()? },
        EXPIRED => Destination::Expired { received: record.header.flags & FLAG_RECEIVED != 0 },
        _ => return None,
    };
    Some(Retry {
        group: GroupNumber(fixed.group.get()),
        consumer: ConsumerNumber(fixed.consumer.get()),
        offset: PullOffset(fixed.offset.get()),
        number: ReadyNumber(fixed.number.get()),
        due: Millis(fixed.due_ms.get()),
        target: SubjectNumber(fixed.target.get()),
        attempt: fixed.attempt.get(),
        payload_sequence: Sequence(fixed.payload_sequence.get()),
        size: fixed.size.get().checked_sub(1),
        destination,
    })
}

/// Fixed part of a redrive.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `group`: the group of the dead-letter subject |
/// | 4 | 4 | `target`: the retry subject that the new entry goes to |
/// | 8 | 8 | `number`: the dead letter's ready number |
/// | 16 | 8 | `due_ms` of the new entry |
/// | 24 | 8 | `payload_sequence`: the sequence of the message |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RedriveFixed {
    group: U32,
    target: U32,
    number: U64,
    due_ms: U64,
    payload_sequence: U64,
}
const _: () = assert!(size_of::<RedriveFixed>() == 32);

/// A dead letter is finished. An entry for the same payload begins in the target subject under this fact's own
/// sequence, and its deliveries are counted from 1 again. A dead letter that is already finished is not moved
/// again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the table above describes every field")]
pub struct Redrive {
    pub group: GroupNumber,
    pub target: SubjectNumber,
    pub number: ReadyNumber,
    pub due: Millis,
    pub payload_sequence: Sequence,
}

/// Appends a redrive.
pub fn encode_redrive(out: &mut Vec<u8>, redrive: &Redrive) {
    let fixed = RedriveFixed {
        group: U32::new(redrive.group.0),
        target: U32::new(redrive.target.0),
        number: U64::new(redrive.number.0),
        due_ms: U64::new(redrive.due.0),
        payload_sequence: U64::new(redrive.payload_sequence.0),
    };
    encode_record(out, KIND_REDRIVE, 0, fixed.as_bytes(), &[]);
}

/// Reads a redrive.
pub fn decode_redrive(record: &RawRecord<'_>) -> Option<Redrive> {
    let fixed: RedriveFixed = read_struct(record.fixed)?;
    Some(Redrive {
        group: GroupNumber(fixed.group.get()),
        target: SubjectNumber(fixed.target.get()),
        number: ReadyNumber(fixed.number.get()),
        due: Millis(fixed.due_ms.get()),
        payload_sequence: Sequence(fixed.payload_sequence.get()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{header::read_record, seal_record};

    fn retry(destination: Destination<'_>) -> Retry<'_> {
        Retry {
            group: GroupNumber(1),
            consumer: ConsumerNumber(2),
            offset: PullOffset(3),
            number: ReadyNumber(4),
            due: Millis(5),
            target: SubjectNumber(6),
            attempt: 7,
            payload_sequence: Sequence(8),
            size: Some(7),
            destination,
        }
    }

    #[test]
    fn a_destination_that_is_not_known_is_no_retry() {
        for (destination, is_known) in [(AGAIN, true), (DEAD_LETTER, true), (EXPIRED, true), (3, false)] {
            let mut bytes = Vec::new();
            encode_retry(&mut bytes, &retry(Destination::DeadLetter { reason: "because" }));
            bytes[16 + 48] = destination as u8;
            let header_and_fixed = (bytes[..16].to_vec(), bytes[16..72].to_vec());
            let mut bytes = Vec::new();
            encode_record(&mut bytes, KIND_RETRY, 0, &header_and_fixed.1, &[b"because"]);
            seal_record(&mut bytes, Sequence(9)).unwrap();
            let read = decode_retry(&read_record(&bytes, Sequence(9)).unwrap()).map(|read| read.destination);
            assert_eq!(read.is_some(), is_known, "{destination}");
            if destination == DEAD_LETTER {
                assert_eq!(read, Some(Destination::DeadLetter { reason: "because" }));
            }
        }
    }

    #[test]
    fn the_words_of_a_caller_are_not_taken_for_an_expiry() {
        let words = Destination::DeadLetter { reason: EXPIRED_REASON };
        for destination in [words, Destination::Expired { received: false }, Destination::Expired { received: true }] {
            let mut bytes = Vec::new();
            encode_retry(&mut bytes, &retry(destination));
            seal_record(&mut bytes, Sequence(9)).unwrap();
            let read = decode_retry(&read_record(&bytes, Sequence(9)).unwrap()).unwrap();
            assert_eq!((read.destination, read.destination.reason()), (destination, Some(EXPIRED_REASON)));
        }
    }
}
