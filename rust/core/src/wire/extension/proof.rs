//! What the receipt of a message says that its delivery does not say already: `epoch u32 | subject u32
//! | check (5 bytes)`. With it a consumer has the receipt itself, by which the message is named to
//! everybody else.

use bytes::BufMut;

use crate::store::Receipt;
use crate::units::{Epoch, SubjectNumber};
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// What the receipt of a message says that its delivery does not say already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proof {
    /// The epoch in which it was stored.
    pub epoch: Epoch,
    /// Its subject's number.
    pub subject: SubjectNumber,
    /// Proves that the stream gave the receipt out; 40 bits.
    pub check: u64,
}

impl Proof {
    /// That of a receipt.
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
