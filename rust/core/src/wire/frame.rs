//! The frame of every request and answer.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | `total`: bytes that follow it, 20 + body |
//! | 4 | 2 | `header_size`: 18 |
//! | 6 | 4 | `magic`: `0xDEC10ADE` |
//! | 10 | 2 | `code`: the command of a request, the result code of an answer |
//! | 12 | 2 | `version` |
//! | 14 | 4 | `opaque`: identifies the request on its connection; the answer has the same |
//! | 18 | 4 | `flags`: bit 0 (1) answer, bit 1 (2) no answer wanted |
//! | 22 | 2 | `request_code`: in an answer, the command of the request |
//! | 24 | … | body |
//!
//! Integers are big-endian.

use bytes::{BufMut, Bytes};

use super::malformed::{Malformed, Read};
use super::reader::Reader;
use crate::error::Result;
use crate::record::limits::at_most;

/// The magic number of every frame.
pub const MAGIC: u32 = 0xDEC1_0ADE;
/// The largest frame, in bytes, its first field included.
pub const FRAME_BYTES_MAX: usize = 8 << 20;
/// Bytes before the body.
pub const HEAD_BYTES: usize = 24;
/// The largest body, in bytes.
pub const FRAME_BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEAD_BYTES;
/// The bytes of `total`, which does not count itself.
const TOTAL_BYTES: usize = 4;
const HEADER_SIZE: u16 = 18;
/// Flag: this is an answer.
pub const FLAG_ANSWER: i32 = 1;
/// Flag: no answer is wanted.
pub const FLAG_ONE_WAY: i32 = 2;

/// The codes of answers to QMQ requests.
pub mod answer {
    /// It was done.
    pub const SUCCESS: i16 = 0;
    /// The command is unknown.
    pub const UNKNOWN_CODE: i16 = 3;
    /// A pull found no message.
    pub const NO_MESSAGE: i16 = 4;
    /// The request failed, and may be tried again.
    pub const BROKER_ERROR: i16 = 51;
    /// Never sent: a client that reads it leaves the server permanently.
    pub const BROKER_REJECT: i16 = 52;
    /// An argument is refused.
    pub const PARAM_ERROR: i16 = 53;
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The command of a request, the result code of an answer.
    pub code: i16,
    /// The version of the layout of the body.
    pub version: i16,
    /// Identifies the request on its connection.
    pub opaque: i32,
    /// [`FLAG_ANSWER`] and [`FLAG_ONE_WAY`].
    pub flags: i32,
    /// In an answer, the command of the request.
    pub request_code: i16,
}

impl Header {
    /// The header of a request.
    pub const fn request(code: i16, version: i16, opaque: i32) -> Self {
        Self { code, version, opaque, flags: 0, request_code: code }
    }

    /// The header of the answer to this request.
    pub const fn answered(&self, code: i16) -> Self {
        Self { code, version: self.version, opaque: self.opaque, flags: FLAG_ANSWER, request_code: self.code }
    }

    /// True for an answer.
    pub const fn is_answer(&self) -> bool {
        self.flags & FLAG_ANSWER != 0
    }

    /// True if no answer is wanted.
    pub const fn is_one_way(&self) -> bool {
        self.flags & FLAG_ONE_WAY != 0
    }
}

/// A whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// Its body.
    pub body: Bytes,
}

impl Frame {
    /// Bytes of the whole frame.
    pub fn bytes(&self) -> usize {
        HEAD_BYTES.saturating_add(self.body.len())
    }
}

/// A header, and the size of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The header.
    pub header: Header,
    /// Bytes of the whole frame.
    pub frame_bytes: usize,
}

/// Reads the head of the frame at the front of `bytes`; `None` if it is incomplete. Each field is checked as soon
/// as its bytes are there, so that garbage and lengths over the limit are refused before more memory is allocated.
///
/// # Errors
/// `Value` naming `frame`, `header` or `magic`; `TooLarge` naming `frame`.
pub fn read_head(bytes: &[u8]) -> Read<Option<Head>> {
    let mut reader = Reader::new(bytes);
    let Ok(total) = reader.i32("frame") else { return Ok(None) };
    let least = HEAD_BYTES - TOTAL_BYTES;
    let Some(total) = usize::try_from(total).ok().filter(|total| *total >= least) else {
        return Err(Malformed::Value { field: "frame", expected: "a length of 20 or more", found: i64::from(total) });
    };
    let frame_bytes = total.saturating_add(TOTAL_BYTES);
    if frame_bytes > FRAME_BYTES_MAX {
        let (limit, found) = (FRAME_BYTES_MAX as u64, frame_bytes as u64);
        return Err(Malformed::TooLarge { field: "frame", limit, found });
    }
    let Ok(header_size) = reader.u16("header") else { return Ok(None) };
    if header_size != HEADER_SIZE {
        return Err(Malformed::Value { field: "header", expected: "a size of 18", found: i64::from(header_size) });
    }
    let Ok(magic) = reader.u32("magic") else { return Ok(None) };
    if magic != MAGIC {
        return Err(Malformed::Value { field: "magic", expected: "0xdec10ade", found: i64::from(magic) });
    }
    Ok(read_header(&mut reader).ok().map(|header| Head { header, frame_bytes }))
}

fn read_header(reader: &mut Reader<'_>) -> Read<Header> {
    Ok(Header {
        code: reader.i16("code")?,
        version: reader.i16("version")?,
        opaque: reader.i32("opaque")?,
        flags: reader.i32("flags")?,
        request_code: reader.i16("request_code")?,
    })
}

/// Reads one whole frame that is all of `bytes`.
///
/// # Errors
/// As [`read_head`], and `Short` or `LeftOver` naming `frame`.
pub fn read_frame(bytes: &Bytes) -> Read<Frame> {
    let short = |needed| Malformed::Short { field: "frame", needed, left: bytes.len() };
    let head = read_head(bytes)?.ok_or_else(|| short(HEAD_BYTES))?;
    if bytes.len() < head.frame_bytes {
        return Err(short(head.frame_bytes));
    }
    Reader::new(bytes.get(head.frame_bytes..).unwrap_or_default()).finish("frame")?;
    Ok(Frame { header: head.header, body: bytes.slice(HEAD_BYTES..) })
}

/// Appends a frame whose body `fill` appends.
///
/// # Errors
/// The error of `fill`; `TooLarge` naming `frame`. `out` is then unchanged.
pub fn put_frame(out: &mut Vec<u8>, header: Header, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.put_u32(0);
    out.put_u16(HEADER_SIZE);
    out.put_u32(MAGIC);
    out.put_i16(header.code);
    out.put_i16(header.version);
    out.put_i32(header.opaque);
    out.put_i32(header.flags);
    out.put_i16(header.request_code);
    let filled = fill(out).and_then(|()| {
        let bytes = out.len().saturating_sub(start);
        at_most("frame", FRAME_BYTES_MAX, bytes).map(|()| bytes)
    });
    match filled {
        Ok(bytes) => {
            let total = bytes.saturating_sub(TOTAL_BYTES) as u32;
            if let Some(field) = out.get_mut(start..start.saturating_add(TOTAL_BYTES)) {
                field.copy_from_slice(&total.to_be_bytes());
            }
            Ok(())
        }
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(header: Header, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_frame(&mut out, header, |out| {
            out.extend_from_slice(body);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn hostile_heads_are_refused_by_their_first_bytes() {
        let good = framed(Header::request(10, 9, 1), b"body");
        for length in [-1_i32, 0, 19, i32::MIN, 8 << 20, i32::MAX] {
            assert!(read_head(&length.to_be_bytes()).is_err(), "{length}");
        }
        assert_eq!(read_head(&(8_i32 * 1024 * 1024 - 4).to_be_bytes()), Ok(None));
        for (offset, value) in [(5, 19), (6, 0), (9, 0)] {
            let mut bad = good.clone();
            bad[offset] = value;
            assert!(read_head(&bad[..10]).is_err(), "{offset}");
        }
        for cut in 0..HEAD_BYTES {
            assert_eq!(read_head(&good[..cut]), Ok(None), "{cut}");
        }
        assert!(read_frame(&Bytes::from(good[..27].to_vec())).is_err());
        let mut longer = good;
        longer.push(0);
        assert!(matches!(read_frame(&Bytes::from(longer)), Err(Malformed::LeftOver { .. })));
    }

    #[test]
    fn a_frame_over_the_limit_is_not_written() {
        let mut out = b"before".to_vec();
        let fill = |bytes: usize| {
            move |out: &mut Vec<u8>| {
                out.resize(out.len() + bytes, 0);
                Ok(())
            }
        };
        let header = Header::request(10, 9, 1);
        assert!(put_frame(&mut out, header, fill(FRAME_BODY_BYTES_MAX + 1)).is_err());
        assert_eq!(out, b"before");
        assert!(put_frame(&mut out, header, fill(FRAME_BODY_BYTES_MAX)).is_ok());
        assert!(read_head(&out[6..]).unwrap().is_some());
    }

    proptest! {
        #[test]
        fn a_frame_reads_back(
            (code, version, opaque, flags, request_code) in any::<(i16, i16, i32, i32, i16)>(),
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let header = Header { code, version, opaque, flags, request_code };
            let frame = read_frame(&Bytes::from(framed(header, &body))).unwrap();
            prop_assert_eq!(frame, Frame { header, body: Bytes::from(body) });
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_head(&bytes);
            let _ = read_frame(&Bytes::from(bytes));
        }
    }
}
