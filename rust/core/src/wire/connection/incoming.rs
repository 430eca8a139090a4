//! Bytes that a peer sent and nobody took yet. A connection that is silent keeps no buffer: it is let
//! go of whenever all of it was taken, and the next one begins small.

use bytes::buf::Limit;
use bytes::{Buf, BufMut, BytesMut};

use crate::wire::frame::{Frame, HEAD_BYTES, Head};

/// Room that is made for one read: from the least, twice as much after each read that filled it.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(in crate::wire) struct Incoming {
    bytes: BytesMut,
    read_bytes: usize,
    /// Bytes of frames that were taken and share their memory with what waits.
    taken_bytes: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: BytesMut::new(), read_bytes: READ_BYTES_MIN, taken_bytes: 0 }
    }
}

impl Incoming {
    /// How many bytes wait.
    pub(in crate::wire) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True where none waits.
    pub(in crate::wire) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What waits.
    pub(in crate::wire) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many bytes of memory it keeps.
    pub(in crate::wire) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// `read` appends to what it is given, which takes at most `room` bytes.
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

    /// Takes as many of these bytes as `room` allows, and says how many.
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

    /// The frame of this head; `None` while it is not all there.
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

    /// Lets go of the memory of frames that were taken: a few bytes behind a large one would keep all of
    /// it, and a small one all that was read with it.
    pub(in crate::wire) fn let_go(&mut self) {
        if self.taken_bytes > self.bytes.len() {
            self.bytes = BytesMut::from(self.bytes.as_ref());
            self.taken_bytes = 0;
        }
    }

    /// Forgets all of it.
    pub(in crate::wire) fn clear(&mut self) {
        self.bytes = BytesMut::new();
        self.taken_bytes = 0;
    }
}
