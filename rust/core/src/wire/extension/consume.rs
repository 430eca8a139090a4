//! SUBSCRIBE (204), CREDIT (205), DELIVER (206), UNSUBSCRIBE (211).
//!
//! A client numbers its subscriptions; a number is valid on its connection alone. Each message that a subscription
//! is sent takes one of its credit, and a subscription holds at most `in_flight_max` unsettled messages. CREDIT
//! adds credit; if it wants an answer, the answer comes after the ready messages were sent.
//!
//! | bytes | field of a subscribe |
//! |---|---|
//! | 4 | `subscription` |
//! | 4, then str each | `subjects`: names, or one prefix that ends with `*` |
//! | str each | `group`, `consumer`; an empty consumer is named by the server |
//! | … | the start of a group that is new: see [`super::start`] |
//! | 1 | `broadcast`: 0 or 1 |
//! | 4 | `in_flight_max` |
//! | 4 | `credit` |
//! | … | filters: see [`super::filters`] |
//!
//! Its answer is `str consumer | is_new u8`: 1 if the group is new. A credit is `subscription u32 | credit u32`, an
//! unsubscribe `subscription u32`.
//!
//! | bytes | field of a delivery |
//! |---|---|
//! | 4 | `subscription` |
//! | 8 | `now_ms`: the trusted clock |
//! | 4, then each | messages |
//!
//! | bytes | field of a message |
//! |---|---|
//! | 4, 8 | `queue` and `offset`: its key, to settle it by. Each subject has two queues: its own, then the group's retries |
//! | 1 | `form`: 0 meta and body, 1 a message in QMQ's layout, as received |
//! | 1 | `redelivered`: 0 or 1 |
//! | 4 | `attempt` |
//! | 8 | `sequence` |
//! | 8 each | `due_ms`, `first_due_ms`, `published_ms` |
//! | 4, 4, 5 | the rest of its receipt: `epoch`, `subject`, `check` |
//! | str | `subject` |
//! | 4 | `meta_length`; 0 for a message of QMQ |
//! | 4 | `payload_length`: meta and body |
//! | 4 | `check`: CRC-32 over meta and body |
//! | … | meta and body |

use bytes::BufMut;

use super::filters::{put_filters, read_filters};
use super::proof::Proof;
use super::settle::read_queue;
use super::start::{put_start, read_start};
use crate::error::Result;
use crate::queues::tags::Filter;
use crate::record::limits::{BATCH_MESSAGES_MAX, at_most};
use crate::store::{Receipt, SUBJECTS_MAX, StartAt};
use crate::units::{DueKey, Millis, Sequence};
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The most messages that a subscription may hold unsettled.
pub const IN_FLIGHT_MAX: u32 = 1 << 16;
/// The most credit that a subscription may have.
pub const CREDIT_MAX: u32 = 1 << 20;
/// Bytes of a delivered message without its subject and payload.
const DELIVERED_HEAD_BYTES: usize = 77;

/// A request to subscribe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribe<'a> {
    /// The client's number for the subscription.
    pub subscription: u32,
    /// The texts of a [`Selection`](crate::store::Selection).
    pub subjects: Vec<&'a str>,
    /// The group.
    pub group: &'a str,
    /// The consumer; it may be empty.
    pub consumer: &'a str,
    /// The start of a new group.
    pub start: StartAt,
    /// True if each consumer receives every message.
    pub is_broadcast: bool,
    /// The most messages that it holds unsettled.
    pub in_flight_max: u32,
    /// The initial credit.
    pub credit: u32,
    /// A message must pass all of these.
    pub filters: Vec<Filter>,
}

impl<'a> Subscribe<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field; `TooLarge` naming `subjects`, `in_flight_max` or `credit`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self {
            subscription: reader.u32("subscription")?,
            subjects: read_subjects(reader)?,
            group: reader.text("group")?,
            consumer: reader.text("consumer")?,
            start: read_start(reader)?,
            is_broadcast: reader.flag("broadcast")?,
            in_flight_max: read_in_flight_max(reader)?,
            credit: read_credit(reader)?,
            filters: read_filters(reader)?,
        })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        at_most("in_flight_max", IN_FLIGHT_MAX as usize, self.in_flight_max as usize)?;
        at_most("credit", CREDIT_MAX as usize, self.credit as usize)?;
        out.put_u32(self.subscription);
        put_count(out, "subjects", SUBJECTS_MAX, self.subjects.len())?;
        self.subjects.iter().try_for_each(|subject| put_text(out, "subject", subject))?;
        put_text(out, "group", self.group)?;
        put_text(out, "consumer", self.consumer)?;
        put_start(out, self.start);
        out.put_u8(u8::from(self.is_broadcast));
        out.put_u32(self.in_flight_max);
        out.put_u32(self.credit);
        put_filters(out, &self.filters)
    }
}

fn read_subjects<'a>(reader: &mut Reader<'a>) -> Read<Vec<&'a str>> {
    let count = reader.count("subjects", SUBJECTS_MAX, 2)?;
    (0..count).map(|_| reader.text("subject")).collect()
}

fn read_in_flight_max(reader: &mut Reader<'_>) -> Read<u32> {
    let found = reader.u32("in_flight_max")?;
    if found == 0 {
        return Err(Malformed::Value { field: "in_flight_max", expected: "1 or more", found: 0 });
    }
    bounded("in_flight_max", IN_FLIGHT_MAX, found)
}

fn read_credit(reader: &mut Reader<'_>) -> Read<u32> {
    let found = reader.u32("credit")?;
    bounded("credit", CREDIT_MAX, found)
}

fn bounded(field: &'static str, limit: u32, found: u32) -> Read<u32> {
    if found <= limit {
        return Ok(found);
    }
    Err(Malformed::TooLarge { field, limit: u64::from(limit), found: u64::from(found) })
}

/// The answer to a subscribe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscribed {
    /// The consumer's name.
    pub consumer: String,
    /// True if this request created the group.
    pub is_new: bool,
}

impl Subscribed {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let subscribed = Self { consumer: reader.text("consumer")?.to_owned(), is_new: reader.flag("is_new")? };
        reader.finish("subscribed").map(|()| subscribed)
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming `consumer`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "consumer", &self.consumer)?;
        out.put_u8(u8::from(self.is_new));
        Ok(())
    }
}

/// A request to add credit to a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// The subscription.
    pub subscription: u32,
    /// The credit to add.
    pub credit: u32,
}

impl Credit {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field; `TooLarge` naming `credit`.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        Ok(Self { subscription: reader.u32("subscription")?, credit: read_credit(reader)? })
    }

    /// Appends the request.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.subscription);
        out.put_u32(self.credit);
    }
}

/// The layout of a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PayloadForm {
    /// Meta, then the body.
    Opaque,
    /// A message in QMQ's layout, as its producer sent it.
    Qmq,
}

impl PayloadForm {
    /// Reads the layout.
    ///
    /// # Errors
    /// `Malformed` naming `form`.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        Ok(if reader.flag("form")? { Self::Qmq } else { Self::Opaque })
    }

    /// Appends the layout.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self == Self::Qmq));
    }
}

/// A message that is delivered to a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered<'a> {
    /// Twice the place of the subject in its subscription; one more for the group's retries of that subject.
    pub queue: u32,
    /// The pull offset there.
    pub offset: u64,
    /// The layout of the payload.
    pub form: PayloadForm,
    /// True if it may have been delivered before.
    pub redelivered: bool,
    /// The number of this delivery, from 1.
    pub attempt: u32,
    /// The sequence of the message itself.
    pub sequence: Sequence,
    /// When it was due.
    pub due: Millis,
    /// Its first due time, before any retry.
    pub first_due: Millis,
    /// When it was received.
    pub published: Millis,
    /// The part of its receipt that is not in other fields.
    pub proof: Proof,
    /// The subject that it was published to.
    pub subject: &'a str,
    /// Bytes of the payload before the body.
    pub meta_length: u32,
    /// The payload's CRC-32, as it is stored.
    pub check: u32,
    /// Meta and body.
    pub payload: &'a [u8],
}

impl<'a> Delivered<'a> {
    /// Meta and body.
    pub fn parts(&self) -> (&'a [u8], &'a [u8]) {
        self.payload.split_at_checked(self.meta_length as usize).unwrap_or((&[], self.payload))
    }

    /// The receipt of its publish; `stream` is the stream of the connection.
    pub fn receipt(&self, stream: [u8; 16]) -> Receipt {
        let key = DueKey { due: self.first_due, sequence: self.sequence };
        let size = self.parts().1.len() as u32;
        let Proof { epoch, subject, check } = self.proof;
        Receipt { stream, epoch, key, subject, size, check }
    }

    /// True if the payload matches its check.
    pub fn is_whole(&self) -> bool {
        crc32fast::hash(self.payload) == self.check
    }

    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let (queue, offset) = (read_queue(reader)?, reader.u64("offset")?);
        let form = PayloadForm::read(reader)?;
        let (redelivered, attempt) = (reader.flag("redelivered")?, reader.u32("attempt")?);
        let sequence = Sequence(reader.u64("sequence")?);
        let (due, first_due) = (Millis(reader.u64("due_ms")?), Millis(reader.u64("first_due_ms")?));
        let published = Millis(reader.u64("published_ms")?);
        let proof = Proof::read(reader)?;
        let subject = reader.text("subject")?;
        let (meta_length, payload_length) = (reader.u32("meta")?, reader.u32("payload")?);
        let check = reader.u32("check")?;
        if meta_length > payload_length {
            let (limit, found) = (u64::from(payload_length), u64::from(meta_length));
            return Err(Malformed::TooLarge { field: "meta", limit, found });
        }
        let payload = reader.bytes("payload", payload_length as usize)?;
        Ok(Self {
            queue,
            offset,
            form,
            redelivered,
            attempt,
            sequence,
            due,
            first_due,
            published,
            proof,
            subject,
            meta_length,
            check,
            payload,
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// `TooLarge` naming `subject`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.queue);
        out.put_u64(self.offset);
        self.form.put(out);
        out.put_u8(u8::from(self.redelivered));
        out.put_u32(self.attempt);
        out.put_u64(self.sequence.0);
        out.put_u64(self.due.0);
        out.put_u64(self.first_due.0);
        out.put_u64(self.published.0);
        self.proof.put(out);
        put_text(out, "subject", self.subject)?;
        out.put_u32(self.meta_length);
        out.put_u32(self.payload.len() as u32);
        out.put_u32(self.check);
        out.put_slice(self.payload);
        Ok(())
    }
}

/// Appends the part of a delivery before its messages, which [`Delivered::put`] appends.
///
/// # Errors
/// `TooLarge` naming `messages`.
pub fn put_deliver(out: &mut Vec<u8>, subscription: u32, now: Millis, count: usize) -> Result<()> {
    out.put_u32(subscription);
    out.put_u64(now.0);
    put_count(out, "messages", BATCH_MESSAGES_MAX, count)
}

/// Messages for a subscription.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deliver<'a> {
    /// The subscription.
    pub subscription: u32,
    /// The trusted clock when they were sent.
    pub now: Millis,
    /// The messages, in order.
    pub messages: Vec<Delivered<'a>>,
}

impl<'a> Deliver<'a> {
    /// Reads a delivery.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let (subscription, now) = (reader.u32("subscription")?, Millis(reader.u64("now_ms")?));
        let count = reader.count("messages", BATCH_MESSAGES_MAX, DELIVERED_HEAD_BYTES)?;
        let mut messages = Vec::with_capacity(count);
        for _ in 0..count {
            messages.push(Delivered::read(&mut reader)?);
        }
        reader.finish("deliver").map(|()| Self { subscription, now, messages })
    }
}
