//! `PUBLISH_ON_TERMS` (213), and commands by key: `CANCEL_KEY` (214), `MOVE_KEY` (215), `LOOK_UP_KEY` (243).
//!
//! A publish on terms has the fields of PUBLISH (202), then `count u32` and for each message on terms:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `place`: of the message in its batch, from 0, ascending |
//! | 1 | `asks`: bit 0 it has a key, bit 1 its id identifies repetitions, bit 2 it expires |
//! | 1 | `if_exists`: 0 replace, 1 keep, 2 refuse the batch |
//! | str | `key`, empty if it has none |
//! | 1 | `expires_kind`, only with bit 2: 0 a time after its due time, 1 a time |
//! | 1 | `on_expiry`, only with bit 2: 1 drop, 2 dead letter |
//! | 8 | `expires_ms`, only with bit 2 |
//!
//! The answer is that of PUBLISH. A message that was already stored has its old receipt there.
//!
//! A command by key begins with `subject str | key str`; a move continues with `due_kind u8 | due_ms u64` as in
//! MOVE (212). A cancel and a move end with an `id str` that identifies a repetition; it may be empty. A cancel is
//! answered like CANCEL (203), a move like MOVE, and a look-up as [`super::key_fate`] says.

use bytes::BufMut;

use super::publish::{DueTime, Publish, PublishWriter};
use crate::error::Result;
use crate::record::expire::{Expires, OnExpiry};
use crate::record::limits::{BATCH_MESSAGES_MAX, at_most, check_name};
use crate::record::terms::IfExists;
use crate::units::Millis;
use crate::wire::fields::{put_count, put_text};
use crate::wire::frame::FRAME_BODY_BYTES_MAX;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// Bytes of a count.
const COUNT_BYTES: usize = 4;
/// Bytes of the terms of one message without its key.
const TERMS_BYTES: usize = 8;
const HAS_KEY: u8 = 1;
const DEDUPLICATES: u8 = 2;
const EXPIRES: u8 = 4;

/// The terms of one message of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TermsAsked<'a> {
    /// Its place in the batch.
    pub place: u32,
    /// Its key.
    pub key: Option<&'a str>,
    /// The behaviour if the key is taken.
    pub if_exists: IfExists,
    /// True if its message id identifies repetitions.
    pub deduplicates: bool,
    /// When it expires, and the effect.
    pub expires: Option<(Expires, OnExpiry)>,
}

/// A batch with terms.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishOnTerms<'a> {
    /// The batch.
    pub publish: Publish<'a>,
    /// The terms of the messages that have terms, by place.
    pub terms: Vec<TermsAsked<'a>>,
}

impl<'a> PublishOnTerms<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// As [`Publish::read`]; `Malformed` naming `terms`, `if_exists` or `key`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let publish = Publish::read(reader)?;
        let count = reader.count("terms", BATCH_MESSAGES_MAX, TERMS_BYTES)?;
        let (mut terms, mut next) = (Vec::with_capacity(count), 0);
        for _ in 0..count {
            let asked = read_terms(reader)?;
            if asked.place < next || asked.place as usize >= publish.messages.len() {
                let expected = "the places of messages, ascending";
                return Err(Malformed::Value { field: "terms", expected, found: i64::from(asked.place) });
            }
            next = asked.place.saturating_add(1);
            terms.push(asked);
        }
        Ok(Self { publish, terms })
    }
}

fn read_terms<'a>(reader: &mut Reader<'a>) -> Read<TermsAsked<'a>> {
    let (place, asks, if_exists) = (reader.u32("terms")?, reader.u8("terms")?, reader.u8("if_exists")?);
    if asks == 0 || asks > HAS_KEY | DEDUPLICATES | EXPIRES {
        return Err(Malformed::Value { field: "terms", expected: "1 to 7", found: i64::from(asks) });
    }
    let if_exists = match if_exists {
        0 => IfExists::Replace,
        1 => IfExists::Keep,
        2 => IfExists::Refuse,
        found => {
            return Err(Malformed::Value { field: "if_exists", expected: "0, 1 or 2", found: i64::from(found) });
        }
    };
    let key = reader.text("key")?;
    let has_key = asks & HAS_KEY != 0;
    if !has_key && !key.is_empty() {
        return Err(Malformed::Value { field: "key", expected: "no bytes", found: i64::from(key.len() as u32) });
    }
    let expires = if asks & EXPIRES == 0 { None } else { Some(read_expires(reader)?) };
    let (key, deduplicates) = (has_key.then_some(key), asks & DEDUPLICATES != 0);
    Ok(TermsAsked { place, key, if_exists, deduplicates, expires })
}

fn read_expires(reader: &mut Reader<'_>) -> Read<(Expires, OnExpiry)> {
    let (kind, then, time_ms) = (reader.u8("expires")?, reader.u8("on_expiry")?, reader.u64("expires")?);
    let unknown = || Malformed::Value { field: "on_expiry", expected: "1 or 2", found: i64::from(then) };
    let then = OnExpiry::numbered(then).ok_or_else(unknown)?;
    match kind {
        0 => Ok((Expires::After(time_ms), then)),
        1 => Ok((Expires::At(Millis(time_ms)), then)),
        found => Err(Malformed::Value { field: "expires", expected: "0 or 1", found: i64::from(found) }),
    }
}

/// The terms of a batch, filled by a client.
#[derive(Clone, Debug, Default)]
pub struct TermsWriter {
    terms: Vec<u8>,
    count: usize,
}

impl TermsWriter {
    /// True if it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds the terms of a message that comes after all earlier ones in the batch.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn push(&mut self, asked: &TermsAsked<'_>) -> Result<()> {
        if let Some(key) = asked.key {
            check_name("key", key)?;
        }
        let bit = |is_asked: bool, bit: u8| if is_asked { bit } else { 0 };
        let asks = bit(asked.key.is_some(), HAS_KEY)
            | bit(asked.deduplicates, DEDUPLICATES)
            | bit(asked.expires.is_some(), EXPIRES);
        if asks == 0 {
            return Ok(());
        }
        self.terms.put_u32(asked.place);
        self.terms.put_u8(asks);
        self.terms.put_u8(asked.if_exists as u8);
        put_text(&mut self.terms, "key", asked.key.unwrap_or_default())?;
        if let Some((time, then)) = asked.expires {
            let (kind, time_ms) = match time {
                Expires::After(after_ms) => (0, after_ms),
                Expires::At(time) => (1, time.0),
            };
            self.terms.put_u8(kind);
            self.terms.put_u8(then.number());
            self.terms.put_u64(time_ms);
        }
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `frame`: the batch leaves no room for its terms.
    pub fn put(&self, out: &mut Vec<u8>, batch: &PublishWriter, wants_receipts: bool) -> Result<()> {
        let bytes = batch.bytes().saturating_add(COUNT_BYTES).saturating_add(self.terms.len());
        at_most("frame", FRAME_BODY_BYTES_MAX, bytes)?;
        batch.put(out, wants_receipts)?;
        put_count(out, "terms", BATCH_MESSAGES_MAX, self.count)?;
        out.put_slice(&self.terms);
        Ok(())
    }
}

/// The message of a subject that has a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyAsked<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The key.
    pub key: &'a str,
}

impl<'a> KeyAsked<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// `Malformed` naming `subject` or `key`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, key: reader.text("key")? })
    }

    /// Appends it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `key`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        check_name("subject", self.subject)?;
        check_name("key", self.key)?;
        put_text(out, "subject", self.subject)?;
        put_text(out, "key", self.key)
    }
}

/// Reads the optional id at the end of a command by key.
///
/// # Errors
/// `Malformed` naming `command_id`.
pub(super) fn read_command_id<'a>(reader: &mut Reader<'a>) -> Read<Option<&'a str>> {
    if reader.is_empty() { Ok(None) } else { reader.text("command_id").map(Some) }
}

/// Appends the optional id of a command by key.
///
/// # Errors
/// `InvalidArgument` naming `command_id`.
pub fn put_command_id(out: &mut Vec<u8>, id: Option<&str>) -> Result<()> {
    let Some(id) = id else { return Ok(()) };
    check_name("command_id", id)?;
    put_text(out, "command_id", id)
}

/// Reads a move of the message that has a key.
///
/// # Errors
/// `Malformed` naming `subject`, `key` or `due`.
pub fn read_key_move<'a>(reader: &mut Reader<'a>) -> Read<(KeyAsked<'a>, DueTime)> {
    let asked = KeyAsked::read(reader)?;
    let (kind, due_ms) = (reader.u8("due")?, reader.u64("due")?);
    match kind {
        0 => Ok((asked, DueTime::After(due_ms))),
        1 => Ok((asked, DueTime::At(Millis(due_ms)))),
        found => Err(Malformed::Value { field: "due", expected: "0 or 1", found: i64::from(found) }),
    }
}

/// Appends a move of the message that has a key.
///
/// # Errors
/// As [`KeyAsked::put`].
pub fn put_key_move(out: &mut Vec<u8>, asked: &KeyAsked<'_>, due: DueTime) -> Result<()> {
    asked.put(out)?;
    let (kind, due_ms) = match due {
        DueTime::After(delay_ms) => (0, delay_ms),
        DueTime::At(time) => (1, time.0),
    };
    out.put_u8(kind);
    out.put_u64(due_ms);
    Ok(())
}
