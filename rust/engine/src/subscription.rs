//! Consuming a subject for a group.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;

use crate::delivery::{Delivered, DeliveryKey};
use crate::shared::Shared;

/// One consumer of a group. All methods may be called from any thread; messages that one pull
/// returned are nobody else's until they are given back or the subscription is closed.
pub struct Subscription {
    shared: Arc<Shared>,
}

impl Subscription {
    /// The subject.
    pub fn subject(&self) -> &str {
        todo!()
    }

    /// The group.
    pub fn group(&self) -> &str {
        todo!()
    }

    /// Up to `count_max` messages, waiting for the first up to `timeout`. Empty at the timeout,
    /// after [`Self::stop`], and while as many as `in_flight_max` are unacknowledged.
    ///
    /// # Errors
    /// `Poisoned`, `Closed` (also where the group was removed), `ForkedProcess`.
    pub fn pull(&self, count_max: usize, timeout: Duration) -> Result<Vec<Delivered>> {
        todo!()
    }

    /// Acknowledges deliveries, in any order. Returns at once; they are durable after
    /// [`Self::flush`]. One that is not held any more changes nothing.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn acknowledge(&self, keys: &[DeliveryKey]) -> Result<()> {
        todo!()
    }

    /// Gives a message back: the group gets it again after the delay. Returns at once; durable
    /// after [`Self::flush`].
    ///
    /// # Errors
    /// `InvalidArgument` naming `delay`; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn give_back(&self, key: DeliveryKey, delay_ms: u64) -> Result<()> {
        todo!()
    }

    /// Waits until everything acknowledged or given back so far is durable; false where that took
    /// longer than `timeout`.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`.
    pub fn flush(&self, timeout: Duration) -> Result<bool> {
        todo!()
    }

    /// Ends every pull, now and later, with nothing. Acknowledging goes on.
    pub fn stop(&self) {
        todo!()
    }

    /// True after [`Self::stop`] or [`Self::close`].
    pub fn is_stopped(&self) -> bool {
        todo!()
    }

    /// Stops, makes acknowledgements durable, and gives what is unacknowledged back to the group
    /// at once. A second call changes nothing. Dropping the subscription does the same without
    /// waiting.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`.
    pub fn close(&self) -> Result<()> {
        todo!()
    }
}
