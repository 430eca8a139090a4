//! ACKNOWLEDGE (207), `GIVE_BACK` (208), `PUT_AWAY` (209), FLUSH (210).
//!
//! Each begins with `subscription u32` and names messages by their keys, in any order:
//!
//! | command | what follows |
//! |---|---|
//! | ACKNOWLEDGE | `count u32 | (queue u32 | first offset u64 | offsets u64)*` |
//! | `GIVE_BACK` | `count u32 | (queue u32 | offset u64 | delay_ms u64)*` |
//! | `PUT_AWAY` | `blob reason | count u32 | (queue u32 | offset u64)*` |
//! | FLUSH | nothing |
//!
//! Clients that flush send the first three one-way. Otherwise these are answered when they are durable. A key that
//! the subscription does not hold changes nothing. The server handles the requests of a connection in their order,
//! so a flush is answered when all earlier settlements are durable.

use bytes::BufMut;

use crate::error::Result;
use crate::record::retry::REASON_BYTES_MAX;
use crate::store::SUBJECTS_MAX;
use crate::wire::fields::{put_blob, put_count};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::{Reader, utf8};

/// The most ranges or messages of one request.
pub const SETTLED_MAX: usize = 1 << 16;
/// Queues of a subscription, at most: those of its subjects, and of their retries by its group.
const QUEUES: u32 = 2 * SUBJECTS_MAX as u32;

/// Messages with neighbouring offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyRange {
    /// Twice the place of the subject in its subscription; one more for the group's retries of that subject.
    pub queue: u32,
    /// The first offset.
    pub first: u64,
    /// The number of messages.
    pub count: u64,
}

/// A request to acknowledge messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acknowledge {
    /// The subscription.
    pub subscription: u32,
    /// The messages.
    pub ranges: Vec<KeyRange>,
}

impl Acknowledge {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        let subscription = reader.u32("subscription")?;
        let count = reader.count("ranges", SETTLED_MAX, 20)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let (queue, first, count) = (read_queue(reader)?, reader.u64("offset")?, reader.u64("offsets")?);
            if count == 0 || first.checked_add(count).is_none() {
                let expected = "a range of offsets that ends";
                return Err(Malformed::Value { field: "offsets", expected, found: count.cast_signed() });
            }
            ranges.push(KeyRange { queue, first, count });
        }
        Ok(Self { subscription, ranges })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `ranges`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.subscription);
        put_count(out, "ranges", SETTLED_MAX, self.ranges.len())?;
        for range in &self.ranges {
            out.put_u32(range.queue);
            out.put_u64(range.first);
            out.put_u64(range.count);
        }
        Ok(())
    }
}

/// Reads the queue of a key.
pub(super) fn read_queue(reader: &mut Reader<'_>) -> Read<u32> {
    let found = reader.u32("queue")?;
    if found < QUEUES {
        return Ok(found);
    }
    Err(Malformed::Value { field: "queue", expected: "0 to 19,999", found: i64::from(found) })
}

/// A message that is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenBack {
    /// Twice the place of the subject in its subscription; one more for the group's retries of that subject.
    pub queue: u32,
    /// Its offset there.
    pub offset: u64,
    /// The delay before its next delivery, in milliseconds.
    pub delay_ms: u64,
}

/// A request to give messages back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GiveBack {
    /// The subscription.
    pub subscription: u32,
    /// The messages and their delays.
    pub messages: Vec<GivenBack>,
}

impl GiveBack {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        let subscription = reader.u32("subscription")?;
        let count = reader.count("messages", SETTLED_MAX, 20)?;
        let mut messages = Vec::with_capacity(count);
        for _ in 0..count {
            let (queue, offset, delay_ms) = (read_queue(reader)?, reader.u64("offset")?, reader.u64("delay_ms")?);
            messages.push(GivenBack { queue, offset, delay_ms });
        }
        Ok(Self { subscription, messages })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `messages`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.subscription);
        put_count(out, "messages", SETTLED_MAX, self.messages.len())?;
        for message in &self.messages {
            out.put_u32(message.queue);
            out.put_u64(message.offset);
            out.put_u64(message.delay_ms);
        }
        Ok(())
    }
}

/// A request to dead-letter messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutAway<'a> {
    /// The subscription.
    pub subscription: u32,
    /// The reason.
    pub reason: &'a str,
    /// The messages, by queue and offset.
    pub keys: Vec<(u32, u64)>,
}

impl<'a> PutAway<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let subscription = reader.u32("subscription")?;
        let reason = utf8("reason", reader.blob("reason", REASON_BYTES_MAX)?)?;
        let count = reader.count("messages", SETTLED_MAX, 12)?;
        let mut keys = Vec::with_capacity(count);
        for _ in 0..count {
            keys.push((read_queue(reader)?, reader.u64("offset")?));
        }
        Ok(Self { subscription, reason, keys })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `reason` or `messages`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u32(self.subscription);
        put_blob(out, "reason", REASON_BYTES_MAX, self.reason.as_bytes())?;
        put_count(out, "messages", SETTLED_MAX, self.keys.len())?;
        for (queue, offset) in &self.keys {
            out.put_u32(*queue);
            out.put_u64(*offset);
        }
        Ok(())
    }
}
