//! A delivery: a message that a consumer has got.

use std::sync::Arc;

use delaymq_core::queues::tags::Filter;
use delaymq_core::units::{Millis, Sequence, SubjectNumber};
use delaymq_core::wire::qmq::filtering::may_pass;

use crate::files::mapping::Mapping;

/// The key of a delivery in its subscription, for acknowledging it or giving it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryKey {
    /// Twice the place of the subject in its subscription; one more for the group's retries of that subject.
    pub queue: u32,
    /// The pull offset in that queue.
    pub offset: u64,
}

/// The bit of a key's number for a retry subject. Offsets never reach it.
const RETRY_BIT: u64 = 1 << 62;

impl DeliveryKey {
    /// The key as one number: of the first subject, it takes 63 bits.
    pub const fn number(self) -> u128 {
        let retry = if self.queue & 1 == 0 { 0 } else { RETRY_BIT };
        ((self.queue >> 1) as u128) << u64::BITS | (self.offset | retry) as u128
    }

    /// The key that a number stands for.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of the number are meant")]
    pub const fn of_number(number: u128) -> Self {
        let (place, low) = ((number >> u64::BITS) as u32, number as u64);
        Self { queue: place << 1 | (low & RETRY_BIT != 0) as u32, offset: low & !RETRY_BIT }
    }
}

/// Deliveries of one subscription with neighbouring offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryRange {
    /// As in [`DeliveryKey`].
    pub queue: u32,
    /// The first offset.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl DeliveryRange {
    /// The offset behind the last.
    pub(crate) const fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    pub(crate) const fn offset(&self, by: u64) -> DeliveryKey {
        DeliveryKey { queue: self.queue, offset: self.first.saturating_add(by) }
    }
}

/// A message that a consumer has got.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// The key of this delivery.
    pub key: DeliveryKey,
    /// The sequence of the message itself; the same in every attempt.
    pub sequence: Sequence,
    /// When this attempt was due.
    pub due: Millis,
    /// When the first attempt was due.
    pub first_due: Millis,
    /// When it was received.
    pub published: Millis,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// True if a consumer may have got it before.
    pub redelivered: bool,
    /// The subject it was published to.
    pub subject: Arc<str>,
    /// Its number, which its receipt says.
    pub subject_number: SubjectNumber,
    /// Meta and body.
    pub payload: Payload,
}

impl Delivered {
    /// Message id, tags and attributes, as `record::message::decode_meta` reads them.
    pub fn meta(&self) -> &[u8] {
        self.payload.meta()
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.payload.body()
    }
}

/// Where a payload's bytes are.
#[derive(Clone, Debug)]
enum Bytes {
    /// In a mapped segment, which stays as long as somebody holds it.
    Mapped { mapping: Arc<Mapping>, start: usize },
    /// In memory of their own.
    Owned(Arc<[u8]>),
}

/// Meta and body of a message, checked. It is cheap to clone, and may be kept for any time; but one from a mapped
/// segment keeps the disk space of that segment while it lives.
#[derive(Clone, Debug)]
pub struct Payload {
    bytes: Bytes,
    form: PayloadForm,
}

/// How a payload is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PayloadForm {
    pub(crate) is_opaque: bool,
    /// Bytes before the body.
    pub(crate) meta_length: u32,
    pub(crate) length: u32,
    /// CRC-32 of all of it, as it is stored.
    pub(crate) check: u32,
}

impl Payload {
    /// Where it lies in a mapping.
    pub(crate) fn mapped(mapping: Arc<Mapping>, start: usize, form: PayloadForm) -> Self {
        Self { bytes: Bytes::Mapped { mapping, start }, form }
    }

    /// Meta and body copied.
    pub(crate) fn owned(payload: &[u8], form: PayloadForm) -> Self {
        Self { bytes: Bytes::Owned(Arc::from(payload)), form }
    }

    /// True for meta and a raw body. False for a message of QMQ as its producer sent it: it has no meta, and all of it
    /// is body.
    pub fn is_opaque(&self) -> bool {
        self.form.is_opaque
    }

    /// CRC-32 of [`Self::all`], as it is stored. For a message of QMQ, the CRC-32 of its producer.
    pub fn check(&self) -> u32 {
        self.form.check
    }

    /// Meta and body together.
    pub fn all(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped { mapping, start } => {
                mapping.bytes().get(*start..start.saturating_add(self.form.length as usize)).unwrap_or_default()
            }
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Message id, tags and attributes, encoded.
    pub fn meta(&self) -> &[u8] {
        self.all().get(..self.form.meta_length as usize).unwrap_or_default()
    }

    /// True if the message passes these filters. A message that cannot be read passes: its consumer judges it.
    pub fn may_pass(&self, filters: &[Filter]) -> bool {
        filters.is_empty() || may_pass(filters, self.is_opaque().then(|| self.meta()), self.all())
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.all().get(self.form.meta_length as usize..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_from_its_number() {
        for key in [(0, 0), (1, 0), (0, 77), (1, 77), (2, 77), (19_999, 77), (19_999, 0)]
            .map(|(queue, offset)| DeliveryKey { queue, offset })
        {
            assert_eq!(DeliveryKey::of_number(key.number()), key);
            assert_eq!(key.number() < 1 << 63, key.queue < 2, "a key of the first subject is short");
        }
    }
}
