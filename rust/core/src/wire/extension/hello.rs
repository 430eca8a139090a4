//! HELLO (200) and PING (201).
//!
//! A hello is `version_min i16 | version_max i16 | str client | blob token`; its answer:
//!
//! | bytes | field |
//! |---|---|
//! | 2 | `version`: the highest version that both sides support |
//! | str | `server`: its release |
//! | 16 | `stream`: identifies the history of messages |
//! | 4 | `frame_bytes_max` |
//! | 4 | `messages_max` of a batch |
//! | 4 | `body_bytes_max` of a message |
//! | 4 | `in_flight_max` of a subscription |
//! | 8 | `now_ms`: the trusted clock |
//! | 8 | `delay_ms_max`: the longest delay that is accepted |
//!
//! A ping has any bytes, at most 1,024; its answer has the same bytes.

use bytes::BufMut;

use crate::error::Result;
use crate::record::limits::at_most;
use crate::units::Millis;
use crate::wire::fields::{put_blob, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 1_024;
/// The longest ping, in bytes.
pub const PING_BYTES_MAX: usize = 1_024;

/// A client's hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello<'a> {
    /// The earliest version of these commands that the client supports.
    pub version_min: i16,
    /// The latest version that it supports.
    pub version_max: i16,
    /// The client's name and release, for logs.
    pub client: &'a str,
    /// The token; empty if none is required.
    pub token: &'a [u8],
}

impl<'a> Hello<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self {
            version_min: reader.i16("version_min")?,
            version_max: reader.i16("version_max")?,
            client: reader.text("client")?,
            token: reader.blob("token", TOKEN_BYTES_MAX)?,
        })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `client` or `token`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_i16(self.version_min);
        out.put_i16(self.version_max);
        put_text(out, "client", self.client)?;
        put_blob(out, "token", TOKEN_BYTES_MAX, self.token)
    }

    /// The latest version that both sides support, if there is one.
    pub fn version_with(&self, served_min: i16, served_max: i16) -> Option<i16> {
        let version = self.version_max.min(served_max);
        (version >= self.version_min.max(served_min)).then_some(version)
    }
}

/// The server's answer to a hello.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The version that both sides use.
    pub version: i16,
    /// The server's release.
    pub server: String,
    /// Identifies the history of messages.
    pub stream: [u8; 16],
    /// The largest frame, in bytes.
    pub frame_bytes_max: u32,
    /// The most messages of a batch.
    pub messages_max: u32,
    /// The largest body, in bytes.
    pub body_bytes_max: u32,
    /// The most messages that a subscription may hold.
    pub in_flight_max: u32,
    /// The server's trusted clock.
    pub now: Millis,
    /// The longest accepted delay.
    pub delay_ms_max: u64,
}

impl Welcome {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let welcome = Self {
            version: reader.i16("version")?,
            server: reader.text("server")?.to_owned(),
            stream: reader.array("stream")?,
            frame_bytes_max: reader.u32("frame_bytes_max")?,
            messages_max: reader.u32("messages_max")?,
            body_bytes_max: reader.u32("body_bytes_max")?,
            in_flight_max: reader.u32("in_flight_max")?,
            now: Millis(reader.u64("now_ms")?),
            delay_ms_max: reader.u64("delay_ms_max")?,
        };
        reader.finish("welcome").map(|()| welcome)
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming `server`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_i16(self.version);
        put_text(out, "server", &self.server)?;
        out.put_slice(&self.stream);
        out.put_u32(self.frame_bytes_max);
        out.put_u32(self.messages_max);
        out.put_u32(self.body_bytes_max);
        out.put_u32(self.in_flight_max);
        out.put_u64(self.now.0);
        out.put_u64(self.delay_ms_max);
        Ok(())
    }
}

/// Reads a ping, or its answer.
///
/// # Errors
/// `TooLarge` naming `ping`.
pub fn read_ping<'a>(reader: &mut Reader<'a>) -> Read<&'a [u8]> {
    let found = reader.rest().len();
    if found > PING_BYTES_MAX {
        return Err(Malformed::TooLarge { field: "ping", limit: PING_BYTES_MAX as u64, found: found as u64 });
    }
    reader.bytes("ping", found)
}

/// Appends a ping, or its answer.
///
/// # Errors
/// `TooLarge` naming `ping`.
pub fn put_ping(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    at_most("ping", PING_BYTES_MAX, bytes.len())?;
    out.put_slice(bytes);
    Ok(())
}
