//! Messages of QMQ's producers for Python's consumers: text attributes become attributes, and the attribute named
//! `body` becomes the body.

use std::borrow::Cow;

use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::wire::qmq::message::WireMessage;
use delaymq_engine::Payload;

/// The text attribute that QMQ's users keep a body in.
const BODY_KEY: &str = "body";

/// Meta and body of a payload from any producer. An unreadable QMQ payload becomes the body as a whole.
pub(crate) fn parts(payload: &Payload) -> (Cow<'_, [u8]>, Cow<'_, [u8]>) {
    parts_of(payload.is_opaque(), payload.meta(), payload.body())
}

/// Like [`parts`]; a QMQ payload becomes the body as a whole.
pub(crate) fn parts_of<'a>(is_opaque: bool, meta: &'a [u8], body: &'a [u8]) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
    let qmq = (!is_opaque).then(|| WireMessage::read_whole(body).ok()).flatten();
    match qmq.and_then(|message| own(&message)) {
        Some((meta, body)) => (Cow::Owned(meta), Cow::Owned(body)),
        None => (Cow::Borrowed(meta), Cow::Borrowed(body)),
    }
}

fn own(message: &WireMessage<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut attributes: Vec<(String, Vec<u8>)> = Vec::new();
    let mut body = message.body;
    if message.is_opaque() {
        let opaque = message.opaque_body().ok()?;
        attributes.extend(opaque.attributes().map(|(key, value)| (key.to_owned(), value.to_vec())));
        body = opaque.bytes;
    } else {
        for attribute in message.attributes() {
            let (key, value) = attribute.ok()?;
            if key == BODY_KEY {
                body = value.as_bytes();
            } else {
                attributes.push((key.to_owned(), value.as_bytes().to_vec()));
            }
        }
    }
    let tags = message.tags().map(str::to_owned).collect();
    let meta = encode_meta(&Meta { message_id: message.message_id.to_owned(), tags, attributes })?;
    Some((meta, body.to_vec()))
}
