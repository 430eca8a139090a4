//! SEND (10): messages to store, and a list of those that were not stored.
//!
//! The request is `check i64 | message` back to back. The answer has `str message id | i32 code | str remark` for
//! each message that was not stored; an empty answer means that all were stored.

use bytes::BufMut;

use super::message::WireMessage;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::limits::{BATCH_MESSAGES_MAX, check_body, check_message_id, check_qmq_subject, check_tags};
use crate::wire::fields::put_text;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The command.
pub const SEND: i16 = 10;
/// The least bytes that a message takes in a request, its check included.
const SENT_BYTES_MIN: usize = 33;

/// A message of a request, and the check that its producer computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent<'a> {
    /// The producer's CRC-32, widened to 64 bits.
    pub check: u64,
    /// The message.
    pub message: WireMessage<'a>,
}

/// Reads all messages of a request, before any of them is stored.
///
/// # Errors
/// `Malformed`, naming the field; `TooLarge` naming `messages`.
pub fn read_send(body: &[u8]) -> Read<Vec<Sent<'_>>> {
    let mut reader = Reader::new(body);
    let mut sent = Vec::with_capacity(BATCH_MESSAGES_MAX.min(body.len() / SENT_BYTES_MIN));
    while !reader.is_empty() {
        if sent.len() >= BATCH_MESSAGES_MAX {
            let limit = BATCH_MESSAGES_MAX as u64;
            return Err(Malformed::TooLarge { field: "messages", limit, found: limit.saturating_add(1) });
        }
        let check = reader.u64("check")?;
        sent.push(Sent { check, message: WireMessage::read(&mut reader)? });
    }
    Ok(sent)
}

/// Appends a message, made by [`super::message::put_message`], to the body of a request.
pub fn put_sent(out: &mut Vec<u8>, message: &[u8]) {
    out.put_u64(u64::from(crc32fast::hash(message)));
    out.put_slice(message);
}

impl Sent<'_> {
    /// Checks the message alone. A message that no retry can repair is refused permanently. If its check does not
    /// match, the producer may try again, since the network or the disk damaged it.
    ///
    /// # Errors
    /// The failure that the answer lists.
    pub fn judge(&self) -> std::result::Result<(), Failure> {
        let message = &self.message;
        let judged = check_qmq_subject("subject", message.subject)
            .and_then(|()| check_message_id(message.message_id))
            .and_then(|()| check_tags(message.tags()))
            .and_then(|()| check_body(message.body.len()));
        if let Err(error) = judged {
            return Err(self.failure(SendCode::Refused, &error));
        }
        let found = message.check();
        if u64::from(found) != self.check && !is_on(Planted::SentUnverified) {
            let expected = format!("{:08x}", self.check);
            let error = Error::InvalidArgument { argument: "check", expected, found: format!("{found:08x}") };
            return Err(self.failure(SendCode::StoreError, &error));
        }
        message.check_body().map_err(|malformed| self.failure(SendCode::Refused, &malformed.into()))
    }

    /// The entry for this message in the list of messages that were not stored.
    pub fn failure(&self, code: SendCode, error: &Error) -> Failure {
        Failure::of(self.message.message_id, code, error)
    }
}

impl Failure {
    /// The entry for a message with this id that was not stored.
    pub fn of(message_id: &str, code: SendCode, error: &Error) -> Self {
        Self { message_id: message_id.to_owned(), code, remark: remark_of(error) }
    }
}

/// The text of an error in an answer, cut to the length of a log line.
pub(super) fn remark_of(error: &Error) -> String {
    const REMARK_CHARACTERS_MAX: usize = 512;
    error.to_string().chars().take(REMARK_CHARACTERS_MAX).collect()
}

/// Why a message was not stored. `docs/protocol.md` describes the reaction of a Java producer to each code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendCode {
    /// 1: it can never be stored; a producer fails at once and reports it to its user.
    Refused,
    /// 2: it is stored already; a producer treats this as success.
    Duplicate,
    /// 3: its subject is not served here; a producer tries again.
    NotAssigned,
    /// 4: never sent, since a producer would leave the server permanently.
    ReadOnly,
    /// 5: it is blocked; a producer does not try again.
    Blocked,
    /// 6: storing failed; a producer tries again.
    StoreError,
}

const CODES: [(SendCode, i32); 6] = [
    (SendCode::Refused, 1),
    (SendCode::Duplicate, 2),
    (SendCode::NotAssigned, 3),
    (SendCode::ReadOnly, 4),
    (SendCode::Blocked, 5),
    (SendCode::StoreError, 6),
];

impl SendCode {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        if self == Self::Refused && is_on(Planted::RefusedForNow) {
            return Self::StoreError.number();
        }
        CODES.iter().find(|(code, _)| *code == self).map_or(6, |(_, number)| *number)
    }

    /// The code of a number.
    pub fn of(number: i32) -> Option<Self> {
        CODES.iter().find(|(_, known)| *known == number).map(|(code, _)| *code)
    }
}

/// A message that was not stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its id.
    pub message_id: String,
    /// Why.
    pub code: SendCode,
    /// The reason as text.
    pub remark: String,
}

/// Appends the body of an answer.
///
/// # Errors
/// `TooLarge` naming `message_id` or `remark`.
pub fn put_failures(out: &mut Vec<u8>, failures: &[Failure]) -> Result<()> {
    for failure in failures {
        if failure.code == SendCode::Refused && is_on(Planted::RefusedCalledStored) {
            continue;
        }
        put_text(out, "message_id", &failure.message_id)?;
        out.put_i32(failure.code.number());
        put_text(out, "remark", &failure.remark)?;
    }
    Ok(())
}

/// Reads the body of an answer.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_failures(body: &[u8]) -> Read<Vec<Failure>> {
    let mut reader = Reader::new(body);
    let mut failures = Vec::new();
    while !reader.is_empty() {
        let message_id = reader.text("message_id")?.to_owned();
        let number = reader.i32("send_code")?;
        let expected = "1 to 6";
        let unknown = Malformed::Value { field: "send_code", expected, found: i64::from(number) };
        let code = SendCode::of(number).ok_or(unknown)?;
        failures.push(Failure { message_id, code, remark: reader.text("remark")?.to_owned() });
    }
    Ok(failures)
}
