//! Kind 1, the message.
//!
//! | offset in the fixed part | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `due_ms` |
//! | 8 | 8 | `published_ms`: the trusted clock when it was received |
//! | 16 | 4 | `subject`: the subject's number |
//! | 20 | 4 | `meta_length`: bytes of the payload before the body |
//! | 24 | 8 | `expires_ms`, with flag bit 4 alone |
//!
//! Flag bit 3 (value 8): the payload is opaque: meta, then the raw body. Without the flag the payload is a QMQ wire
//! message, stored as received. Flag bit 4 (value 16): the message expires, and the fixed part has 8 bytes more. Flag
//! bit 5 (value 32), beside bit 4: it then becomes a dead letter. Meta of an opaque message:
//! `id length u16 | id | tag count u8 | (length u8 | tag)* | attribute count u16 |
//! (key length u16 | key | value length u32 | value)*`, text in UTF-8.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::expire::{Expiry, OnExpiry};
use super::header::{
    RECORD_HEADER_BYTES, RawRecord, RecordHeader, check_of_parts, encode_checked_record, reseal_record,
};
use super::meta::MetaView;
use super::read_struct;
use crate::units::{Millis, Sequence, SubjectNumber};

/// The kind byte of a message.
pub const KIND_MESSAGE: u8 = 1;
/// Flag: the payload is meta, then raw bytes.
pub const FLAG_OPAQUE: u8 = 8;
/// Flag: the message expires.
pub const FLAG_EXPIRES: u8 = 16;
/// Flag: when the message expires, it becomes a dead letter.
pub const FLAG_DIES: u8 = 32;

/// The fixed part of a message record.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct MessageFixed {
    due_ms: U64,
    published_ms: U64,
    subject: U32,
    meta_length: U32,
}
const _: () = assert!(size_of::<MessageFixed>() == 24);

/// The end of the fixed part, in the record of a message that expires.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpiryFixed {
    expires_ms: U64,
}

/// The fixed part of the record of a message that expires.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExpiringFixed {
    message: MessageFixed,
    expiry: ExpiryFixed,
}
const _: () = assert!(size_of::<ExpiringFixed>() == 32);

/// A message as it is stored; `meta` and `body` borrow the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// When it is due.
    pub due: Millis,
    /// The trusted clock when it was received.
    pub published: Millis,
    /// Its subject's number.
    pub subject: SubjectNumber,
    /// True for meta and raw body, false for a QMQ wire message.
    pub opaque: bool,
    /// When it expires, if it does.
    pub expiry: Option<Expiry>,
    /// Message id, tags and attributes, encoded by [`encode_meta`].
    pub meta: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

/// Appends a message record.
pub fn encode_message(out: &mut Vec<u8>, message: &Message<'_>) {
    encode_checked_message(out, message, check_of_parts(&[message.meta, message.body]));
}

/// Like [`encode_message`], with the CRC-32 over meta and body that the producer computed and the caller verified.
/// A reader finds any later damage.
pub fn encode_checked_message(out: &mut Vec<u8>, message: &Message<'_>, check: u32) {
    let fixed = MessageFixed {
        due_ms: U64::new(message.due.0),
        published_ms: U64::new(message.published.0),
        subject: U32::new(message.subject.0),
        meta_length: U32::new(u32::try_from(message.meta.len()).unwrap_or(u32::MAX)),
    };
    let flags = if message.opaque { FLAG_OPAQUE } else { 0 };
    let parts = [message.meta, message.body];
    let Some(expiry) = message.expiry else {
        return encode_checked_record(out, (KIND_MESSAGE, flags), fixed.as_bytes(), &parts, check);
    };
    let dies = if expiry.then == OnExpiry::DeadLetter { FLAG_DIES } else { 0 };
    let fixed = ExpiringFixed { message: fixed, expiry: ExpiryFixed { expires_ms: U64::new(expiry.at.0) } };
    encode_checked_record(out, (KIND_MESSAGE, flags | FLAG_EXPIRES | dies), fixed.as_bytes(), &parts, check);
}

/// Reads a message; `None` if the fixed part does not fit.
#[inline]
pub fn decode_message<'a>(record: &RawRecord<'a>) -> Option<Message<'a>> {
    let fixed: MessageFixed = read_struct(record.fixed)?;
    let (meta, body) = record.payload.split_at_checked(fixed.meta_length.get() as usize)?;
    let expiry = if record.header.flags & FLAG_EXPIRES == 0 { None } else { Some(expiry_of(record)?) };
    Some(Message {
        due: Millis(fixed.due_ms.get()),
        published: Millis(fixed.published_ms.get()),
        subject: SubjectNumber(fixed.subject.get()),
        opaque: record.header.flags & FLAG_OPAQUE != 0,
        expiry,
        meta,
        body,
    })
}

/// The expiry of a record that has one.
fn expiry_of(record: &RawRecord<'_>) -> Option<Expiry> {
    let fixed: ExpiringFixed = read_struct(record.fixed)?;
    let dies = record.header.flags & FLAG_DIES != 0;
    let then = if dies { OnExpiry::DeadLetter } else { OnExpiry::Drop };
    Some(Expiry { at: Millis(fixed.expiry.expires_ms.get()), then })
}

/// The fields of the fixed part that an adoption sets.
const PUBLISHED: std::ops::Range<usize> = RECORD_HEADER_BYTES + 8..RECORD_HEADER_BYTES + 16;
const SUBJECT: std::ops::Range<usize> = RECORD_HEADER_BYTES + 16..RECORD_HEADER_BYTES + 20;

/// Rewrites the whole message record at the front of `bytes` as if it had been published at `published`, in the subject
/// that `subject_of` returns for its own, and sealed under `sequence`. Its payload and the payload's check stay the
/// same. `None` if the bytes are no message.
pub(crate) fn adopt_message(
    bytes: &mut [u8],
    published: Millis,
    subject_of: &dyn Fn(SubjectNumber) -> SubjectNumber,
    sequence: Sequence,
) -> Option<()> {
    let (header, fixed) = RecordHeader::ref_from_prefix(bytes).ok()?;
    let fixed: MessageFixed = read_struct(fixed)?;
    if header.kind != KIND_MESSAGE {
        return None;
    }
    let subject = subject_of(SubjectNumber(fixed.subject.get()));
    bytes.get_mut(PUBLISHED)?.copy_from_slice(&published.0.to_le_bytes());
    bytes.get_mut(SUBJECT)?.copy_from_slice(&subject.0.to_le_bytes());
    reseal_record(bytes, sequence)
}

/// Message id, tags and attributes of an opaque message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// The producer's id for the message; empty if it gave none.
    pub message_id: String,
    /// Tags, at most 255.
    pub tags: Vec<String>,
    /// Attributes in the order given.
    pub attributes: Vec<(String, Vec<u8>)>,
}

/// Encodes meta. The caller checks limits. `None` if a part is longer than its length field can express.
pub fn encode_meta(meta: &Meta) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    out.extend_from_slice(&u16::try_from(meta.message_id.len()).ok()?.to_le_bytes());
    out.extend_from_slice(meta.message_id.as_bytes());
    out.push(u8::try_from(meta.tags.len()).ok()?);
    for tag in &meta.tags {
        out.push(u8::try_from(tag.len()).ok()?);
        out.extend_from_slice(tag.as_bytes());
    }
    out.extend_from_slice(&u16::try_from(meta.attributes.len()).ok()?.to_le_bytes());
    for (key, value) in &meta.attributes {
        out.extend_from_slice(&u16::try_from(key.len()).ok()?.to_le_bytes());
        out.extend_from_slice(key.as_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
        out.extend_from_slice(value);
    }
    Some(out)
}

/// Decodes meta; `None` if it is malformed or has bytes left over.
pub fn decode_meta(bytes: &[u8]) -> Option<Meta> {
    if bytes.is_empty() {
        return None;
    }
    let view = MetaView::read(bytes)?;
    Some(Meta {
        message_id: view.message_id().to_owned(),
        tags: view.tags().map(str::to_owned).collect(),
        attributes: view.attributes().map(|(key, value)| (key.to_owned(), value.to_vec())).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::header::{read_record, seal_record};

    #[test]
    fn a_message_reads_back() {
        let meta = encode_meta(&Meta {
            message_id: "order-17".to_owned(),
            tags: vec!["a".to_owned(), "β".to_owned()],
            attributes: vec![("k".to_owned(), vec![0, 1, 2])],
        })
        .unwrap();
        let mut lengths = Vec::new();
        let expiries = [OnExpiry::Drop, OnExpiry::DeadLetter].map(|then| Some(Expiry { at: Millis(6), then }));
        for expiry in [None].into_iter().chain(expiries) {
            let message = Message {
                due: Millis(5),
                published: Millis(4),
                subject: SubjectNumber(3),
                opaque: true,
                expiry,
                meta: &meta,
                body: b"body",
            };
            let mut bytes = Vec::new();
            encode_message(&mut bytes, &message);
            seal_record(&mut bytes, Sequence(1)).unwrap();
            let record = read_record(&bytes, Sequence(1)).unwrap();
            assert_eq!(decode_message(&record), Some(message));
            lengths.push(record.header.length.get());
        }
        let plain = lengths[0];
        assert_eq!(lengths, [plain, plain + 8, plain + 8], "an expiry takes room only where it is set");
        assert_eq!(decode_meta(&meta).unwrap().tags[1], "β");
    }

    #[test]
    fn a_check_that_is_known_is_stored_and_found_wrong_where_it_is() {
        let subject = SubjectNumber(3);
        let message = Message {
            due: Millis(5),
            published: Millis(4),
            subject,
            opaque: true,
            expiry: None,
            meta: b"meta",
            body: b"body",
        };
        let (mut computed, mut known, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        encode_message(&mut computed, &message);
        encode_checked_message(&mut known, &message, crc32fast::hash(b"metabody"));
        assert_eq!(computed, known);
        encode_checked_message(&mut wrong, &message, 7);
        seal_record(&mut wrong, Sequence(1)).unwrap();
        assert!(!read_record(&wrong, Sequence(1)).unwrap().payload_is_whole());
    }

    #[test]
    fn every_prefix_of_meta_is_refused() {
        let meta =
            encode_meta(&Meta { message_id: "x".to_owned(), tags: vec![], attributes: vec![("k".into(), vec![1])] })
                .unwrap();
        for cut in 0..meta.len() {
            assert_eq!(decode_meta(&meta[..cut]), None, "{cut}");
        }
    }
}
