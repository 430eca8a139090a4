//! What a connection makes the server keep, on the scales that all of them are weighed on.

use std::rc::{Rc, Weak};

use super::Peer;

/// A change that is not worth a look at the scales.
const CHANGE_BYTES: usize = 4 << 10;

/// Something that a connection makes the server keep for as long as this is there.
pub(crate) struct Kept {
    peer: Weak<Peer>,
    bytes: usize,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(peer) = self.peer.upgrade() {
            peer.connection.borrow_mut().let_go(self.bytes);
        }
    }
}

impl Peer {
    /// Keeps so many bytes until that is dropped; `None` where there is no room to stay.
    pub(crate) fn keep_on(&self, bytes: usize) -> Option<Kept> {
        let has_room = bytes == 0 || self.hub.scales.borrow().has_room_to_stay(self.counted);
        let is_kept = has_room && self.connection.borrow_mut().keep_on(bytes);
        is_kept.then(|| {
            self.weigh();
            Kept { peer: Weak::clone(&self.me), bytes }
        })
    }

    /// Puts what it makes the server keep on the scales.
    pub(super) fn weigh(&self) {
        let bytes = self.connection.borrow().kept_bytes();
        if bytes.abs_diff(self.weighed.get()) >= CHANGE_BYTES {
            self.hub.weigh(self.counted, self.weighed.replace(bytes), bytes);
        }
    }

    /// It makes the server keep nothing any more.
    pub(super) fn leave_scales(&self) {
        self.hub.weigh(self.counted, self.weighed.replace(0), 0);
    }

    /// Hears its requests, or does not, by what it and all others make the server keep.
    pub(super) fn hear(&self) {
        let mut connection = self.connection.borrow_mut();
        let is_heard = self.hub.scales.borrow().hears(self.counted, connection.kept_bytes());
        connection.hear(is_heard, self.hub.now());
        if !is_heard {
            self.listen_for_room();
        }
    }

    /// It is woken once there is room for it on the scales.
    pub(super) fn listen_for_room(&self) {
        if !self.is_listening.replace(true) {
            self.hub.unheard.borrow_mut().push(Weak::clone(&self.me));
        }
    }

    /// There is room on the scales.
    pub(crate) fn heard(self: &Rc<Self>) {
        self.is_listening.set(false);
        self.wake.notify_one();
    }
}
