//! The answer to `LOOK_UP_KEY` (243): what became of the last message that had a key.
//!
//! It is `fate u8`: 0 pending, 1 dispatched, 3 not found, as in the answer to `LOOK_UP` (240). The receipt of 48 bytes
//! follows 0 and 1.

use bytes::BufMut;

use super::publish::read_receipt;
use crate::store::Receipt;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

const PENDING: u8 = 0;
const DISPATCHED: u8 = 1;
const NOT_FOUND: u8 = 3;

/// The last message that had a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyFate {
    /// It is pending, and has the key.
    Pending(Receipt),
    /// It became ready lately, and no message has the key since.
    Dispatched(Receipt),
    /// No such message is known.
    NotFound,
}

impl KeyFate {
    /// Reads it.
    ///
    /// # Errors
    /// `Malformed` naming `fate` or `receipt`.
    pub fn read(body: &[u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let fate = match reader.u8("fate")? {
            PENDING => Self::Pending(read_receipt(&mut reader, "receipt")?),
            DISPATCHED => Self::Dispatched(read_receipt(&mut reader, "receipt")?),
            NOT_FOUND => Self::NotFound,
            found => return Err(Malformed::Value { field: "fate", expected: "0, 1 or 3", found: i64::from(found) }),
        };
        reader.finish("fate").map(|()| fate)
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (fate, receipt) = match self {
            Self::Pending(receipt) => (PENDING, Some(receipt)),
            Self::Dispatched(receipt) => (DISPATCHED, Some(receipt)),
            Self::NotFound => (NOT_FOUND, None),
        };
        out.put_u8(fate);
        if let Some(receipt) = receipt {
            out.put_slice(&receipt.to_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples::receipt;
    use super::*;

    #[test]
    fn what_is_told_of_a_key_reads_back_and_nothing_else_does() {
        for (told, bytes) in
            [(KeyFate::Pending(receipt(1)), 49), (KeyFate::Dispatched(receipt(2)), 49), (KeyFate::NotFound, 1)]
        {
            let mut out = Vec::new();
            told.put(&mut out);
            assert_eq!((out.len(), KeyFate::read(&out)), (bytes, Ok(told)));
            assert!((0..out.len()).all(|cut| KeyFate::read(&out[..cut]).is_err()));
            out.push(0);
            assert!(KeyFate::read(&out).is_err(), "more than the answer");
            out.pop();
            out[0] = 2;
            assert!(KeyFate::read(&out).is_err(), "a key tells nothing of what was cancelled");
        }
        let mut out = Vec::new();
        KeyFate::Pending(receipt(1)).put(&mut out);
        out[1] = 9;
        assert!(matches!(KeyFate::read(&out), Err(Malformed::Value { field: "receipt", .. })));
    }
}
