//! ACK (12): a range of pull offsets that a consumer has finished, or a heartbeat.
//!
//! `str subject | str group | str consumer | first i64 | last i64`, from version 8 on `broadcast i8`. The range
//! includes its last offset; a range that ends before it begins acknowledges nothing. With an offset below 0 the
//! request is only a heartbeat of the consumer. The answer has no body.

use bytes::BufMut;

use super::message::TAGS_VERSION;
use super::pull::ConsumerName;
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::units::PullOffset;
use crate::wire::malformed::Read;
use crate::wire::reader::Reader;

/// The command.
pub const ACK: i16 = 12;

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckRequest<'a> {
    /// The consumer.
    pub name: ConsumerName<'a>,
    /// The first and last finished pull offset, as the client sent them; `None` for a heartbeat.
    pub offsets: Option<(PullOffset, PullOffset)>,
    /// True if each consumer receives every message.
    pub is_broadcast: bool,
}

/// Reads a request of this version.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_ack(body: &[u8], version: i16) -> Read<AckRequest<'_>> {
    let mut reader = Reader::new(body);
    let name = ConsumerName::read(&mut reader)?;
    let (first, last) = (reader.i64("first")?, reader.i64("last")?);
    let is_broadcast = version >= TAGS_VERSION && reader.u8("broadcast")? != 0;
    reader.finish("ack")?;
    let offset = |number: i64| u64::try_from(number).ok().map(PullOffset);
    let offsets = offset(first).zip(offset(last));
    let offsets =
        offsets.or_else(|| is_on(Planted::HeartbeatAcknowledges).then_some((PullOffset(0), PullOffset(u64::MAX))));
    Ok(AckRequest { name, offsets, is_broadcast })
}

/// Appends a request of this version.
///
/// # Errors
/// `TooLarge` naming the field.
pub fn put_ack(out: &mut Vec<u8>, request: &AckRequest<'_>, version: i16) -> Result<()> {
    request.name.put(out)?;
    if let Some((first, last)) = request.offsets {
        out.put_u64(first.0);
        out.put_u64(last.0);
    } else {
        out.put_i64(-1);
        out.put_i64(-1);
    }
    if version >= TAGS_VERSION {
        out.put_u8(u8::from(request.is_broadcast));
    }
    Ok(())
}
