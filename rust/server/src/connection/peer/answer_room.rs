//! Room for answers while a peer does not read: messages and lists are gathered only if there is room for them. A pull
//! without room is parked and tried again. A list waits for its turn.

use std::cell::RefCell;
use std::collections::VecDeque;

use delaymq_core::wire::frame::answer;
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore, SemaphorePermit};

use super::Peer;
use crate::qmq::pull::PendingPull;

/// Parked pulls that are tried again in one turn: each may take the room of those behind it.
const PULLS_AT_ONCE: usize = 16;

/// Subscriptions of a connection that may pull on a thread at the same time: each keeps what it pulled until that is
/// sent.
const PULLING_MAX: usize = 4;

/// See the module.
pub(super) struct Answering {
    parked: RefCell<VecDeque<PendingPull>>,
    /// Lists are made one at a time, since a list is in memory before it is sent.
    lists: Mutex<()>,
    /// Permits for subscriptions that pull.
    pull_permits: Semaphore,
    /// There is room, or the peer reads no more.
    changed: Notify,
}

impl Default for Answering {
    fn default() -> Self {
        let pull_permits = Semaphore::new(PULLING_MAX);
        Self { parked: RefCell::default(), lists: Mutex::default(), pull_permits, changed: Notify::new() }
    }
}

impl Peer {
    /// True if messages may be gathered for this peer now.
    pub(crate) fn has_answer_room(&self) -> bool {
        if !self.connection.borrow().has_answer_room() {
            return false;
        }
        let is_full = self.state.scales.borrow().is_full(self.counted);
        if is_full {
            self.await_memory();
        }
        !is_full
    }

    /// Parks a pull until there is room for its answer, if the peer still reads.
    pub(crate) fn park(&self, request: PendingPull) {
        if self.connection.borrow().ending().is_some() {
            return request.responder.code(answer::NO_MESSAGE);
        }
        self.answering.parked.borrow_mut().push_back(request);
    }

    /// A pull may have left room unused: parked pulls are tried again.
    pub(crate) fn pass_room_on(&self) {
        if !self.answering.parked.borrow().is_empty() {
            self.wake.notify_one();
        }
    }

    /// Waits until a list may be made, and keeps nothing in memory until then; `None` if the peer reads no more.
    pub(crate) async fn turn_to_list(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.answering.lists.lock().await;
        loop {
            if self.has_left() {
                return None;
            }
            if self.has_answer_room() {
                return Some(turn);
            }
            self.answering.changed.notified().await;
        }
    }

    /// Waits for a permit to pull.
    pub(crate) async fn turn_to_pull(&self) -> Option<SemaphorePermit<'_>> {
        self.answering.pull_permits.acquire().await.ok()
    }

    /// Tries those again that had no room.
    pub(super) fn look_again(&self) {
        if !self.has_answer_room() {
            return;
        }
        self.answering.changed.notify_waiters();
        for _ in 0..PULLS_AT_ONCE {
            let next = self.answering.parked.borrow_mut().pop_front();
            let Some(request) = next else { return };
            self.state.begin_again(request);
        }
    }

    /// Ends all waits for room.
    pub(super) fn end_parked(&self) {
        let parked = std::mem::take(&mut *self.answering.parked.borrow_mut());
        for request in parked {
            request.responder.code(answer::NO_MESSAGE);
        }
        self.answering.changed.notify_waiters();
    }
}
