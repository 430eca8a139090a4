//! The place of a list of pending messages, as a text that the caller may keep. It names a place in the order and no
//! entry, so it stays valid after a restart and whatever happens to the entries.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 16 | `stream` |
//! | 16 | 8 | `due_ms` |
//! | 24 | 8 | `sequence` |
//! | 32 | 4 | `check`: CRC-32 of bytes 0..32 |
//!
//! As text: `dmqp1-` and the 36 bytes in base64url without padding: 54 ASCII characters.

use bytes::BufMut;

use crate::error::{Error, Result};
use crate::store::names::base64url;
use crate::units::{DueKey, Millis, Sequence};

const CURSOR_BYTES: usize = 36;
const CHECKED_BYTES: usize = 32;
const PREFIX: &str = "dmqp1-";
/// Characters of an argument that an error repeats.
const SHOWN_CHARACTERS: usize = 80;

/// A place in a list of pending messages. The module describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingCursor {
    /// The stream that was listed.
    pub stream: [u8; 16],
    /// All messages up to this key were shown.
    pub key: DueKey,
}

impl PendingCursor {
    /// Returns the cursor as one line of ASCII.
    pub fn to_text(&self) -> String {
        let mut bytes = Vec::with_capacity(CURSOR_BYTES);
        bytes.put_slice(&self.stream);
        bytes.put_u64_le(self.key.due.0);
        bytes.put_u64_le(self.key.sequence.0);
        bytes.put_u32_le(crc32fast::hash(&bytes));
        let mut text = String::from(PREFIX);
        base64url::encode(&bytes, &mut text);
        text
    }

    /// Reads the text of a cursor.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not a cursor. [`Self::check_stream`] then checks that it belongs to this store.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = || refused(text.chars().take(SHOWN_CHARACTERS).collect());
        let bytes = text.strip_prefix(PREFIX).and_then(|digits| base64url::decode(digits, CURSOR_BYTES));
        let bytes = bytes.ok_or_else(refused)?;
        let (stream, rest) = bytes.split_first_chunk::<16>().ok_or_else(refused)?;
        let (due, rest) = rest.split_first_chunk::<8>().ok_or_else(refused)?;
        let (sequence, check) = rest.split_first_chunk::<8>().ok_or_else(refused)?;
        let found = crc32fast::hash(bytes.get(..CHECKED_BYTES).unwrap_or_default());
        if check != found.to_le_bytes() {
            return Err(refused());
        }
        let key = DueKey { due: Millis(u64::from_le_bytes(*due)), sequence: Sequence(u64::from_le_bytes(*sequence)) };
        Ok(Self { stream: *stream, key })
    }

    /// Checks that the cursor belongs to the stream that is listed.
    ///
    /// # Errors
    /// `InvalidArgument` if it belongs to another stream.
    pub fn check_stream(&self, stream: &[u8; 16]) -> Result<()> {
        if self.stream == *stream { Ok(()) } else { Err(refused("one of another store".to_owned())) }
    }
}

fn refused(found: String) -> Error {
    Error::InvalidArgument {
        argument: "after",
        expected: "the cursor of an earlier list of this store".to_owned(),
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_and_no_other_text_is_one() {
        let cursor = PendingCursor {
            stream: [7; 16],
            key: DueKey { due: Millis(1_800_000_000_123), sequence: Sequence(u64::MAX) },
        };
        let text = cursor.to_text();
        assert_eq!(text.len(), 54);
        assert_eq!(PendingCursor::parse(&text), Ok(cursor));
        assert!(cursor.check_stream(&[7; 16]).is_ok());
        assert!(matches!(cursor.check_stream(&[8; 16]), Err(Error::InvalidArgument { argument: "after", .. })));
        for at in 0..text.len() {
            let mut other = text.clone();
            other.replace_range(at..=at, if &text[at..=at] == "A" { "B" } else { "A" });
            let refused = PendingCursor::parse(&other);
            assert!(matches!(refused, Err(Error::InvalidArgument { argument: "after", .. })), "{other}");
        }
        for other in ["", "dmqp1-", &text[..53], "é"] {
            assert!(PendingCursor::parse(other).is_err(), "{other}");
        }
    }
}
