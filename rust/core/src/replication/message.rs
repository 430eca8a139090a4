//! The messages that nodes of a group send to each other. A message counts only from the node that the connection has
//! authenticated, and for the epoch that it names.

use super::files::{FilePart, FilePlace, LoadMessage, SnapshotOffer};
use super::history::History;
use crate::units::{DueKey, Epoch, Millis, Sequence, Version};

/// A message that a copy has damaged, as another copy finds it. Its sequence and its check name its content on every copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedRecord {
    /// Its sequence.
    pub sequence: Sequence,
    /// The check in the header of its record, which binds that of its payload.
    pub record_check: u32,
    /// The due time that it was published with.
    pub first_due: Millis,
    /// The key of the entry that has its payload now: another one if it was moved or retried.
    pub key: DueKey,
}

/// A message from one node to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A primary asks for the promise of this epoch, and for the history of the log. `attempt` tells this exchange from earlier ones.
    Lead {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The number of the exchange, from 1.
        attempt: u64,
        /// The coordinator and the version of the register that the primary saw last.
        seen: (u64, Version),
    },
    /// A replica has made the promise durable, and sends its history.
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
    /// A primary says which facts agree with its log: those before `end`. The replica cuts the others off.
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
    /// A primary sends batches of its log.
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
    /// A primary says that it lives.
    Heartbeat {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The sequence after the last fact that was sent.
        end: Sequence,
        /// The sequence after the last fact that is committed.
        committed: Sequence,
        /// The time of the primary's clock that only goes on, which the answer returns.
        beat: u64,
        /// How far the wall clock of the replica is at least ahead of that of the group, in milliseconds; less than 0 if it
        /// is behind.
        ahead_ms: Option<i64>,
    },
    /// A replica says how much of the primary's log is on its disk. It also answers heartbeats so.
    Synced {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The sequence after the last fact that is durable.
        end: Sequence,
        /// The `beat` of the heartbeat that this answers. 0 if it answers none.
        beat: u64,
        /// The wall clock of the replica. 0 if it is not known.
        wall: Millis,
    },
    /// A replica lacks a batch, and asks for the log from here on.
    Resend {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The first sequence that is missing.
        from: Sequence,
    },
    /// A replica says that the logs are not matched, because it restarted or could not append.
    Unmatched {
        /// The epoch of the primary.
        epoch: Epoch,
    },
    /// The sender has promised a later epoch than the receiver's.
    Refused {
        /// The epoch that is promised.
        epoch: Epoch,
    },
    /// A primary that an operator asked to hand over asks the replica to claim the group.
    TakeOver {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
    },
    /// A primary no longer has the part of the log that the replica lacks, and offers its files.
    Snapshot {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The files.
        offer: SnapshotOffer,
    },
    /// A replica asks for the part of a file that begins there.
    AskPart {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The place where it begins.
        place: FilePlace,
    },
    /// A primary sends a part of a file.
    Part {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The part.
        part: FilePart,
    },
    /// A node whose disk has damaged a message asks another one for its payload.
    AskRecord {
        /// The epoch of both.
        epoch: Epoch,
        /// The message.
        wanted: WantedRecord,
    },
    /// A node answers that.
    Record {
        /// The epoch of both.
        epoch: Epoch,
        /// The sequence of the message.
        sequence: Sequence,
        /// The payload. `None` if the node does not have it whole.
        payload: Option<Vec<u8>>,
    },
    /// A message about the files of a load.
    Load {
        /// The epoch of the primary.
        epoch: Epoch,
        /// The exchange that matched the logs.
        attempt: u64,
        /// The message.
        message: LoadMessage,
    },
}
