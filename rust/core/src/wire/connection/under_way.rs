//! The requests of one connection that are under way: their number, the number of held ones, and the memory that
//! they hold.

use std::collections::HashMap;

use crate::wire::frame::Header;

/// The approximate memory of a request in addition to its frame.
pub(super) const REQUEST_BYTES: usize = 512;
/// The capacity for requests that is kept when fewer are under way.
const SPARE_REQUESTS: usize = 256;

/// Identifies a request of one connection; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

#[derive(Clone, Copy, Debug)]
struct Open {
    header: Header,
    is_held: bool,
    bytes: usize,
}

/// The requests under way; see the module.
#[derive(Debug, Default)]
pub(in crate::wire) struct UnderWay {
    open: HashMap<RequestId, Open>,
    held_count: usize,
    bytes: usize,
    next_id: u64,
}

impl UnderWay {
    /// Begins a request with a frame of `frame_bytes`. Until it is answered, the bytes of its frame count as held,
    /// whether it keeps the frame or the values read from it.
    pub(in crate::wire) fn begin(&mut self, header: Header, frame_bytes: usize) -> RequestId {
        let id = RequestId(self.next_id);
        self.next_id = self.next_id.saturating_add(1);
        let bytes = frame_bytes.saturating_add(REQUEST_BYTES);
        self.open.insert(id, Open { header, is_held: false, bytes });
        self.bytes = self.bytes.saturating_add(bytes);
        id
    }

    /// A request holds `bytes` more.
    pub(in crate::wire) fn keep(&mut self, id: RequestId, bytes: usize) {
        if let Some(open) = self.open.get_mut(&id) {
            open.bytes = open.bytes.saturating_add(bytes);
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// The header of a request; `None` if it is not under way.
    pub(in crate::wire) fn header(&self, id: RequestId) -> Option<Header> {
        self.open.get(&id).map(|open| open.header)
    }

    /// Ends a request.
    pub(in crate::wire) fn end(&mut self, id: RequestId) {
        if let Some(open) = self.open.remove(&id) {
            self.held_count = self.held_count.saturating_sub(usize::from(open.is_held));
            self.bytes = self.bytes.saturating_sub(open.bytes);
        }
        if self.open.is_empty() && self.open.capacity() > SPARE_REQUESTS {
            // Usually few requests are under way.
            self.open = HashMap::new();
        }
    }

    /// Holds a request; false if the maximum is held.
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

    /// The held requests.
    pub(in crate::wire) fn held(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.open.iter().filter(|(_, open)| open.is_held).map(|(id, _)| *id)
    }

    /// The number of requests.
    pub(in crate::wire) fn count(&self) -> usize {
        self.open.len()
    }

    /// The number of held requests.
    pub(super) fn held_count(&self) -> usize {
        self.held_count
    }

    /// The bytes that they hold.
    pub(in crate::wire) fn bytes(&self) -> usize {
        self.bytes
    }
}
