//! Messages that a server delivered, and that wait for the consumer.

use std::sync::Arc;

use bytes::Bytes;
use delaymq_core::store::Receipt;
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::client::delivery_keys;
use delaymq_core::wire::extension::consume::{Deliver, Delivered, PayloadForm};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};

/// A delivered message. Its bytes are those of the frame, without a copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Settles it; see [`delivery_keys`].
    pub key: u128,
    /// The subject.
    pub subject: Arc<str>,
    /// The layout of the payload.
    pub form: PayloadForm,
    /// Tags and attributes, encoded.
    pub meta: Bytes,
    /// The body.
    pub body: Bytes,
    /// When it was due.
    pub due: Millis,
    /// When it was received.
    pub published: Millis,
    /// The number of this delivery, from 1.
    pub attempt: u32,
    /// True if it may have been delivered before.
    pub redelivered: bool,
    /// Its sequence.
    pub sequence: Sequence,
    /// Its first due time.
    pub first_due: Millis,
    /// The receipt of its publish.
    pub receipt: Receipt,
}

/// The messages of one delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arrivals {
    /// The number of their subscription.
    pub(super) number: u32,
    /// The trusted clock when they were sent.
    pub(super) now: Millis,
    /// The messages, in order.
    pub(super) messages: Vec<Arrival>,
}

impl Arrivals {
    /// Reads a delivery; receipts are of `stream`.
    ///
    /// # Errors
    /// The bytes are no delivery, or a payload is not what was stored.
    pub(super) fn read(stream: [u8; 16], frame: &Bytes) -> Result<Self, RemoteError> {
        let deliver = Deliver::read(frame).map_err(|malformed| RemoteError::from(&malformed))?;
        let mut subject: Arc<str> = Arc::from("");
        let mut messages = Vec::with_capacity(deliver.messages.len());
        for message in &deliver.messages {
            // Neighbours mostly have the same subject.
            if *message.subject != *subject {
                subject = Arc::from(message.subject);
            }
            messages.push(arrival(deliver.subscription, stream, &subject, frame, message)?);
        }
        Ok(Self { number: deliver.subscription, now: deliver.now, messages })
    }
}

fn arrival(
    number: u32,
    stream: [u8; 16],
    subject: &Arc<str>,
    frame: &Bytes,
    message: &Delivered<'_>,
) -> Result<Arrival, RemoteError> {
    let refused = |words| RemoteError::new(ErrorCode::Malformed, words);
    let key = delivery_keys::key(number, message).ok_or_else(|| refused("offset: expected less than 2^44"))?;
    if !message.is_whole() {
        return Err(refused("check: the payload of a delivery is not what was stored"));
    }
    let (meta, body) = message.parts();
    Ok(Arrival {
        key,
        subject: Arc::clone(subject),
        form: message.form,
        meta: frame.slice_ref(meta),
        body: frame.slice_ref(body),
        due: message.due,
        published: message.published,
        attempt: message.attempt,
        redelivered: message.redelivered,
        sequence: message.sequence,
        first_due: message.first_due,
        receipt: message.receipt(stream),
    })
}
