//! What a connection has under way, in numbers.

use super::{Connection, RequestId};

impl Connection {
    /// The requests that are held.
    pub fn held(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.under_way.held()
    }

    /// How many requests are under way, held ones included.
    pub fn open_count(&self) -> usize {
        self.under_way.count()
    }

    /// How many of them are held.
    pub fn held_count(&self) -> usize {
        self.under_way.held_count()
    }

    /// How many bytes wait to be written.
    pub fn output_bytes(&self) -> usize {
        self.outgoing.bytes()
    }

    /// How many bytes were read and not handed out.
    pub fn input_bytes(&self) -> usize {
        self.input.len()
    }

    /// How many bytes were there, when the input ended, of requests that nobody was handed.
    pub fn unfinished_bytes(&self) -> usize {
        self.unfinished_bytes
    }
}
