//! Whole frames from bytes that come in pieces of any size.

use super::frame::{FRAME_BYTES_MAX, HELLO_FRAME_BYTES_MAX, PeerFrame, read_frame, read_length};
use crate::wire::malformed::{Malformed, Read};

/// An empty buffer that is larger than this is given back.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The bytes of one connection that are not read yet. Memory follows the bytes that have come, and not the length that a
/// frame claims.
#[derive(Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Bytes at the front of the buffer that are read.
    read: usize,
    frame_bytes_max: usize,
    /// Where a frame begins is unknown after the first malformed one, so nothing is read after it.
    fault: Option<Malformed>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: Vec::new(), read: 0, frame_bytes_max: HELLO_FRAME_BYTES_MAX, fault: None }
    }
}

impl Decoder {
    /// Allows frames up to [`FRAME_BYTES_MAX`], once the other node is known. Before, they are limited to
    /// [`HELLO_FRAME_BYTES_MAX`].
    pub fn admit(&mut self) {
        self.frame_bytes_max = FRAME_BYTES_MAX;
    }

    /// Takes the bytes that have come.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.fault.is_some() {
            return;
        }
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// `Malformed`, naming the field; the same one from then on.
    pub fn next_frame(&mut self) -> Read<Option<PeerFrame>> {
        match self.fault.clone().map_or_else(|| self.read_one(), Err) {
            Err(fault) => {
                (self.buffer, self.read, self.fault) = (Vec::new(), 0, Some(fault.clone()));
                Err(fault)
            }
            found => found,
        }
    }

    /// The memory that it holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    fn read_one(&mut self) -> Read<Option<PeerFrame>> {
        let rest = self.buffer.get(self.read..).unwrap_or_default();
        let Some(length) = read_length(rest, self.frame_bytes_max)? else { return Ok(None) };
        let Some(whole) = rest.get(..length) else { return Ok(None) };
        let frame = read_frame(whole)?;
        self.read = self.read.saturating_add(length);
        if self.read == self.buffer.len() {
            self.buffer.clear();
            self.read = 0;
            if self.buffer.capacity() > KEPT_BYTES_MAX {
                self.buffer = Vec::new();
            }
        }
        Ok(Some(frame))
    }
}
