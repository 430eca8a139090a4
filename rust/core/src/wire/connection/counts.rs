//! Counts of a connection: requests and bytes.

use super::{Connection, RequestId};

impl Connection {
    /// The held requests.
    pub fn held(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.under_way.held()
    }

    /// The number of requests under way, including held ones.
    pub fn open_count(&self) -> usize {
        self.under_way.count()
    }

    /// The number of held requests.
    pub fn held_count(&self) -> usize {
        self.under_way.held_count()
    }

    /// The bytes that wait to be written.
    pub fn output_bytes(&self) -> usize {
        self.outgoing.bytes()
    }

    /// The bytes that were read and not handed out.
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// The bytes of requests that were not handed out when the input ended.
    pub fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes
    }
}
