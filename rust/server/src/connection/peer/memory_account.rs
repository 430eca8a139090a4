//! What a connection makes the server keep, on the scales that all of them are weighed on.

use std::rc::{Rc, Weak};

use super::Peer;

/// A change that is not worth a look at the scales.
const CHANGE_BYTES: usize = 4 << 10;

/// Something that a connection makes the server keep for as long as this is there.
pub(crate) struct MemoryReservation {
    peer: Weak<Peer>,
    bytes: usize,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.upgrade() {
            peer.connection.borrow_mut().let_go(self.bytes);
        }
    }
}

impl Peer {
    /// Keeps so many bytes until that is dropped; `None` if there is no room to stay.
    pub(crate) fn reserve_memory(&self, bytes: usize) -> Option<MemoryReservation> {
        let has_room = bytes == 0 || self.state.scales.borrow().has_room_to_stay(self.counted);
        let is_kept = has_room && self.connection.borrow_mut().keep_on(bytes);
        is_kept.then(|| {
            self.account_memory();
            MemoryReservation { peer: Weak::clone(&self.me), bytes }
        })
    }

    /// Puts what it makes the server keep on the scales.
    pub(super) fn account_memory(&self) {
        let bytes = self.connection.borrow().kept_bytes();
        if bytes.abs_diff(self.accounted_bytes.get()) >= CHANGE_BYTES {
            self.state.account_memory(self.counted, self.accounted_bytes.replace(bytes), bytes);
        }
    }

    /// It makes the server keep nothing any more.
    pub(super) fn close_memory_account(&self) {
        self.state.account_memory(self.counted, self.accounted_bytes.replace(0), 0);
    }

    /// Hears its requests, or does not, by what it and all others make the server keep.
    pub(super) fn admit_requests(&self) {
        let mut connection = self.connection.borrow_mut();
        let is_heard = self.state.scales.borrow().hears(self.counted, connection.kept_bytes());
        connection.hear(is_heard, self.state.now());
        if !is_heard {
            self.await_memory();
        }
    }

    /// It is woken once there is room for it on the scales.
    pub(super) fn await_memory(&self) {
        if !self.awaits_memory.replace(true) {
            self.state.awaiting_memory.borrow_mut().push(Weak::clone(&self.me));
        }
    }

    /// There is room on the scales.
    pub(crate) fn memory_was_freed(self: &Rc<Self>) {
        self.awaits_memory.set(false);
        self.wake.notify_one();
    }
}
