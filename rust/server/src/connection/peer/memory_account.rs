//! Memory accounting: what a connection makes the server keep, within the limits for each address and for all.

use std::rc::{Rc, Weak};

use super::Peer;

/// A smaller change is not accounted.
const CHANGE_BYTES: usize = 4 << 10;

/// Memory that a connection reserves for as long as this lives.
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
    /// Reserves so many bytes until the result is dropped; `None` if there is no room for something lasting.
    pub(crate) fn reserve_memory(&self, bytes: usize) -> Option<MemoryReservation> {
        let has_room = bytes == 0 || self.state.scales.borrow().has_room_to_stay(self.counted);
        let is_kept = has_room && self.connection.borrow_mut().keep_on(bytes);
        is_kept.then(|| {
            self.account_memory();
            MemoryReservation { peer: Weak::clone(&self.me), bytes }
        })
    }

    /// Accounts the bytes that this connection makes the server keep.
    pub(super) fn account_memory(&self) {
        let bytes = self.connection.borrow().kept_bytes();
        if bytes.abs_diff(self.accounted_bytes.get()) >= CHANGE_BYTES {
            self.state.account_memory(self.counted, self.accounted_bytes.replace(bytes), bytes);
        }
    }

    /// The connection keeps nothing any more.
    pub(super) fn close_memory_account(&self) {
        self.state.account_memory(self.counted, self.accounted_bytes.replace(0), 0);
    }

    /// Serves the connection's requests, or pauses them, by the memory that it and all others use.
    pub(super) fn admit_requests(&self) {
        let mut connection = self.connection.borrow_mut();
        let is_heard = self.state.scales.borrow().hears(self.counted, connection.kept_bytes());
        connection.hear(is_heard, self.state.now());
        if !is_heard {
            self.await_memory();
        }
    }

    /// The connection is woken once there is memory.
    pub(super) fn await_memory(&self) {
        if !self.awaits_memory.replace(true) {
            self.state.awaiting_memory.borrow_mut().push(Weak::clone(&self.me));
        }
    }

    /// There is memory again.
    pub(crate) fn memory_was_freed(self: &Rc<Self>) {
        self.awaits_memory.set(false);
        self.wake.notify_one();
    }
}
