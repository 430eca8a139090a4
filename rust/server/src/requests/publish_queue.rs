//! Publishes on their way to the log: those that a turn of the loop has gathered, and those that wait for room.

use crate::requests::publish::PublishRequest;
use crate::server_state::ServerState;

impl ServerState {
    /// Calls `add` with the publishes that are gathered. They are handed to the log when the connections that have input
    /// now have had their turn.
    pub(crate) fn gather<T>(&self, add: impl FnOnce(&mut PublishRequest) -> T) -> T {
        let mut gathered = self.gathered.borrow_mut();
        if gathered.is_none() {
            self.news.notify_one();
        }
        add(gathered.get_or_insert_with(|| PublishRequest::gathering(self.batch())))
    }

    /// Hands the gathered publishes to the log.
    pub(crate) fn publish_gathered(&self) {
        let gathered = self.gathered.borrow_mut().take();
        if let Some(gathered) = gathered {
            self.begin_or_wait(gathered);
        }
    }

    /// Hands a publish to the log behind those that are gathered, or queues it behind others that wait for room.
    pub(crate) fn publish(&self, request: PublishRequest) {
        self.publish_gathered();
        self.begin_or_wait(request);
    }

    fn begin_or_wait(&self, request: PublishRequest) {
        let has_to_wait = !self.waiting.borrow().is_empty();
        if let Some(request) = if has_to_wait { Some(request) } else { request.begin(self) } {
            self.wait_for_room(request);
        }
    }

    fn wait_for_room(&self, request: PublishRequest) {
        let bytes = self.waiting_bytes.get().saturating_add(request.bytes);
        let count = self.waiting_count.get().saturating_add(request.count());
        if count > self.options.waiting_publishes_max || bytes > self.options.waiting_publish_bytes_max {
            return request.busy(self);
        }
        self.waiting_bytes.set(bytes);
        self.waiting_count.set(count);
        self.waiting.borrow_mut().push_back(request);
        self.news.notify_one();
    }

    /// Hands publishes to the log that waited for room.
    pub(crate) fn look_for_room(&self) {
        loop {
            let Some(next) = self.waiting.borrow_mut().pop_front() else { return };
            let (bytes, count) = (next.bytes, next.count());
            if let Some(next) = next.begin(self) {
                self.waiting.borrow_mut().push_front(next);
                return;
            }
            self.waiting_bytes.set(self.waiting_bytes.get().saturating_sub(bytes));
            self.waiting_count.set(self.waiting_count.get().saturating_sub(count));
        }
    }
}
