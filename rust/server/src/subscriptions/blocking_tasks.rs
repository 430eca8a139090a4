//! What a subscription of a connection has done on a thread of the pool, since it may have to wait.

use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::Sequence;
use delaymq_engine::{Delivered, DeliveryKey, Subscription};

/// Payloads that one pull brings, in bytes.
pub(crate) const PULL_BYTES: usize = 1 << 20;

/// What is done on a thread of the pool.
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
    /// Nothing: it is done when what was asked for before it is.
    Look,
    Close,
}

/// The result of a task.
pub(crate) enum Done {
    /// What a pull brought, or why it brought nothing: it is for the subscription to go on, whoever asked.
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

    /// Does it, and waits where it must.
    ///
    /// # Errors
    /// As what it calls, but for a pull.
    pub(crate) fn run(self, subscription: &Subscription) -> Result<Done> {
        let flush = |is_flushed: bool| {
            let is_flushed = is_flushed && !is_on(Planted::AcknowledgedUnwritten);
            if is_flushed { subscription.submit_flush().map(Done::Submitted) } else { Ok(Done::Settled) }
        };
        match self {
            Self::Pull { count } => Ok(Done::Pulled(subscription.pull_within(count, PULL_BYTES, Duration::ZERO))),
            Self::GiveBack { messages, is_flushed } => {
                messages.into_iter().try_for_each(|(key, delay_ms)| subscription.give_back(key, delay_ms))?;
                flush(is_flushed)
            }
            Self::PutAway { keys, reason, is_flushed } => {
                keys.into_iter().try_for_each(|key| subscription.dead_letter(key, &reason))?;
                flush(is_flushed)
            }
            Self::Flush => flush(true),
            Self::Look => Ok(Done::Settled),
            Self::Close => subscription.close().map(|()| Done::Settled),
        }
    }
}
