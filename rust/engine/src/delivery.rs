//! A message in the hands of a consumer.

use std::sync::Arc;

use delaymq_core::units::{Millis, Sequence};

use crate::mapping::Mapping;

/// Names one delivery of one subscription, to acknowledge it or give it back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeliveryKey {
    /// 0 for the subject itself, 1 for the group's retry subject.
    pub queue: u8,
    /// The pull offset there.
    pub offset: u64,
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
    meta_length: u32,
    length: u32,
}

impl Payload {
    /// `length` bytes from `start` of a mapping, the first `meta_length` of which are meta.
    pub(crate) fn mapped(mapping: Arc<Mapping>, start: usize, meta_length: u32, length: u32) -> Self {
        Self { bytes: Bytes::Mapped { mapping, start }, meta_length, length }
    }

    /// Meta and body copied.
    pub(crate) fn owned(payload: &[u8], meta_length: u32) -> Self {
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        Self { bytes: Bytes::Owned(Arc::from(payload)), meta_length, length }
    }

    /// Meta and body together.
    pub fn all(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped { mapping, start } => {
                mapping.bytes().get(*start..start.saturating_add(self.length as usize)).unwrap_or_default()
            }
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// Message id, tags and attributes, encoded.
    pub fn meta(&self) -> &[u8] {
        self.all().get(..self.meta_length as usize).unwrap_or_default()
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        self.all().get(self.meta_length as usize..).unwrap_or_default()
    }
}
