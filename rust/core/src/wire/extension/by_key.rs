//! `CANCEL_KEYS` (231) and `MOVE_KEYS` (232): commands for the messages of one subject that have these keys.
//!
//! A cancel is `subject str | count u32 | key str*`. A move is `subject str | count u32`, then for each key:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | `due_kind`: 0 a delay after the server received the command, 1 a time |
//! | 8 | `due_ms` |
//! | str | `key` |
//!
//! Both end with an `id str` that identifies a repetition of the command; it may be empty. A cancel is answered
//! like CANCEL (203), a move like MOVE (212), in the order of the keys.

use bytes::BufMut;

use super::publish::DueTime;
use super::terms::{put_command_id, read_command_id};
use crate::error::Result;
use crate::record::limits::{BATCH_MESSAGES_MAX, check_name};
use crate::units::Millis;
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// Bytes of a key before its text.
const KEY_BYTES: usize = 2;
/// Bytes of a move before the text of its key.
const MOVE_BYTES: usize = 9 + KEY_BYTES;

/// Cancels the messages of a subject that have these keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CancelKeys<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The keys.
    pub keys: Vec<&'a str>,
    /// Identifies a repetition of the command.
    pub id: Option<&'a str>,
}

impl<'a> CancelKeys<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// `Malformed` naming `subject`, `keys` or `command_id`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let subject = reader.text("subject")?;
        let count = reader.count("keys", BATCH_MESSAGES_MAX, KEY_BYTES)?;
        let keys = (0..count).map(|_| reader.text("keys")).collect::<Read<Vec<&str>>>()?;
        Ok(Self { subject, keys, id: read_command_id(reader)? })
    }

    /// Appends it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `key` or `command_id`; `TooLarge` naming `keys`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_head(out, self.subject, self.keys.len())?;
        for key in &self.keys {
            put_key(out, key)?;
        }
        put_command_id(out, self.id)
    }
}

/// Moves the messages of a subject that have these keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveKeys<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The keys, each with the new due time of its message.
    pub moves: Vec<(&'a str, DueTime)>,
    /// Identifies a repetition of the command.
    pub id: Option<&'a str>,
}

impl<'a> MoveKeys<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// `Malformed` naming `subject`, `due`, `keys` or `command_id`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let subject = reader.text("subject")?;
        let count = reader.count("keys", BATCH_MESSAGES_MAX, MOVE_BYTES)?;
        let moves = (0..count).map(|_| read_move(reader)).collect::<Read<Vec<_>>>()?;
        Ok(Self { subject, moves, id: read_command_id(reader)? })
    }

    /// Appends it.
    ///
    /// # Errors
    /// As [`CancelKeys::put`].
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_head(out, self.subject, self.moves.len())?;
        for (key, due) in &self.moves {
            let (kind, due_ms) = match due {
                DueTime::After(delay_ms) => (0, *delay_ms),
                DueTime::At(time) => (1, time.0),
            };
            out.put_u8(kind);
            out.put_u64(due_ms);
            put_key(out, key)?;
        }
        put_command_id(out, self.id)
    }
}

fn read_move<'a>(reader: &mut Reader<'a>) -> Read<(&'a str, DueTime)> {
    let (kind, due_ms) = (reader.u8("due")?, reader.u64("due")?);
    let due = match kind {
        0 => DueTime::After(due_ms),
        1 => DueTime::At(Millis(due_ms)),
        found => return Err(Malformed::Value { field: "due", expected: "0 or 1", found: i64::from(found) }),
    };
    Ok((reader.text("keys")?, due))
}

fn put_head(out: &mut Vec<u8>, subject: &str, count: usize) -> Result<()> {
    check_name("subject", subject)?;
    put_text(out, "subject", subject)?;
    put_count(out, "keys", BATCH_MESSAGES_MAX, count)
}

fn put_key(out: &mut Vec<u8>, key: &str) -> Result<()> {
    check_name("key", key)?;
    put_text(out, "keys", key)
}

#[cfg(test)]
mod tests {
    use super::super::request::OwnRequest;
    use super::super::{CANCEL_KEYS, MOVE_KEYS};
    use super::*;
    use crate::error::Error;

    fn moves() -> MoveKeys<'static> {
        let moves = vec![("17", DueTime::After(3_000)), ("18", DueTime::At(Millis(9)))];
        MoveKeys { subject: "orders", moves, id: None }
    }

    fn written(put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out).unwrap();
        out
    }

    #[test]
    fn what_is_asked_of_many_keys_reads_back() {
        for (keys, id) in [(vec![], None), (vec!["17"], None), (vec!["17", "18", "17"], Some("one"))] {
            let asked = CancelKeys { subject: "orders", keys, id };
            let body = written(|out| asked.put(out));
            assert_eq!(OwnRequest::read(CANCEL_KEYS, &body), Ok(Some(OwnRequest::CancelKeys(asked))));
        }
        for asked in [moves(), MoveKeys { id: Some("one"), ..moves() }, MoveKeys { moves: vec![], ..moves() }] {
            let body = written(|out| asked.put(out));
            assert_eq!(OwnRequest::read(MOVE_KEYS, &body), Ok(Some(OwnRequest::MoveKeys(asked))));
        }
    }

    #[test]
    fn what_is_cut_or_wrong_is_malformed() {
        let body = written(|out| MoveKeys { id: Some("one"), ..moves() }.put(out));
        let without_id = body.len() - 5;
        for cut in (0..body.len()).filter(|cut| *cut != without_id) {
            assert!(OwnRequest::read(MOVE_KEYS, &body[..cut]).is_err(), "{cut}");
        }
        let mut other = body;
        other[8 + 4] = 2;
        assert!(OwnRequest::read(MOVE_KEYS, &other).is_err(), "a kind of time that nobody knows");
        let many = written(|out| put_head(out, "orders", BATCH_MESSAGES_MAX));
        let more = [&many[..8], &10_001_u32.to_be_bytes()].concat();
        for command in [CANCEL_KEYS, MOVE_KEYS] {
            assert!(matches!(OwnRequest::read(command, &more), Err(Malformed::TooLarge { field: "keys", .. })));
            assert!(OwnRequest::read(command, &many).is_err(), "so many keys do not fit into what came");
        }
    }

    #[test]
    fn what_a_server_would_refuse_is_not_written() {
        let refused = |keys: &[&str], subject, id| {
            CancelKeys { subject, keys: keys.to_vec(), id }.put(&mut Vec::new()).unwrap_err()
        };
        for (keys, subject, id, argument) in [
            (["a", "b/"], "orders", None, "key"),
            (["a", "b"], "or ders", None, "subject"),
            (["a", "b"], "orders", Some(""), "command_id"),
        ] {
            let error = refused(&keys, subject, id);
            assert!(matches!(error, Error::InvalidArgument { argument: found, .. } if found == argument), "{error}");
        }
        let error = refused(&vec!["a"; BATCH_MESSAGES_MAX + 1], "orders", None);
        assert!(matches!(error, Error::TooLarge { argument: "keys", limit: 10_000, .. }), "{error}");
    }
}
