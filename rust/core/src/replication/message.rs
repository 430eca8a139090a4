//! What nodes of a group send to each other. A message counts only from the node that the connection has
//! authenticated, and for the epoch that it names.

use super::history::History;
use super::register::Version;
use crate::units::{Epoch, Sequence};

/// A message from one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Of a primary: promise this epoch, and send your history. `attempt` tells this exchange from earlier ones.
    Lead {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The number of the exchange, from 1.
        attempt: u64,
        /// The coordinator and the version of the register that the primary saw last.
        seen: (u64, Version),
    },
    /// Of a replica: the promise is durable, and this is my log.
    Promised {
        /// The epoch that is promised.
        epoch: Epoch,
        /// The exchange.
        attempt: u64,
        /// The number of this answer, which no other answer of the node has: its log grows later, and must then not be cut
        /// by what was said of this history.
        answer: u64,
        /// The log of the replica.
        history: History,
    },
    /// Of a primary: keep what you have before this sequence, and cut the rest off.
    Match {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange.
        attempt: u64,
        /// The answer whose history was matched.
        answer: u64,
        /// The epoch of the last fact to keep, 0 if there is none.
        last_epoch: Epoch,
        /// The sequence after the last fact to keep.
        end: Sequence,
    },
    /// Of a primary: batches of its log.
    Batches {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The sequence of the first fact.
        from: Sequence,
        /// The sequence after the last fact that is committed.
        committed: Sequence,
        /// Whole batches, as they are in the log of the primary.
        bytes: Vec<u8>,
    },
    /// Of a primary: I live.
    Heartbeat {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The sequence after the last fact that was sent.
        end: Sequence,
        /// The sequence after the last fact that is committed.
        committed: Sequence,
    },
    /// Of a replica: this much of your log is on my disk. It also answers a heartbeat.
    Synced {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The sequence after the last fact that is durable.
        end: Sequence,
    },
    /// Of a replica: a batch is missing, send from here on.
    Resend {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The first sequence that is missing.
        from: Sequence,
    },
    /// Of a replica that restarted: our logs are not matched.
    Unmatched {
        /// The epoch of the primary.
        epoch: Epoch,
    },
    /// The sender has promised a later epoch than the receiver's.
    Refused {
        /// The epoch that is promised.
        epoch: Epoch,
    },
    /// Of a primary that an operator asked to hand over: claim the group now.
    TakeOver {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
    },
}
