//! The requests of one connection that are under way: how many there are, how many of them are held, and
//! how many bytes they make the server keep.

use std::collections::HashMap;

use crate::wire::frame::Header;

/// What a request makes the server keep beside its frame, about.
pub(super) const REQUEST_BYTES: usize = 512;
/// Requests that room is kept for while there is none.
const SPARE_REQUESTS: usize = 256;

/// Names a request of one connection; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

#[derive(Clone, Copy, Debug)]
struct Open {
    header: Header,
    is_held: bool,
    bytes: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::wire) struct UnderWay {
    open: HashMap<RequestId, Open>,
    held_count: usize,
    bytes: usize,
    next_id: u64,
}

impl UnderWay {
    /// A request with a frame of so many bytes begins. Until it is answered it counts as if it kept its
    /// frame, whether it does or keeps what it read there.
    pub(in crate::wire) fn begin(&mut self, header: Header, frame_bytes: usize) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        let bytes = frame_bytes.saturating_add(REQUEST_BYTES);
        self.open.insert(id, Open { header, is_held: false, bytes });
        self.bytes = self.bytes.saturating_add(bytes);
        id
    }

    /// A request makes the server keep so many bytes more.
    pub(in crate::wire) fn keep(&mut self, id: RequestId, bytes: usize) {
        if let Some(open) = self.open.get_mut(&id) {
            open.bytes = open.bytes.saturating_add(bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// What a request asked for; `None` where it is not under way.
    pub(in crate::wire) fn header(&self, id: RequestId) -> Option<Header> {
        self.open.get(&id).map(|open| open.header)
    }

    /// A request is under way no longer.
    pub(in crate::wire) fn end(&mut self, id: RequestId) {
        if let Some(open) = self.open.remove(&id) {
            self.held_count = self.held_count.saturating_sub(usize::from(open.is_held));
            self.bytes = self.bytes.saturating_sub(open.bytes);
        }
        if self.open.is_empty() && self.open.capacity() > SPARE_REQUESTS {
            // Most of the time few are under way.
            self.open = HashMap::new();
        }
    }

    /// Sets a request aside; false where as many are held as may be.
    pub(in crate::wire) fn hold(&mut self, id: RequestId, held_max: usize) -> bool {
        match self.open.get_mut(&id) {
            Some(open) if open.is_held => true,
            Some(open) if self.held_count < held_max => {
                open.is_held = true;
                self.held_count = self.held_count.saturating_add(1);
                true
            }
            _ => false,
        }
    }

    /// Those that are held.
    pub(in crate::wire) fn held(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.open.iter().filter(|(_, open)| open.is_held).map(|(id, _)| *id)
    }

    /// How many there are.
    pub(in crate::wire) fn count(&self) -> usize {
        self.open.len()
    }

    /// How many of them are held.
    pub(super) fn held_count(&self) -> usize {
        self.held_count
    }

    /// How many bytes they make the server keep.
    pub(in crate::wire) fn bytes(&self) -> usize {
        self.bytes
    }
}
