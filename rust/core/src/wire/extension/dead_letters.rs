//! `DEAD_LETTERS` (226): `str subject | str group | after u64 | count_max u32`, in pieces like the lists of
//! [`super::administration`]; its answer is `next u64 | count u32 | letter*`.
//!
//! | bytes | field of a letter |
//! |---|---|
//! | 8 | `number` |
//! | 8 | `sequence` |
//! | 8 | `died_ms` |
//! | 4 | `attempt` |
//! | 1 | bits: 1 with payload, 2 with damage, 4 the payload is in QMQ's layout |
//! | 8 | `published_ms`; 0 without payload |
//! | blob | `reason` |
//! | blob | `damage`, as text |
//! | 4 | `meta_length` |
//! | blob | payload: meta and body |

use bytes::BufMut;

use super::administration::{GroupName, Listing, ROWS_MAX};
use super::consume::PayloadForm;
use crate::error::Result;
use crate::record::retry::REASON_BYTES_MAX;
use crate::units::{Millis, ReadyNumber, Sequence};
use crate::wire::fields::{put_blob, put_count};
use crate::wire::frame::FRAME_BODY_BYTES_MAX;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::{Reader, utf8};

const DAMAGE_BYTES_MAX: usize = 4_096;
const LETTER_BYTES: usize = 53;
const WITH_PAYLOAD: u8 = 1;
const WITH_DAMAGE: u8 = 2;
const OF_QMQ: u8 = 4;

/// A request for the dead letters of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadLetters<'a> {
    /// The group.
    pub name: GroupName<'a>,
    /// The piece of the list.
    pub listing: Listing,
}

impl<'a> DeadLetters<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { name: GroupName::read(reader)?, listing: Listing::read(reader)? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.name.put(out)?;
        self.listing.put(out);
        Ok(())
    }
}

/// The payload of a dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LetterPayload<'a> {
    /// When the message was received.
    pub published: Millis,
    /// The layout of the payload.
    pub form: PayloadForm,
    /// Bytes of the payload before the body.
    pub meta_length: u32,
    /// Meta and body.
    pub bytes: &'a [u8],
}

/// A dead letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Letter<'a> {
    /// Its number among the dead letters of its group, from 0.
    pub number: ReadyNumber,
    /// The sequence of the message itself.
    pub sequence: Sequence,
    /// When it became a dead letter.
    pub died: Millis,
    /// How often it had been delivered.
    pub attempt: u32,
    /// Why it became a dead letter.
    pub reason: &'a str,
    /// The unreadable part, and why it is unreadable.
    pub damage: Option<&'a str>,
    /// Its payload, if that is readable.
    pub payload: Option<LetterPayload<'a>>,
}

impl<'a> Letter<'a> {
    fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let number = ReadyNumber(reader.u64("number")?);
        let (sequence, died) = (Sequence(reader.u64("sequence")?), Millis(reader.u64("died_ms")?));
        let (attempt, bits) = (reader.u32("attempt")?, reader.u8("bits")?);
        let published = Millis(reader.u64("published_ms")?);
        let reason = utf8("reason", reader.blob("reason", REASON_BYTES_MAX)?)?;
        let damage = utf8("damage", reader.blob("damage", DAMAGE_BYTES_MAX)?)?;
        let meta_length = reader.u32("meta")?;
        let bytes = reader.blob("payload", FRAME_BODY_BYTES_MAX)?;
        if meta_length as usize > bytes.len() {
            let (limit, found) = (bytes.len() as u64, u64::from(meta_length));
            return Err(Malformed::TooLarge { field: "meta", limit, found });
        }
        let form = if bits & OF_QMQ == 0 { PayloadForm::Opaque } else { PayloadForm::Qmq };
        Ok(Self {
            number,
            sequence,
            died,
            attempt,
            reason,
            damage: (bits & WITH_DAMAGE != 0).then_some(damage),
            payload: (bits & WITH_PAYLOAD != 0).then_some(LetterPayload { published, form, meta_length, bytes }),
        })
    }

    fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.number.0);
        out.put_u64(self.sequence.0);
        out.put_u64(self.died.0);
        out.put_u32(self.attempt);
        let form = self.payload.map(|payload| payload.form);
        let mut bits = if form.is_some() { WITH_PAYLOAD } else { 0 };
        bits |= if self.damage.is_some() { WITH_DAMAGE } else { 0 };
        bits |= if form == Some(PayloadForm::Qmq) { OF_QMQ } else { 0 };
        out.put_u8(bits);
        out.put_u64(self.payload.map_or(0, |payload| payload.published.0));
        put_blob(out, "reason", REASON_BYTES_MAX, self.reason.as_bytes())?;
        put_blob(out, "damage", DAMAGE_BYTES_MAX, self.damage.unwrap_or_default().as_bytes())?;
        out.put_u32(self.payload.map_or(0, |payload| payload.meta_length));
        put_blob(out, "payload", FRAME_BODY_BYTES_MAX, self.payload.map_or(&[], |payload| payload.bytes))
    }
}

/// A piece of the list of dead letters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letters<'a> {
    /// The start of the next piece; 0 if there is none.
    pub next: u64,
    /// The letters, the oldest first.
    pub letters: Vec<Letter<'a>>,
}

impl<'a> Letters<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let next = reader.u64("next")?;
        let count = reader.count("letters", ROWS_MAX, LETTER_BYTES)?;
        let mut letters = Vec::with_capacity(count);
        for _ in 0..count {
            letters.push(Letter::read(&mut reader)?);
        }
        reader.finish("letters").map(|()| Self { next, letters })
    }

    /// Appends the answer. If the letters do not fit into a frame, it has fewer letters and a `next`.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.next);
        put_count(out, "letters", ROWS_MAX, self.letters.len())?;
        self.letters.iter().try_for_each(|letter| letter.put(out))
    }
}
