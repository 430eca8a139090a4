//! QMQ's message, as it is in a SEND request and in the answer to a PULL.
//!
//! | bytes | field |
//! |---|---|
//! | 1 | `flags`: 1 low reliability, 2 delay, 4 has tags, 8 opaque body |
//! | 8 | `created_ms` |
//! | 8 | `expires_ms`: with the delay flag the due time, else unused |
//! | str | `subject` |
//! | str | `message_id` |
//! | 1, then str each | tag count and tags; only with the flag |
//! | 4 | bytes of the body |
//! | … | body |
//!
//! A `str` is a signed 16-bit length and UTF-8. The body is text attributes back to back, each `str key | str
//! value`. With the opaque flag, which is delaymq's own, it is `attribute count i16 | (str key | value length i32 |
//! value)* | any bytes`.

use bytes::BufMut;

use crate::error::Result;
use crate::record::limits::{BODY_BYTES_MAX, check_body, check_tags};
use crate::units::Millis;
use crate::wire::fields::put_text;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// Flag: `expires_ms` is the due time.
pub const FLAG_DELAY: u8 = 2;
/// Flag: tags precede the body.
pub const FLAG_TAGS: u8 = 4;
/// Flag: the body is attributes, then any bytes.
pub const FLAG_OPAQUE_BODY: u8 = 8;

/// The first version in which clients read tags in a message.
pub const TAGS_VERSION: i16 = 8;

/// The attribute that Java consumers require: the time when the message was made.
pub const CREATED_KEY: &str = "qmq_createTime";

/// A message, borrowed from the bytes it was read from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireMessage<'a> {
    /// The flags.
    pub flags: u8,
    /// When the producer made it.
    pub created_ms: i64,
    /// With [`FLAG_DELAY`], its due time.
    pub expires_ms: i64,
    /// The subject.
    pub subject: &'a str,
    /// The producer's id for it.
    pub message_id: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// All its bytes, from the flags to the end of the body. Its check covers these bytes.
    pub whole: &'a [u8],
    tag_count: u8,
    /// From the tag count to the last tag; empty without the flag.
    tag_bytes: &'a [u8],
}

impl<'a> WireMessage<'a> {
    /// Reads the next message.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let start = reader.rest();
        let flags = reader.u8("flags")?;
        let created_ms = reader.i64("created_ms")?;
        let expires_ms = reader.i64("expires_ms")?;
        let subject = reader.text("subject")?;
        let message_id = reader.text("message_id")?;
        let before_tags = reader.rest();
        let mut tag_count = 0;
        if flags & FLAG_TAGS != 0 {
            tag_count = tag_count_of(reader)?;
            for _ in 0..tag_count {
                reader.text("tags")?;
            }
        }
        let tag_bytes = before(before_tags, reader.rest());
        let length = reader.i32("body")?;
        let expected = "a length from 0 on";
        let count = usize::try_from(length).map_err(|_| Malformed::Value {
            field: "body",
            expected,
            found: i64::from(length),
        })?;
        let body = reader.bytes("body", count)?;
        let whole = before(start, reader.rest());
        Ok(Self { flags, created_ms, expires_ms, subject, message_id, body, whole, tag_count, tag_bytes })
    }

    /// Reads the message that is all of `bytes`.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read_whole(bytes: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        let message = Self::read(&mut reader)?;
        reader.finish("message").map(|()| message)
    }

    /// The tags.
    pub fn tags(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        let mut reader = Reader::new(self.tag_bytes.get(1..).unwrap_or_default());
        (0..self.tag_count).map_while(move |_| reader.text("tags").ok())
    }

    /// The due time; `None` without the delay flag: the message is due now. A time before 1970 counts as past.
    pub fn due(&self) -> Option<Millis> {
        (self.flags & FLAG_DELAY != 0).then(|| Millis(u64::try_from(self.expires_ms).unwrap_or(0)))
    }

    /// True if the body is attributes, then any bytes.
    pub const fn is_opaque(&self) -> bool {
        self.flags & FLAG_OPAQUE_BODY != 0
    }

    /// CRC-32 over [`Self::whole`], as it precedes the message in a SEND request.
    pub fn check(&self) -> u32 {
        crc32fast::hash(self.whole)
    }

    /// The text attributes of the body. They end at the first malformed one.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { reader: Reader::new(if self.is_opaque() { &[] } else { self.body }) }
    }

    /// The value of the first text attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&'a str> {
        self.attributes().map_while(Read::ok).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The attributes and bytes of an opaque body.
    ///
    /// # Errors
    /// `Malformed`, naming `attributes`; also if the body is not opaque.
    pub fn opaque_body(&self) -> Read<OpaqueBody<'a>> {
        if !self.is_opaque() {
            let found = i64::from(self.flags);
            return Err(Malformed::Value { field: "flags", expected: "the flag of an opaque body", found });
        }
        OpaqueBody::read(self.body)
    }

    /// Checks that the body matches the flags.
    ///
    /// # Errors
    /// `Malformed`, naming `attributes`.
    pub fn check_body(&self) -> Read<()> {
        if self.is_opaque() {
            return self.opaque_body().map(drop);
        }
        self.attributes().try_for_each(|attribute| attribute.map(drop))
    }

    /// Appends the message as a client of `version` reads it: before version 8 without its tags, but with the tag
    /// flag, as QMQ does.
    pub fn put_for(&self, out: &mut Vec<u8>, version: i16) {
        if version >= TAGS_VERSION || self.tag_bytes.is_empty() {
            out.put_slice(self.whole);
            return;
        }
        let after = self.body.len().saturating_add(4);
        let body_at = self.whole.len().saturating_sub(after);
        let tags_at = body_at.saturating_sub(self.tag_bytes.len());
        out.put_slice(self.whole.get(..tags_at).unwrap_or_default());
        out.put_slice(self.whole.get(body_at..).unwrap_or_default());
    }
}

/// The bytes read between two states of one reader.
fn before<'a>(start: &'a [u8], rest: &'a [u8]) -> &'a [u8] {
    start.get(..start.len().saturating_sub(rest.len())).unwrap_or_default()
}

fn tag_count_of(reader: &mut Reader<'_>) -> Read<u8> {
    let count = reader.i8("tags")?;
    let expected = "a count from 0 to 127";
    u8::try_from(count).map_err(|_| Malformed::Value { field: "tags", expected, found: i64::from(count) })
}

/// Text attributes, read one by one; after a malformed one there are no more.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Read<(&'a str, &'a str)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let key = self.reader.text("attributes");
        let pair = key.and_then(|key| Ok((key, self.reader.text("attributes")?)));
        if pair.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(pair)
    }
}

/// The body of a message with the opaque flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpaqueBody<'a> {
    count: u16,
    attributes: &'a [u8],
    /// The bytes after the attributes.
    pub bytes: &'a [u8],
}

impl<'a> OpaqueBody<'a> {
    fn read(body: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let count = reader.i16("attributes")?;
        let expected = "a count from 0 on";
        let count = u16::try_from(count).map_err(|_| Malformed::Value {
            field: "attributes",
            expected,
            found: i64::from(count),
        })?;
        let start = reader.rest();
        for _ in 0..count {
            next_attribute(&mut reader)?;
        }
        Ok(Self { count, attributes: before(start, reader.rest()), bytes: reader.rest() })
    }

    /// The attributes, in the order given.
    pub fn attributes(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut reader = Reader::new(self.attributes);
        (0..self.count).map_while(move |_| next_attribute(&mut reader).ok())
    }
}

fn next_attribute<'a>(reader: &mut Reader<'a>) -> Read<(&'a str, &'a [u8])> {
    let key = reader.text("attributes")?;
    Ok((key, reader.blob("attributes", BODY_BYTES_MAX)?))
}

/// A message to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageParts<'a> {
    /// When the producer made it.
    pub created: Millis,
    /// When it is due; `None` for now.
    pub due: Option<Millis>,
    /// The subject.
    pub subject: &'a str,
    /// The producer's id for it.
    pub message_id: &'a str,
    /// The tags.
    pub tags: &'a [&'a str],
    /// True if `body` was made by [`put_opaque_body`].
    pub is_opaque: bool,
    /// The body, made by [`put_attribute`] or [`put_opaque_body`].
    pub body: &'a [u8],
}

/// Appends a message. Without a due time, the due field has the creation time, as the Java client writes it.
///
/// # Errors
/// `TooLarge` or `InvalidArgument` naming `subject`, `message_id`, `tags` or `body`.
pub fn put_message(out: &mut Vec<u8>, parts: &MessageParts<'_>) -> Result<()> {
    check_tags(parts.tags.iter().copied())?;
    check_body(parts.body.len())?;
    put_stored(out, parts)
}

/// Like [`put_message`], for a stored message: in another layout it may be larger than the limit of new messages.
///
/// # Errors
/// `TooLarge` naming `subject`, `message_id` or `tags`.
pub(super) fn put_stored(out: &mut Vec<u8>, parts: &MessageParts<'_>) -> Result<()> {
    crate::record::limits::at_most("tags", usize::from(i8::MAX.unsigned_abs()), parts.tags.len())?;
    let mut flags = if parts.due.is_some() { FLAG_DELAY } else { 0 };
    flags |= if parts.tags.is_empty() { 0 } else { FLAG_TAGS };
    flags |= if parts.is_opaque { FLAG_OPAQUE_BODY } else { 0 };
    out.put_u8(flags);
    out.put_u64(parts.created.0);
    out.put_u64(parts.due.unwrap_or(parts.created).0);
    put_text(out, "subject", parts.subject)?;
    put_text(out, "message_id", parts.message_id)?;
    if !parts.tags.is_empty() {
        out.put_u8(parts.tags.len() as u8);
        for tag in parts.tags {
            put_text(out, "tags", tag)?;
        }
    }
    out.put_u32(parts.body.len() as u32);
    out.put_slice(parts.body);
    Ok(())
}

/// Appends a text attribute to a body.
///
/// # Errors
/// `TooLarge` naming `attributes`.
pub fn put_attribute(body: &mut Vec<u8>, key: &str, value: &str) -> Result<()> {
    put_text(body, "attributes", key)?;
    put_text(body, "attributes", value)
}

/// Appends an opaque body: attributes, then any bytes.
///
/// # Errors
/// `TooLarge` naming `attributes`.
pub fn put_opaque_body(body: &mut Vec<u8>, attributes: &[(&str, &[u8])], bytes: &[u8]) -> Result<()> {
    crate::record::limits::at_most("attributes", i16::MAX.unsigned_abs().into(), attributes.len())?;
    body.put_u16(attributes.len() as u16);
    for (key, value) in attributes {
        put_text(body, "attributes", key)?;
        crate::wire::fields::put_blob(body, "attributes", BODY_BYTES_MAX, value)?;
    }
    body.put_slice(bytes);
    Ok(())
}
