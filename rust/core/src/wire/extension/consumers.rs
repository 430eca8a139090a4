//! The consumers of a group: CONSUMERS (229), in pieces like the lists of [`super::administration`], and
//! `END_CONSUMER` (230).
//!
//! | command | its body | its answer |
//! |---|---|---|
//! | CONSUMERS | `str subject | str group | after u64 | count_max u32` | `next u64 | count u32 | row*` |
//! | `END_CONSUMER` | `str subject | str group | str consumer` | `held u64` |
//!
//! | bytes | field of a consumer |
//! |---|---|
//! | 4 | `number` |
//! | str each | `name`, `subject` |
//! | 8 | `in_flight` |
//! | 1 | bits: 1 named by a client, 2 a broadcast consumer |

use bytes::BufMut;

use super::administration::{GroupName, Listed, Listing};
use crate::error::Result;
use crate::store::ConsumerListed;
use crate::units::ConsumerNumber;
use crate::wire::fields::put_text;
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// Bytes of a consumer without its names.
const CONSUMER_BYTES: usize = 17;
const IS_LASTING: u8 = 1;
const IS_BROADCAST: u8 = 2;

/// A request for the consumers of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumers<'a> {
    /// The group.
    pub name: GroupName<'a>,
    /// The piece of the list.
    pub listing: Listing,
}

impl<'a> Consumers<'a> {
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

impl Listed<ConsumerListed> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        Self::read_with(body, CONSUMER_BYTES, |reader| {
            let number = ConsumerNumber(reader.u32("number")?);
            let (name, subject) = (reader.text("name")?.to_owned(), reader.text("subject")?.to_owned());
            let (in_flight, bits) = (reader.u64("in_flight")?, reader.u8("bits")?);
            let (is_lasting, is_broadcast) = (bits & IS_LASTING != 0, bits & IS_BROADCAST != 0);
            Ok(ConsumerListed { number, name, subject, in_flight, is_lasting, is_broadcast })
        })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.put_with(out, |out, consumer| {
            out.put_u32(consumer.number.0);
            put_text(out, "name", &consumer.name)?;
            put_text(out, "subject", &consumer.subject)?;
            out.put_u64(consumer.in_flight);
            let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
            out.put_u8(bit(consumer.is_lasting, IS_LASTING) | bit(consumer.is_broadcast, IS_BROADCAST));
            Ok(())
        })
    }
}
