//! The part of a message's receipt that is not in other fields of its delivery: `epoch u32 | subject u32 | check (5
//! bytes)`. With it a consumer has the whole receipt, by which other commands name the message.

use bytes::BufMut;

use crate::store::Receipt;
use crate::units::{Epoch, SubjectNumber};
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// The part of a message's receipt that is not in other fields of its delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The epoch in which it was stored.
    pub epoch: Epoch,
    /// Its subject's number.
    pub subject: SubjectNumber,
    /// Proves that the stream issued the receipt; 40 bits.
    pub check: u64,
}

impl Proof {
    /// The proof in a receipt.
    pub const fn of(receipt: &Receipt) -> Self {
        Self { epoch: receipt.epoch, subject: receipt.subject, check: receipt.check }
    }

    /// Reads it.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        let (epoch, subject) = (Epoch(reader.u32("epoch")?), SubjectNumber(reader.u32("subject")?));
        let check = (u64::from(reader.u8("check")?) << 32) | u64::from(reader.u32("check")?);
        Ok(Self { epoch, subject, check })
    }

    /// Appends it.
    pub fn put(self, out: &mut Vec<u8>) {
        out.put_u32(self.epoch.0);
        out.put_u32(self.subject.0);
        out.put_u8((self.check >> 32) as u8);
        out.put_u32(self.check as u32);
    }
}
