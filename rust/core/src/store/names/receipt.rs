//! The receipt, which a producer keeps to cancel a message later. It contains everything that a cancel needs to
//! decide, so that a cancel reads nothing from disk.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 1 | version: 1 |
//! | 1 | 16 | `stream` |
//! | 17 | 4 | `epoch` |
//! | 21 | 8 | `sequence` |
//! | 29 | 6 | `due_ms` |
//! | 35 | 4 | `subject` |
//! | 39 | 4 | `size`: bytes of the body; `0xFFFF_FFFF` if unknown |
//! | 43 | 5 | `check`: low 40 bits of SipHash-2-4 over bytes 0..43, keyed by the epoch's nonce |
//!
//! As text: `dmq1-` and the 48 bytes in base64url without padding: 69 ASCII characters.

use bytes::BufMut;

use super::base64url;
use super::siphash::siphash_2_4;
use crate::error::{Error, Result};
use crate::units::{DueKey, Epoch, Millis, Sequence, SubjectNumber};

/// Bytes of a receipt.
pub const RECEIPT_BYTES: usize = 48;
/// The size in a receipt that was made from the entry of a pending message, without reading the size of its body.
/// This receipt is as valid as any other.
pub const SIZE_UNKNOWN: u32 = u32::MAX;
const CHECKED_BYTES: usize = 43;
const VERSION: u8 = 1;
const PREFIX: &str = "dmq1-";

/// Names one stored message permanently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Receipt {
    /// The stream that holds the message.
    pub stream: [u8; 16],
    /// The epoch in which it was stored.
    pub epoch: Epoch,
    /// Its sequence and due time.
    pub key: DueKey,
    /// Its subject's number.
    pub subject: SubjectNumber,
    /// Bytes of its body, or [`SIZE_UNKNOWN`].
    pub size: u32,
    /// Proves that this stream issued the receipt.
    pub check: u64,
}

impl Receipt {
    /// Makes a receipt, with its check under the nonce of its epoch.
    pub fn new(
        stream: [u8; 16],
        epoch: Epoch,
        key: DueKey,
        subject: SubjectNumber,
        size: u32,
        nonce: &[u8; 16],
    ) -> Self {
        let mut receipt = Self { stream, epoch, key, subject, size, check: 0 };
        receipt.check = receipt.check_under(nonce);
        receipt
    }

    /// True if the check matches the nonce of the epoch.
    pub fn is_genuine(&self, nonce: &[u8; 16]) -> bool {
        self.check == self.check_under(nonce)
    }

    fn check_under(&self, nonce: &[u8; 16]) -> u64 {
        siphash_2_4(nonce, self.to_bytes().get(..CHECKED_BYTES).unwrap_or_default()) & 0xFF_FFFF_FFFF
    }

    /// Bytes of its body, if known.
    pub fn known_size(&self) -> Option<u32> {
        (self.size != SIZE_UNKNOWN).then_some(self.size)
    }

    /// The receipt's bytes; see the module's table.
    pub fn to_bytes(&self) -> [u8; RECEIPT_BYTES] {
        let mut bytes = [0; RECEIPT_BYTES];
        let mut room = bytes.as_mut_slice();
        room.put_u8(VERSION);
        room.put_slice(&self.stream);
        room.put_u32_le(self.epoch.0);
        room.put_u64_le(self.key.sequence.0);
        room.put_uint_le(self.key.due.0, 6);
        room.put_u32_le(self.subject.0);
        room.put_u32_le(self.size);
        room.put_uint_le(self.check, 5);
        bytes
    }

    /// Reads a receipt's bytes; `None` if they are not a receipt.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECEIPT_BYTES] = bytes.try_into().ok()?;
        let [version, rest @ ..] = bytes;
        let (stream, rest) = rest.split_first_chunk::<16>()?;
        let (epoch, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, rest) = rest.split_first_chunk::<8>()?;
        let (due, rest) = rest.split_first_chunk::<6>()?;
        let (subject, rest) = rest.split_first_chunk::<4>()?;
        let (size, check) = rest.split_first_chunk::<4>()?;
        (*version == VERSION).then_some(Self {
            stream: *stream,
            epoch: Epoch(u32::from_le_bytes(*epoch)),
            key: DueKey { due: Millis(widened(due)), sequence: Sequence(u64::from_le_bytes(*sequence)) },
            subject: SubjectNumber(u32::from_le_bytes(*subject)),
            size: u32::from_le_bytes(*size),
            check: widened(check),
        })
    }

    /// The receipt as one line of ASCII, which users can keep in a database.
    pub fn to_text(&self) -> String {
        let mut text = String::from(PREFIX);
        base64url::encode(&self.to_bytes(), &mut text);
        text
    }

    /// Reads the text of a receipt.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is not a receipt. This function does not check that this store issued the
    /// receipt.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = || Error::InvalidArgument {
            argument: "receipt",
            expected: "the text of a receipt".to_owned(),
            found: text.chars().take(80).collect(),
        };
        let bytes = text.strip_prefix(PREFIX).and_then(|digits| base64url::decode(digits, RECEIPT_BYTES));
        bytes.and_then(|bytes| Self::from_bytes(&bytes)).ok_or_else(refused)
    }
}

fn widened(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        let key = DueKey { due: Millis(1_800_000_000_123), sequence: Sequence(987_654_321_012) };
        Receipt::new([0xAB; 16], Epoch(7), key, SubjectNumber(50), 4096, &[3; 16])
    }

    #[test]
    fn a_receipt_survives_its_text() {
        let text = receipt().to_text();
        assert_eq!(text.len(), 69);
        assert!(text.is_ascii());
        let read = Receipt::parse(&text).unwrap();
        assert_eq!(read, receipt());
        assert!(read.is_genuine(&[3; 16]));
        assert!(!read.is_genuine(&[4; 16]));
    }

    #[test]
    fn a_changed_field_is_not_genuine() {
        let mut changed = receipt();
        changed.key.sequence = Sequence(1);
        assert!(!changed.is_genuine(&[3; 16]));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for text in ["", "dmq1-", "dmq1-AAAA", "dmq2-", "é"] {
            assert!(matches!(Receipt::parse(text), Err(Error::InvalidArgument { argument: "receipt", .. })), "{text}");
        }
        let mut text = receipt().to_text();
        text.replace_range(6..7, "*");
        assert!(Receipt::parse(&text).is_err());
    }
}
