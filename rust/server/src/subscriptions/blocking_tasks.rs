//! The tasks of a subscription that may wait, so they run on the blocking pool.

use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::Sequence;
use delaymq_engine::{Delivered, DeliveryKey, Subscription};

/// The payloads of one pull, in bytes.
pub(crate) const PULL_BYTES: usize = 1 << 20;

/// A task.
pub(crate) enum BlockingTask {
    Pull {
        count: usize,
    },
    GiveBack {
        messages: Vec<(DeliveryKey, u64)>,
        is_flushed: bool,
    },
    PutAway {
        keys: Vec<DeliveryKey>,
        reason: String,
        is_flushed: bool,
    },
    Flush,
    /// Nothing: it is done when the tasks before it are.
    Look,
    Close,
}

/// The result of a task.
pub(crate) enum Done {
    /// The messages of a pull, or its error. The subscription handles both, whatever asked for the pull.
    Pulled(Result<Vec<Delivered>>),
    /// It is durable when everything below this is visible.
    Submitted(Sequence),
    Settled,
}

impl BlockingTask {
    /// True if it brings messages.
    pub(crate) fn is_pull(&self) -> bool {
        matches!(self, Self::Pull { .. })
    }

    /// How many messages it names.
    pub(crate) fn messages(&self) -> usize {
        match self {
            Self::GiveBack { messages, .. } => messages.len(),
            Self::PutAway { keys, .. } => keys.len(),
            Self::Pull { .. } | Self::Flush | Self::Look | Self::Close => 0,
        }
    }

    /// Runs the task, and waits if it must.
    ///
    /// # Errors
    /// Those of the call, except for a pull.
    pub(crate) fn run(self, subscription: &Subscription) -> Result<Done> {
        let flush = |is_flushed: bool| {
            let is_flushed = is_flushed && !is_on(Planted::AcknowledgedUnwritten);
            if is_flushed { subscription.submit_flush().map(Done::Submitted) } else { Ok(Done::Settled) }
        };
        match self {
            Self::Pull { count } => Ok(Done::Pulled(subscription.pull_within(count, PULL_BYTES, Duration::ZERO))),
            Self::GiveBack { messages, is_flushed } => {
                messages.into_iter().try_for_each(|(key, delay_ms)| subscription.give_back(key, delay_ms).map(drop))?;
                flush(is_flushed)
            }
            Self::PutAway { keys, reason, is_flushed } => {
                keys.into_iter().try_for_each(|key| subscription.dead_letter(key, &reason).map(drop))?;
                flush(is_flushed)
            }
            Self::Flush => flush(true),
            Self::Look => Ok(Done::Settled),
            Self::Close => subscription.close().map(|()| Done::Settled),
        }
    }
}
