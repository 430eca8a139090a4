//! What a connection is given while its peer does not read: messages and lists are gathered where there is
//! room for them and not before. A pull without room is parked and looks again; a list waits its turn.

use std::cell::RefCell;
use std::collections::VecDeque;

use delaymq_core::wire::frame::answer;
use tokio::sync::{Mutex, MutexGuard, Notify, Semaphore, SemaphorePermit};

use super::Peer;
use crate::qmq::pull::PendingPull;

/// Parked pulls that look again in one turn: each of them may take the room of those behind it.
const PULLS_AT_ONCE: usize = 16;

/// Subscriptions that wait for a thread to pull on: each keeps what it pulled until that is sent.
const PULLING_MAX: usize = 4;

/// See the module.
pub(super) struct Answering {
    parked: RefCell<VecDeque<PendingPull>>,
    /// Who makes a list: one at a time, since it is in memory before it is answered.
    lists: Mutex<()>,
    /// Subscriptions that pull, so many at a time.
    request: Semaphore,
    /// There is room, or nobody reads any more.
    changed: Notify,
}

impl Default for Answering {
    fn default() -> Self {
        let request = Semaphore::new(PULLING_MAX);
        Self { parked: RefCell::default(), lists: Mutex::default(), request, changed: Notify::new() }
    }
}

impl Peer {
    /// True if messages may be gathered for it now.
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

    /// A pull waits until there is room for its answer, where anybody reads that.
    pub(crate) fn park(&self, request: PendingPull) {
        if self.connection.borrow().ending().is_some() {
            return request.responder.code(answer::NO_MESSAGE);
        }
        self.answering.parked.borrow_mut().push_back(request);
    }

    /// There may be room that a pull did not take: the parked ones look.
    pub(crate) fn pass_room_on(&self) {
        if !self.answering.parked.borrow().is_empty() {
            self.wake.notify_one();
        }
    }

    /// Waits until a list may be made, before which it is in nobody's memory; `None` if nobody reads it.
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

    /// Waits until few of its subscriptions pull.
    pub(crate) async fn turn_to_pull(&self) -> Option<SemaphorePermit<'_>> {
        self.answering.request.acquire().await.ok()
    }

    /// Lets those look again who had no room.
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

    /// Nobody waits for room any longer.
    pub(super) fn end_parked(&self) {
        let parked = std::mem::take(&mut *self.answering.parked.borrow_mut());
        for request in parked {
            request.responder.code(answer::NO_MESSAGE);
        }
        self.answering.changed.notify_waiters();
    }
}
