//! The frame of everything that one node sends to another.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `length`: bytes of the whole frame |
//! | 4 | 1 | `kind` |
//! | 5 | 4 | `head_check`: CRC-32 of the five bytes before |
//! | 9 | … | fields of the kind |
//! | `length` - 4 | 4 | `check`: CRC-32 of all bytes before |
//!
//! Integers are big-endian. The head has a check of its own, because a damaged length would otherwise be believed until
//! so many bytes have come. All versions of the protocol have this frame.

use bytes::BufMut;

use super::hello::{Greeted, Hello, Refusal, read_hello};
use super::message::{is_message, kind_of, put_fields, read_message};
use crate::error::Result;
use crate::message_log::SEGMENT_BYTES_MAX;
use crate::record::limits::at_most;
use crate::replication::Message;
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The largest frame, in bytes: room for one batch of the largest segment.
pub const FRAME_BYTES_MAX: usize = SEGMENT_BYTES_MAX as usize;
/// The largest frame before both nodes have said hello, in bytes.
pub const HELLO_FRAME_BYTES_MAX: usize = 4_096;

/// Bytes before the fields.
pub(super) const HEAD_BYTES: usize = 9;
const LENGTH_BYTES: usize = 4;
/// Bytes of the head that its check covers.
const HEAD_CHECKED_BYTES: usize = 5;
pub(super) const CHECK_BYTES: usize = 4;
const FRAME_BYTES_MIN: usize = HEAD_BYTES + CHECK_BYTES;

const HELLO: u8 = 1;
const REFUSAL: u8 = 2;
const BEGIN: u8 = 3;

/// A whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerFrame {
    /// The hello of the sender.
    Hello(Hello),
    /// A hello in another version of the protocol, of which only the version is read.
    OtherVersion(u16),
    /// The sender ends the connection.
    Refusal(Refusal),
    /// The node that connected takes the other's hello, and sends messages from now on.
    Begin,
    /// A message.
    Message(Message),
}

impl PeerFrame {
    /// Appends the frame.
    ///
    /// # Errors
    /// `TooLarge` naming an address, `others`, `history`, `batches` or `frame`. `out` is then unchanged.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Hello(hello) => put_frame(out, HELLO, |out| hello.put(out)),
            Self::OtherVersion(version) => put_frame(out, HELLO, |out| {
                Hello::put_version(out, *version);
                Ok(())
            }),
            Self::Refusal(refusal) => put_frame(out, REFUSAL, |out| {
                refusal.put(out);
                Ok(())
            }),
            Self::Begin => put_frame(out, BEGIN, |_| Ok(())),
            Self::Message(message) => put_message(out, message),
        }
    }
}

/// Appends the frame of a message.
///
/// # Errors
/// As [`PeerFrame::put`].
pub fn put_message(out: &mut Vec<u8>, message: &Message) -> Result<()> {
    put_frame(out, kind_of(message), |out| put_fields(out, message))
}

fn put_frame(out: &mut Vec<u8>, kind: u8, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.put_bytes(0, HEAD_BYTES);
    let filled = fill(out).and_then(|()| {
        let bytes = out.len().saturating_sub(start).saturating_add(CHECK_BYTES);
        at_most("frame", FRAME_BYTES_MAX, bytes).map(|()| bytes)
    });
    let bytes = filled.inspect_err(|_| out.truncate(start))?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    head.put_u32(bytes as u32);
    head.put_u8(kind);
    head.put_u32(crc32fast::hash(&head));
    if let Some(place) = out.get_mut(start..start.saturating_add(HEAD_BYTES)) {
        place.copy_from_slice(&head);
    }
    let check = crc32fast::hash(out.get(start..).unwrap_or_default());
    out.put_u32(check);
    Ok(())
}

/// The length of the frame at the front of `bytes`; `None` if its head is incomplete.
///
/// # Errors
/// `Value` naming `head_check` or `frame`; `TooLarge` naming `frame` if it has more than `limit` bytes.
pub(super) fn read_length(bytes: &[u8], limit: usize) -> Read<Option<usize>> {
    let Some(head) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
    check("head_check", head, HEAD_CHECKED_BYTES)?;
    let length = Reader::new(head).u32("frame")?;
    let bytes = length as usize;
    if bytes < FRAME_BYTES_MIN {
        let expected = "a length of 13 or more";
        return Err(Malformed::Value { field: "frame", expected, found: i64::from(length) });
    }
    if bytes > limit {
        return Err(Malformed::TooLarge { field: "frame", limit: limit as u64, found: u64::from(length) });
    }
    Ok(Some(bytes))
}

/// Reads the frame that is all of `bytes`, of which [`read_length`] has read the head.
///
/// # Errors
/// `Malformed`, naming the field.
pub(super) fn read_frame(bytes: &[u8]) -> Read<PeerFrame> {
    check("check", bytes, bytes.len().saturating_sub(CHECK_BYTES))?;
    let kind = Reader::new(bytes.get(LENGTH_BYTES..).unwrap_or_default()).u8("kind")?;
    let fields = bytes.get(HEAD_BYTES..bytes.len().saturating_sub(CHECK_BYTES)).unwrap_or_default();
    let mut reader = Reader::new(fields);
    let frame = match kind {
        HELLO => match read_hello(&mut reader)? {
            Greeted::Here(hello) => PeerFrame::Hello(hello),
            // Later versions may have more fields.
            Greeted::Other(version) => return Ok(PeerFrame::OtherVersion(version)),
        },
        REFUSAL => PeerFrame::Refusal(Refusal::read(&mut reader)?),
        BEGIN => PeerFrame::Begin,
        _ if is_message(kind) => PeerFrame::Message(read_message(kind, &mut reader)?),
        _ => return Err(Malformed::Value { field: "kind", expected: "a kind of frame", found: i64::from(kind) }),
    };
    reader.finish("frame").map(|()| frame)
}

/// Checks that the CRC-32 of the first `covered` bytes follows them.
fn check(field: &'static str, bytes: &[u8], covered: usize) -> Read<()> {
    let (checked, rest) = bytes.split_at_checked(covered).unwrap_or_default();
    let found = Reader::new(rest).u32(field)?;
    if crc32fast::hash(checked) == found {
        return Ok(());
    }
    Err(Malformed::Value { field, expected: "the CRC-32 of the bytes before", found: i64::from(found) })
}
