//! A message in the hands of a consumer.

use std::sync::Arc;

use delaymq_core::units::{Millis, Sequence, SubjectNumber};

use crate::files::mapping::Mapping;

/// Names one delivery of one subscription, to acknowledge it or give it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryKey {
    /// 0 for the subject itself, 1 for the group's retry subject.
    pub queue: u8,
    /// The pull offset there.
    pub offset: u64,
}

/// The bit of a key's number that says: from the retry subject. Offsets never come near it.
const RETRY_BIT: u64 = 1 << 62;

impl DeliveryKey {
    /// The key as one number.
    pub const fn number(self) -> u64 {
        if self.queue == 0 { self.offset } else { self.offset | RETRY_BIT }
    }

    /// The key that a number stands for.
    pub const fn of_number(number: u64) -> Self {
        Self { queue: (number & RETRY_BIT != 0) as u8, offset: number & !RETRY_BIT }
    }
}

/// Deliveries of one subscription with neighbouring offsets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeliveryRange {
    /// As in [`DeliveryKey`].
    pub queue: u8,
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

/// A message that was handed over.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// Names this delivery.
    pub key: DeliveryKey,
    /// The sequence of the message itself; the same in every attempt.
    pub sequence: Sequence,
    /// When it was due; for a later attempt, when that attempt was.
    pub due: Millis,
    /// When it was due at first; the same in every attempt.
    pub first_due: Millis,
    /// When it was received.
    pub published: Millis,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// True where it may have been handed over before.
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

/// Meta and body of a message, checked. Cheap to clone; may be kept for as long as one likes,
/// though one from a mapped segment keeps that segment's space on disk while it lives.
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

    /// True for meta and raw body. False for a message of QMQ as its producer sent it, which has no
    /// meta and is all body.
    pub fn is_opaque(&self) -> bool {
        self.form.is_opaque
    }

    /// CRC-32 of [`Self::all`], as it is stored: of a message of QMQ its producer's own.
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
        for key in [(0, 0), (1, 0), (0, 77), (1, 77)].map(|(queue, offset)| DeliveryKey { queue, offset }) {
            assert_eq!(DeliveryKey::of_number(key.number()), key);
        }
    }
}
