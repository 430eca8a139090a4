//! Terms of messages (kind 21): the key of each, what to do if the key is taken, and the id that identifies
//! repetitions. Commands by key (kind 22).
//!
//! A record of terms stands in front of its messages, in one submission with them, so that `apply` alone decides
//! whether they are stored.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::header::{RawRecord, encode_record};
use super::read_struct;
use crate::units::{DueKey, Millis, Sequence, SubjectNumber};

/// The kind byte of terms.
pub const KIND_TERMS: u8 = 21;
/// The kind byte of a command by key.
pub const KIND_BY_KEY: u8 = 22;

/// The hash of a key, or of an id, in one subject. It has 128 bits, so that collisions do not occur in practice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NameHash {
    /// The first 64 bits.
    pub low: u64,
    /// The others.
    pub high: u64,
}

impl NameHash {
    /// Means no name: no name has this hash.
    const NONE: Self = Self { low: 0, high: 0 };

    fn known(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// The behaviour if a pending message has the key of a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IfExists {
    /// The pending message is cancelled, and the new one stored.
    Replace,
    /// The pending message stays, and the new one is not stored.
    Keep,
    /// No message of the batch is stored.
    Refuse,
}

/// Limits for all messages of one record of terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermsLimits {
    /// The most keys that pending messages may have.
    pub keys_max: u32,
    /// The most ids that are remembered.
    pub ids_max: u32,
    /// How long an id is remembered, in milliseconds.
    pub id_window_ms: u64,
}

impl Default for TermsLimits {
    fn default() -> Self {
        Self { keys_max: 1 << 20, ids_max: 1 << 20, id_window_ms: 600_000 }
    }
}

/// The terms of one message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageTerms {
    /// Its place among the messages that follow, from 0.
    pub place: u32,
    /// Its key.
    pub key: Option<NameHash>,
    /// The behaviour if its key is taken.
    pub if_exists: IfExists,
    /// The id that identifies a repetition of it, if it has one.
    pub id: Option<NameHash>,
}

/// Fixed part of terms.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | `messages`: the number of records after this one that are stored whole or not at all |
/// | 4 | 4 | `keys_max` |
/// | 8 | 4 | `ids_max` |
/// | 12 | 4 | `reserved` |
/// | 16 | 8 | `id_window_ms` |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TermsFixed {
    messages: U32,
    keys_max: U32,
    ids_max: U32,
    reserved: U32,
    id_window_ms: U64,
}
const _: () = assert!(size_of::<TermsFixed>() == 24);

/// One message's terms in the payload; zeros mean no key, or no id.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 16 | `key` |
/// | 16 | 16 | `id` |
/// | 32 | 4 | `place` |
/// | 36 | 4 | `if_exists`: 0 replace, 1 keep, 2 refuse |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TermsRow {
    key_low: U64,
    key_high: U64,
    id_low: U64,
    id_high: U64,
    place: U32,
    if_exists: U32,
}

/// Bytes of one message's terms.
pub const TERMS_ROW_BYTES: usize = 40;
const _: () = assert!(size_of::<TermsRow>() == TERMS_ROW_BYTES);

/// The terms of some messages.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// The number of records after this one that are stored whole or not at all.
    pub messages: u32,
    /// The limits for all of them.
    pub limits: TermsLimits,
    rows: &'a [u8],
}

impl Terms<'_> {
    /// The terms of messages that have terms, in the order of their places.
    pub fn rows(&self) -> impl Iterator<Item = MessageTerms> + '_ {
        self.rows.chunks_exact(TERMS_ROW_BYTES).filter_map(row_of)
    }
}

fn row_of(bytes: &[u8]) -> Option<MessageTerms> {
    let row: TermsRow = read_struct(bytes)?;
    Some(MessageTerms {
        place: row.place.get(),
        key: NameHash { low: row.key_low.get(), high: row.key_high.get() }.known(),
        if_exists: match row.if_exists.get() {
            0 => IfExists::Replace,
            1 => IfExists::Keep,
            2 => IfExists::Refuse,
            _ => return None,
        },
        id: NameHash { low: row.id_low.get(), high: row.id_high.get() }.known(),
    })
}

/// Appends terms of the `messages` records that follow.
pub fn encode_terms(out: &mut Vec<u8>, messages: u32, limits: TermsLimits, rows: &[MessageTerms]) {
    let fixed = TermsFixed {
        messages: U32::new(messages),
        keys_max: U32::new(limits.keys_max),
        ids_max: U32::new(limits.ids_max),
        reserved: U32::ZERO,
        id_window_ms: U64::new(limits.id_window_ms),
    };
    let mut payload = Vec::with_capacity(rows.len().saturating_mul(TERMS_ROW_BYTES));
    for row in rows {
        let (key, id) = (row.key.unwrap_or(NameHash::NONE), row.id.unwrap_or(NameHash::NONE));
        let bytes = TermsRow {
            key_low: U64::new(key.low),
            key_high: U64::new(key.high),
            id_low: U64::new(id.low),
            id_high: U64::new(id.high),
            place: U32::new(row.place),
            if_exists: U32::new(row.if_exists as u32),
        };
        payload.extend_from_slice(bytes.as_bytes());
    }
    encode_record(out, KIND_TERMS, 0, fixed.as_bytes(), &[&payload]);
}

/// Reads terms; `None` if a row is invalid, or the rows are not in the order of their places.
pub fn decode_terms<'a>(record: &RawRecord<'a>) -> Option<Terms<'a>> {
    let fixed: TermsFixed = read_struct(record.fixed)?;
    let limits = TermsLimits {
        keys_max: fixed.keys_max.get(),
        ids_max: fixed.ids_max.get(),
        id_window_ms: fixed.id_window_ms.get(),
    };
    let messages = fixed.messages.get();
    let (rows, rest) = record.payload.split_at(record.payload.len() / TERMS_ROW_BYTES * TERMS_ROW_BYTES);
    let mut next = 0;
    for bytes in rows.chunks_exact(TERMS_ROW_BYTES) {
        let place = row_of(bytes)?.place;
        if place < next || place >= messages {
            return None;
        }
        next = place.checked_add(1)?;
    }
    rest.is_empty().then_some(Terms { messages, limits, rows })
}

/// A command for the message that has a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyCommand {
    /// Cancel it.
    Cancel,
    /// Give it another due time.
    Move {
        /// The new due time.
        due: Millis,
        /// The delay that the caller gave, in milliseconds; `None` if it gave a time.
        delay_ms: Option<u64>,
    },
}

/// A command by key.
///
/// It names the entry that had the key when the command was proposed. A reader that finds a move in the log much
/// later thus knows which message moved, and its subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByKey {
    /// The key.
    pub key: NameHash,
    /// Its subject.
    pub subject: SubjectNumber,
    /// The entry that had the key when the command was proposed; `None` if no entry had it. A move applies to this
    /// entry alone; a cancel applies to whichever entry has the key when it is applied.
    pub target: Option<DueKey>,
    /// The command.
    pub command: KeyCommand,
}

/// Fixed part of a command by key.
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 16 | `key` |
/// | 16 | 8 | `due_ms`: the new due time of a move; 0 for a cancel |
/// | 24 | 8 | `delay_ms`: the delay that the caller gave, else 0 |
/// | 32 | 8 | `target_due_ms`: of the entry that had the key at the proposal, else 0 |
/// | 40 | 8 | `target_sequence`: of the same entry; 0 if there was none |
/// | 48 | 4 | `what`: 0 cancel, 1 move to a time, 2 move by a delay |
/// | 52 | 4 | `subject` |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ByKeyFixed {
    key_low: U64,
    key_high: U64,
    due_ms: U64,
    delay_ms: U64,
    target_due_ms: U64,
    target_sequence: U64,
    what: U32,
    subject: U32,
}
const _: () = assert!(size_of::<ByKeyFixed>() == 56);

/// Appends a command by key.
pub fn encode_by_key(out: &mut Vec<u8>, asked: &ByKey) {
    let (due, delay_ms, what) = match asked.command {
        KeyCommand::Cancel => (Millis(0), 0, 0),
        KeyCommand::Move { due, delay_ms: None } => (due, 0, 1),
        KeyCommand::Move { due, delay_ms: Some(delay_ms) } => (due, delay_ms, 2),
    };
    let target = asked.target.unwrap_or_default();
    let fixed = ByKeyFixed {
        key_low: U64::new(asked.key.low),
        key_high: U64::new(asked.key.high),
        due_ms: U64::new(due.0),
        delay_ms: U64::new(delay_ms),
        target_due_ms: U64::new(target.due.0),
        target_sequence: U64::new(target.sequence.0),
        what: U32::new(what),
        subject: U32::new(asked.subject.0),
    };
    encode_record(out, KIND_BY_KEY, 0, fixed.as_bytes(), &[]);
}

/// Reads a command by key.
pub fn decode_by_key(record: &RawRecord<'_>) -> Option<ByKey> {
    let fixed: ByKeyFixed = read_struct(record.fixed)?;
    let due = Millis(fixed.due_ms.get());
    let command = match fixed.what.get() {
        0 => KeyCommand::Cancel,
        1 => KeyCommand::Move { due, delay_ms: None },
        2 => KeyCommand::Move { due, delay_ms: Some(fixed.delay_ms.get()) },
        _ => return None,
    };
    let key = NameHash { low: fixed.key_low.get(), high: fixed.key_high.get() };
    let target = DueKey { due: Millis(fixed.target_due_ms.get()), sequence: Sequence(fixed.target_sequence.get()) };
    let target = (target.sequence > Sequence(0)).then_some(target);
    Some(ByKey { key, subject: SubjectNumber(fixed.subject.get()), target, command })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::header::{read_record, seal_record};

    fn sealed(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode(&mut bytes);
        seal_record(&mut bytes, Sequence(5)).unwrap();
        bytes
    }

    fn row(place: u32) -> MessageTerms {
        let key = Some(NameHash { low: 1, high: u64::from(place) });
        MessageTerms { place, key, if_exists: IfExists::Keep, id: None }
    }

    #[test]
    fn terms_read_back() {
        let limits = TermsLimits { keys_max: 3, ids_max: 4, id_window_ms: 5 };
        let rows = [row(0), MessageTerms { key: None, id: Some(NameHash { low: 9, high: 8 }), ..row(2) }];
        let bytes = sealed(|out| encode_terms(out, 3, limits, &rows));
        let record = read_record(&bytes, Sequence(5)).unwrap();
        let terms = decode_terms(&record).unwrap();
        assert_eq!((terms.messages, terms.limits), (3, limits));
        assert_eq!(terms.rows().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn terms_out_of_their_order_are_none() {
        for rows in [[row(1), row(0)], [row(0), row(0)], [row(0), row(3)]] {
            let bytes = sealed(|out| encode_terms(out, 3, TermsLimits::default(), &rows));
            assert!(decode_terms(&read_record(&bytes, Sequence(5)).unwrap()).is_none(), "{rows:?}");
        }
    }

    #[test]
    fn what_is_asked_by_a_key_reads_back() {
        let key = NameHash { low: 7, high: 8 };
        let due = Millis(9);
        for command in
            [KeyCommand::Cancel, KeyCommand::Move { due, delay_ms: None }, KeyCommand::Move { due, delay_ms: Some(3) }]
        {
            for target in [None, Some(DueKey { due: Millis(6), sequence: Sequence(4) })] {
                let asked = ByKey { key, subject: SubjectNumber(3), target, command };
                let bytes = sealed(|out| encode_by_key(out, &asked));
                assert_eq!(decode_by_key(&read_record(&bytes, Sequence(5)).unwrap()), Some(asked));
            }
        }
    }
}
