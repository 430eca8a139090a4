//! Received bytes that were not taken yet. An idle connection keeps no buffer: the buffer is freed whenever all of
//! it was taken, and the next one begins small.

use bytes::buf::Limit;
use bytes::{Buf, BufMut, BytesMut};

use crate::wire::frame::{Frame, HEAD_BYTES, Head};

/// The smallest buffer for one read; it doubles after each read that fills it.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// Received bytes; see the module.
#[derive(Debug)]
pub(in crate::wire) struct Incoming {
    bytes: BytesMut,
    read_bytes: usize,
    /// Bytes of taken frames that share their memory with the waiting bytes.
    taken_bytes: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), read_bytes: READ_BYTES_MIN, taken_bytes: 0 }
    }
}

impl Incoming {
    /// The number of waiting bytes.
    pub(in crate::wire) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True if no byte waits.
    pub(in crate::wire) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The waiting bytes.
    pub(in crate::wire) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes of memory that it holds.
    pub(in crate::wire) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Calls `read` to append at most `room` bytes.
    pub(in crate::wire) fn read_with<T>(
        &mut self,
        room: usize,
        read: impl FnOnce(&mut Limit<&mut BytesMut>) -> T,
    ) -> T {
        let (before, room) = (self.bytes.len(), room.min(self.read_bytes));
        self.bytes.reserve(room);
        let result = read(&mut (&mut self.bytes).limit(room));
        if self.bytes.len().saturating_sub(before) == self.read_bytes {
            self.read_bytes = self.read_bytes.saturating_mul(2).min(READ_BYTES_MAX);
        }
        result
    }

    /// Takes as many of these bytes as `room` allows; returns their number.
    pub(in crate::wire) fn receive(&mut self, room: usize, bytes: &[u8]) -> usize {
        let taken = bytes.get(..room).unwrap_or(bytes);
        let mut rest = taken;
        while !rest.is_empty() {
            rest = self.read_with(rest.len(), |input| {
                let (head, tail) = rest.split_at(input.remaining_mut().min(rest.len()));
                input.put_slice(head);
                tail
            });
        }
        taken.len()
    }

    /// The frame of this head; `None` if it is incomplete.
    pub(in crate::wire) fn take(&mut self, head: Head) -> Option<Frame> {
        if self.bytes.len() < head.frame_bytes {
            return None;
        }
        let mut body = self.bytes.split_to(head.frame_bytes).freeze();
        body.advance(HEAD_BYTES);
        self.taken_bytes = self.taken_bytes.saturating_add(head.frame_bytes);
        if self.bytes.is_empty() {
            self.clear();
        } else if head.frame_bytes > READ_BYTES_MAX {
            self.let_go();
        }
        Some(Frame { header: head.header, body })
    }

    /// Frees the memory of taken frames. Otherwise a few bytes after a large frame would keep all of its memory,
    /// and a small frame all that was read with it.
    pub(in crate::wire) fn let_go(&mut self) {
        if self.taken_bytes > self.bytes.len() {
            self.bytes = BytesMut::from(self.bytes.as_ref());
            self.taken_bytes = 0;
        }
    }

    /// Drops all bytes.
    pub(in crate::wire) fn clear(&mut self) {
        self.bytes = BytesMut::new();
        self.taken_bytes = 0;
    }
}
