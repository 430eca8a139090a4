//! PUBLISH (202): stores a batch whole or not at all. CANCEL (203).
//!
//! | bytes | field of a publish |
//! |---|---|
//! | 1 | `wants_receipts`: 0 or 1 |
//! | 4, then str each | `subjects`: each subject once |
//! | 4, then each | `messages` |
//!
//! | bytes | field of a message |
//! |---|---|
//! | 2 | `subject`: its index in the subjects |
//! | 1 | `due_kind`: 0 a delay after the server received the batch, 1 a time |
//! | 8 | `due_ms` |
//! | 4 | `meta_length` |
//! | 4 | `body_length` |
//! | 4 | `check`: CRC-32 over meta and body |
//! | … | meta, as in `docs/format.md`, and body |
//!
//! The answer is `count u32 | receipt (48 bytes)*`, in the order of the messages; the count is 0 if
//! no receipts are wanted. A cancel is `count u32 | receipt*`, its answer `count u32 | outcome u8*`
//! (0 done, 1 dispatched already, 2 not found).

use std::collections::HashMap;

use bytes::BufMut;

use crate::error::{Error, Result};
use crate::record::limits::{BATCH_MESSAGES_MAX, at_most, check_batch, check_body, check_meta, check_name};
use crate::store::{RECEIPT_BYTES, Receipt};
use crate::units::Millis;
use crate::wire::fields::{put_count, put_text};
use crate::wire::frame::FRAME_BODY_BYTES_MAX;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// Bytes of a message before its meta.
const MESSAGE_HEAD_BYTES: usize = 23;

/// When a message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DueTime {
    /// This many milliseconds after the server received it.
    After(u64),
    /// At this time; a past time means now.
    At(Millis),
}

/// A message of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Published<'a> {
    /// The subject.
    pub subject: &'a str,
    /// When it is due.
    pub due: DueTime,
    /// Message id, tags and attributes, encoded.
    pub meta: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// The producer's CRC-32 over meta and body.
    pub check: u32,
}

impl Published<'_> {
    /// Checks that meta and body are as the producer sent them, and returns their check.
    ///
    /// # Errors
    /// `InvalidArgument` naming `check`.
    pub fn check(&self) -> Result<u32> {
        let found = check_of(self.meta, self.body);
        if found == self.check {
            return Ok(found);
        }
        let (expected, found) = (format!("{:08x}", self.check), format!("{found:08x}"));
        Err(Error::InvalidArgument { argument: "check", expected, found })
    }
}

fn check_of(meta: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(meta);
    hasher.update(body);
    hasher.finalize()
}

/// A batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish<'a> {
    /// False if the answer should have no receipts.
    pub wants_receipts: bool,
    /// The messages, in order.
    pub messages: Vec<Published<'a>>,
}

impl<'a> Publish<'a> {
    /// Reads a request. The store checks the limits of subjects, meta and bodies.
    ///
    /// # Errors
    /// `Malformed`, naming the field; `TooLarge` naming `subjects` or `messages`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let wants_receipts = reader.flag("wants_receipts")?;
        let subject_count = reader.count("subjects", BATCH_MESSAGES_MAX, 2)?;
        let mut subjects = Vec::with_capacity(subject_count);
        for _ in 0..subject_count {
            subjects.push(reader.text("subjects")?);
        }
        let count = reader.count("messages", BATCH_MESSAGES_MAX, MESSAGE_HEAD_BYTES)?;
        let mut messages = Vec::with_capacity(count);
        for _ in 0..count {
            messages.push(read_message(reader, &subjects)?);
        }
        Ok(Self { wants_receipts, messages })
    }
}

fn read_message<'a>(reader: &mut Reader<'a>, subjects: &[&'a str]) -> Read<Published<'a>> {
    let index = reader.u16("subject")?;
    let unknown = Malformed::Value { field: "subject", expected: "one of the subjects", found: i64::from(index) };
    let subject = subjects.get(usize::from(index)).copied().ok_or(unknown)?;
    let (kind, due_ms) = (reader.u8("due")?, reader.u64("due")?);
    let due = match kind {
        0 => DueTime::After(due_ms),
        1 => DueTime::At(Millis(due_ms)),
        found => return Err(Malformed::Value { field: "due", expected: "0 or 1", found: i64::from(found) }),
    };
    let (meta_length, body_length) = (reader.u32("meta")?, reader.u32("body")?);
    let check = reader.u32("check")?;
    let meta = reader.bytes("meta", meta_length as usize)?;
    let body = reader.bytes("body", body_length as usize)?;
    Ok(Published { subject, due, meta, body, check })
}

/// A batch that a client fills. It refuses messages that the store would refuse.
#[derive(Clone, Debug, Default)]
pub struct PublishWriter {
    subjects: Vec<u8>,
    places: HashMap<String, u16>,
    last: Option<(String, u16)>,
    messages: Vec<u8>,
    count: usize,
}

impl PublishWriter {
    /// The number of messages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of the request so far.
    pub fn bytes(&self) -> usize {
        const COUNTS_BYTES: usize = 9;
        self.subjects.len().saturating_add(self.messages.len()).saturating_add(COUNTS_BYTES)
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.subjects.clear();
        self.places.clear();
        self.last = None;
        self.messages.clear();
        self.count = 0;
    }

    /// Adds a message.
    ///
    /// # Errors
    /// `InvalidArgument` or `TooLarge` naming `subject`, `meta`, `message_id`, `tags`, `attributes`, `body` or
    /// `messages`; `TooLarge` naming `frame` if the request would be too large. The writer is then unchanged.
    pub fn push(&mut self, subject: &str, due: DueTime, meta: &[u8], body: &[u8]) -> Result<()> {
        check_meta(meta)?;
        check_body(body.len())?;
        check_batch(self.count.saturating_add(1))?;
        let added = subject.len().saturating_add(2).saturating_add(MESSAGE_HEAD_BYTES);
        let added = added.saturating_add(meta.len()).saturating_add(body.len());
        at_most("frame", FRAME_BODY_BYTES_MAX, self.bytes().saturating_add(added))?;
        let place = self.place(subject)?;
        self.messages.put_u16(place);
        let (kind, due_ms) = match due {
            DueTime::After(delay_ms) => (0, delay_ms),
            DueTime::At(time) => (1, time.0),
        };
        self.messages.put_u8(kind);
        self.messages.put_u64(due_ms);
        self.messages.put_u32(meta.len() as u32);
        self.messages.put_u32(body.len() as u32);
        self.messages.put_u32(check_of(meta, body));
        self.messages.put_slice(meta);
        self.messages.put_slice(body);
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    fn place(&mut self, subject: &str) -> Result<u16> {
        if let Some((last, place)) = &self.last
            && last == subject
        {
            return Ok(*place);
        }
        let place = if let Some(place) = self.places.get(subject) {
            *place
        } else {
            check_name("subject", subject)?;
            // At most one for each message, and a batch has at most 10,000 messages.
            let place = self.places.len() as u16;
            put_text(&mut self.subjects, "subject", subject)?;
            self.places.insert(subject.to_owned(), place);
            place
        };
        self.last = Some((subject.to_owned(), place));
        Ok(place)
    }

    /// Appends the request.
    ///
    /// # Errors
    /// None: its messages are within their limits.
    pub fn put(&self, out: &mut Vec<u8>, wants_receipts: bool) -> Result<()> {
        out.put_u8(u8::from(wants_receipts));
        put_count(out, "subjects", BATCH_MESSAGES_MAX, self.places.len())?;
        out.put_slice(&self.subjects);
        put_count(out, "messages", BATCH_MESSAGES_MAX, self.count)?;
        out.put_slice(&self.messages);
        Ok(())
    }
}

/// Appends receipts: the answer to a publish, or a cancel.
///
/// # Errors
/// `TooLarge` naming `receipts`.
pub fn put_receipts(out: &mut Vec<u8>, receipts: impl ExactSizeIterator<Item = Receipt>) -> Result<()> {
    put_count(out, "receipts", BATCH_MESSAGES_MAX, receipts.len())?;
    for receipt in receipts {
        out.put_slice(&receipt.to_bytes());
    }
    Ok(())
}

/// Reads receipts: the answer to a publish, or a cancel.
///
/// # Errors
/// `Malformed` naming `receipts`.
pub fn read_receipts(reader: &mut Reader<'_>) -> Read<Vec<Receipt>> {
    const FIELD: &str = "receipts";
    let count = reader.count(FIELD, BATCH_MESSAGES_MAX, RECEIPT_BYTES)?;
    let mut receipts = Vec::with_capacity(count);
    for _ in 0..count {
        receipts.push(read_receipt(reader, FIELD)?);
    }
    Ok(receipts)
}

/// Reads one receipt.
///
/// # Errors
/// `Malformed` naming `field`.
pub(super) fn read_receipt(reader: &mut Reader<'_>, field: &'static str) -> Read<Receipt> {
    let bytes = reader.bytes(field, RECEIPT_BYTES)?;
    let version = bytes.first().copied().map_or(0, i64::from);
    let wrong = Malformed::Value { field, expected: "a receipt of version 1", found: version };
    Receipt::from_bytes(bytes).ok_or(wrong)
}

/// The outcome of a cancel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancelled {
    /// It was pending, and was cancelled by this or an earlier command.
    Done,
    /// It was already dispatched.
    AlreadyDispatched,
    /// There is no such message.
    NotFound,
}

/// Appends the answer to a cancel.
///
/// # Errors
/// `TooLarge` naming `outcomes`.
pub fn put_outcomes(out: &mut Vec<u8>, outcomes: &[Cancelled]) -> Result<()> {
    put_count(out, "outcomes", BATCH_MESSAGES_MAX, outcomes.len())?;
    for outcome in outcomes {
        out.put_u8(match outcome {
            Cancelled::Done => 0,
            Cancelled::AlreadyDispatched => 1,
            Cancelled::NotFound => 2,
        });
    }
    Ok(())
}

/// Reads the answer to a cancel.
///
/// # Errors
/// `Malformed` naming `outcomes`.
pub fn read_outcomes(body: &[u8]) -> Read<Vec<Cancelled>> {
    let mut reader = Reader::new(body);
    let count = reader.count("outcomes", BATCH_MESSAGES_MAX, 1)?;
    let mut outcomes = Vec::with_capacity(count);
    for _ in 0..count {
        outcomes.push(match reader.u8("outcomes")? {
            0 => Cancelled::Done,
            1 => Cancelled::AlreadyDispatched,
            2 => Cancelled::NotFound,
            found => {
                return Err(Malformed::Value { field: "outcomes", expected: "0, 1 or 2", found: i64::from(found) });
            }
        });
    }
    reader.finish("outcomes").map(|()| outcomes)
}
