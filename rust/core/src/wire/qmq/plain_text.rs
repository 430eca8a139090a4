//! Converts a message of delaymq for QMQ clients, which read only text attributes.
//!
//! Attributes keep their names. The body becomes the attribute `body` if it is text, else `body.base64`. A value
//! too long for one attribute is split into parts `name#part0`, `name#part1`, …, as QMQ's clients split and join
//! long texts. The name of an attribute that is not text also gets `.base64` appended.

use super::message::{CREATED_KEY, MessageParts, WireMessage, put_attribute, put_stored};
use crate::error::{Error, Result};
use crate::record::meta::MetaView;
use crate::units::Millis;

/// The attribute that holds the body.
pub const BODY_KEY: &str = "body";
/// The suffix of the name of a value that is not text.
pub const BASE64_SUFFIX: &str = ".base64";
/// The attribute of QMQ with the number of earlier tries.
const TIMES_KEY: &str = "qmq_times";
/// The letters of one part, as QMQ's clients split texts.
const PART_LETTERS: usize = 8_192;
/// A text with more bytes than this is split: QMQ reads lengths as signed 16-bit numbers.
const WHOLE_BYTES_MAX: usize = 8_192;

/// The fields of a stored message, in addition to meta and body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    /// The subject.
    pub subject: &'a str,
    /// Its id if the producer gave none: the text of its receipt.
    pub receipt: &'a str,
    /// When it was received.
    pub published: Millis,
    /// When it was due.
    pub due: Millis,
    /// The number of this delivery, from 1.
    pub attempt: u32,
}

/// Appends an opaque message in QMQ's layout.
///
/// # Errors
/// `TooLarge` or `InvalidArgument` naming the part that does not fit into a QMQ message.
pub fn put_plain_text(out: &mut Vec<u8>, stored: &Stored<'_>, meta: &MetaView<'_>, body: &[u8]) -> Result<()> {
    let text = text_of(stored, meta.attributes(), body)?;
    let tags: Vec<&str> = meta.tags().collect();
    let message_id = if meta.message_id().is_empty() { stored.receipt } else { meta.message_id() };
    put_stored(out, &parts_of(stored, message_id, &tags, &text))
}

/// Converts a message in QMQ's layout with an opaque body to text attributes, and appends it.
///
/// # Errors
/// As [`put_plain_text`]; `InvalidArgument` naming `message` if its body does not match its flags.
pub fn put_opaque_as_text(out: &mut Vec<u8>, stored: &Stored<'_>, message: &WireMessage<'_>) -> Result<()> {
    let body = message.opaque_body().map_err(|malformed| Error::InvalidArgument {
        argument: "message",
        expected: "attributes and a body".to_owned(),
        found: malformed.to_string(),
    })?;
    let published = Millis(u64::try_from(message.created_ms).unwrap_or(0));
    let stored = Stored { subject: message.subject, published, ..*stored };
    let text = text_of(&stored, body.attributes(), body.bytes)?;
    let tags: Vec<&str> = message.tags().collect();
    put_stored(out, &parts_of(&stored, message.message_id, &tags, &text))
}

fn text_of<'a>(
    stored: &Stored<'_>,
    attributes: impl Iterator<Item = (&'a str, &'a [u8])>,
    body: &[u8],
) -> Result<Vec<u8>> {
    let mut text = Vec::with_capacity(body.len().saturating_add(256));
    put_attribute(&mut text, CREATED_KEY, &stored.published.to_string())?;
    if stored.attempt > 1 {
        put_attribute(&mut text, TIMES_KEY, &stored.attempt.to_string())?;
    }
    // Users cannot set attributes that QMQ reserves.
    for (key, value) in attributes.filter(|(key, _)| *key != CREATED_KEY && *key != TIMES_KEY) {
        put_value(&mut text, key, value)?;
    }
    put_value(&mut text, BODY_KEY, body)?;
    Ok(text)
}

fn parts_of<'a>(stored: &Stored<'a>, message_id: &'a str, tags: &'a [&'a str], body: &'a [u8]) -> MessageParts<'a> {
    MessageParts {
        created: stored.published,
        due: Some(stored.due).filter(|due| *due > stored.published),
        subject: stored.subject,
        message_id,
        tags,
        is_opaque: false,
        body,
    }
}

fn put_value(text: &mut Vec<u8>, key: &str, value: &[u8]) -> Result<()> {
    match std::str::from_utf8(value) {
        Ok(value) => put_long(text, key, value),
        Err(_) => put_long(text, &format!("{key}{BASE64_SUFFIX}"), &base64(value)),
    }
}

fn put_long(text: &mut Vec<u8>, key: &str, value: &str) -> Result<()> {
    if value.len() <= WHOLE_BYTES_MAX {
        return put_attribute(text, key, value);
    }
    let mut rest = value;
    let mut part = 0_usize;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(PART_LETTERS).map_or(rest.len(), |(at, _)| at);
        let (head, tail) = rest.split_at(end);
        put_attribute(text, &format!("{key}#part{part}"), head)?;
        rest = tail;
        part = part.saturating_add(1);
    }
    Ok(())
}

/// Base64 with padding, as Java's decoder reads it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
        let bits = bits << (8 * (3_usize.saturating_sub(chunk.len())));
        for (place, shift) in [18_u32, 12, 6, 0].into_iter().enumerate() {
            let letter = LETTERS.get((bits >> shift) as usize & 63).copied().unwrap_or_default();
            text.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::message::{Meta, encode_meta};
    use crate::wire::qmq::message::put_opaque_body;

    const STORED: Stored<'_> =
        Stored { subject: "orders", receipt: "dmq1-abc", published: Millis(1_000), due: Millis(9_000), attempt: 1 };

    fn told(stored: &Stored<'_>, meta: &Meta, body: &[u8]) -> Vec<u8> {
        let encoded = encode_meta(meta).unwrap();
        let mut out = Vec::new();
        put_plain_text(&mut out, stored, &MetaView::read(&encoded).unwrap(), body).unwrap();
        out
    }

    fn joined(message: &WireMessage<'_>, key: &str) -> String {
        (0..).map_while(|part| message.attribute(&format!("{key}#part{part}"))).collect()
    }

    #[test]
    fn a_java_consumer_finds_what_it_needs() {
        let meta = Meta {
            message_id: "order-17".to_owned(),
            tags: vec!["vip".to_owned()],
            attributes: vec![("trace".to_owned(), b"7".to_vec()), (CREATED_KEY.to_owned(), b"0".to_vec())],
        };
        let bytes = told(&STORED, &meta, b"42");
        let message = WireMessage::read_whole(&bytes).unwrap();
        assert_eq!((message.subject, message.message_id), ("orders", "order-17"));
        assert_eq!((message.tags().collect::<Vec<_>>(), message.due()), (vec!["vip"], Some(Millis(9_000))));
        assert_eq!((message.attribute(CREATED_KEY), message.attribute("trace")), (Some("1000"), Some("7")));
        assert_eq!((message.attribute(BODY_KEY), message.attribute(TIMES_KEY)), (Some("42"), None));
        message.check_body().unwrap();
    }

    #[test]
    fn a_message_without_an_id_has_its_receipt_and_says_that_it_comes_again() {
        let bytes = told(&Stored { attempt: 3, due: Millis(1_000), ..STORED }, &Meta::default(), b"");
        let message = WireMessage::read_whole(&bytes).unwrap();
        assert_eq!((message.message_id, message.due()), ("dmq1-abc", None));
        assert_eq!((message.attribute(TIMES_KEY), message.attribute(BODY_KEY)), (Some("3"), Some("")));
    }

    #[test]
    fn an_opaque_body_in_the_layout_of_qmq_is_told_as_text_too() {
        let mut body = Vec::new();
        put_opaque_body(&mut body, &[("trace", b"7"), (CREATED_KEY, b"0")], b"\xff\xfe").unwrap();
        let parts = MessageParts {
            created: Millis(500),
            due: None,
            subject: "orders",
            message_id: "m",
            tags: &["vip"],
            is_opaque: true,
            body: &body,
        };
        let (mut sent, mut told) = (Vec::new(), Vec::new());
        put_stored(&mut sent, &parts).unwrap();
        put_opaque_as_text(&mut told, &STORED, &WireMessage::read_whole(&sent).unwrap()).unwrap();
        let message = WireMessage::read_whole(&told).unwrap();
        assert!(!message.is_opaque());
        assert_eq!((message.message_id, message.created_ms), ("m", 500));
        assert_eq!((message.attribute(CREATED_KEY), message.attribute("trace")), (Some("500"), Some("7")));
        assert_eq!((message.attribute("body.base64"), message.tags().next()), (Some("//4="), Some("vip")));
        // A body that does not match its flags cannot be converted.
        let mut broken = Vec::new();
        put_stored(&mut broken, &MessageParts { body: b"\x00", ..parts }).unwrap();
        let refused = put_opaque_as_text(&mut told, &STORED, &WireMessage::read_whole(&broken).unwrap());
        assert!(matches!(refused, Err(Error::InvalidArgument { argument: "message", .. })));
    }

    #[test]
    fn bytes_that_are_no_text_are_told_in_letters() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        let meta = Meta { attributes: vec![("k".to_owned(), vec![0xff])], ..Meta::default() };
        let bytes = told(&STORED, &meta, b"\xff\xfe");
        let message = WireMessage::read_whole(&bytes).unwrap();
        assert_eq!((message.attribute("k.base64"), message.attribute("body.base64")), (Some("/w=="), Some("//4=")));
        assert_eq!(message.attribute(BODY_KEY), None);
    }

    #[test]
    fn the_largest_body_is_told_however_much_longer_it_becomes() {
        let body = vec![0xff; crate::record::limits::BODY_BYTES_MAX];
        let bytes = told(&STORED, &Meta::default(), &body);
        assert!(bytes.len() > body.len() && bytes.len() < crate::wire::frame::FRAME_BODY_BYTES_MAX);
        assert!(WireMessage::read_whole(&bytes).unwrap().check_body().is_ok());
    }

    #[test]
    fn long_texts_are_cut_between_letters_and_join_again() {
        let long = "ä".repeat(20_000);
        let bytes = told(&STORED, &Meta::default(), long.as_bytes());
        let message = WireMessage::read_whole(&bytes).unwrap();
        assert_eq!(joined(&message, BODY_KEY), long);
        assert!(message.attributes().all(|pair| pair.unwrap().1.len() <= 2 * PART_LETTERS));
        let bytes = told(&STORED, &Meta::default(), &vec![0xff; 1 << 20]);
        let message = WireMessage::read_whole(&bytes).unwrap();
        assert_eq!(joined(&message, "body.base64"), base64(&vec![0xff; 1 << 20]));
    }
}
