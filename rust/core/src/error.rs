//! All failures of the core in one closed enum: a new failure does not compile until the binding maps it.

use thiserror::Error;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The cause of a failed storage call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageFault {
    /// The disk or a quota is full.
    NoSpace,
    /// The named file or folder does not exist.
    NotFound,
    /// The named file already exists.
    AlreadyExists,
    /// The operating system does not allow it.
    PermissionDenied,
    /// Any other failure of the device or file system.
    Io,
    /// The simulated machine was stopped during this call; only the simulation returns it.
    Stopped,
}

/// Every failure of the core.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Error {
    /// A call to the file system failed.
    #[error("{operation} of {path} failed: {message}")]
    Storage {
        /// The call, as a verb: `open`, `write`, `sync`, …
        operation: &'static str,
        /// The file, relative to the store.
        path: String,
        /// The kind of failure.
        fault: StorageFault,
        /// The operating system's message.
        message: String,
    },
    /// Bytes that were durable are damaged.
    #[error("{path} is damaged at offset {offset}: expected {expected}, found {found}")]
    Corrupt {
        /// The file, relative to the store.
        path: String,
        /// Where in it.
        offset: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file that must be there is not.
    #[error("{path} is missing: {reason}")]
    MissingFile {
        /// The file, relative to the store.
        path: String,
        /// Why the file is needed.
        reason: String,
    },
    /// The files were written by a newer format than this release reads.
    #[error("{path} has format {found}, this release reads up to {supported}: use the release that wrote it")]
    NewerFormat {
        /// The file, relative to the store.
        path: String,
        /// Where in it the format is stored.
        offset: u64,
        /// The format found.
        found: u32,
        /// The newest format that this release reads.
        supported: u32,
    },
    /// The folder holds something other than a store.
    #[error("{path} is not a delaymq store: found {found}")]
    NotAStore {
        /// The folder.
        path: String,
        /// The content of the folder.
        found: String,
    },
    /// Another process has the store open.
    #[error("{path} is open in another process")]
    Locked {
        /// The lock file.
        path: String,
    },
    /// A write or sync failed earlier; the store refuses everything until it is opened again.
    #[error("the store stopped after a failed write and must be opened again: {reason}")]
    Poisoned {
        /// What failed first.
        reason: String,
    },
    /// There is no room for new messages; stored messages are still delivered.
    #[error("the disk is full: new messages are refused until there is room")]
    DiskFull,
    /// Free disk space is below the mark under which messages are refused.
    #[error("new messages are refused while less than {mark_bytes} bytes of the disk are free: {free_bytes} are")]
    BelowMark {
        /// The free bytes.
        free_bytes: u64,
        /// The bytes that must be free.
        mark_bytes: u64,
    },
    /// The store is closed, or closing.
    #[error("the store is closed")]
    Closed,
    /// A forked child used its parent's store.
    #[error("the store belongs to process {owner}, this is process {caller}")]
    ForkedProcess {
        /// The process that opened it.
        owner: u32,
        /// The process that called.
        caller: u32,
    },
    /// An argument is invalid; nothing was stored.
    #[error("{argument}: expected {expected}, found {found}")]
    InvalidArgument {
        /// The argument's name.
        argument: &'static str,
        /// What it must be.
        expected: String,
        /// What it was.
        found: String,
    },
    /// An argument is over its limit; nothing was stored.
    #[error("{argument} is too large: the limit is {limit}, found {found}")]
    TooLarge {
        /// The argument's name.
        argument: &'static str,
        /// The limit.
        limit: u64,
        /// What was given.
        found: u64,
    },
    /// A pending message already has the key; nothing was stored.
    #[error("the key is taken by a pending message: {receipt}")]
    KeyTaken {
        /// The receipt of the message that has it, as text.
        receipt: String,
        /// The position of the refused message in its batch, from 0.
        index: u64,
    },
    /// There is no room for one more key, or id; nothing was stored.
    #[error("{argument}: {limit} are known already, and that is the limit")]
    NamesFull {
        /// `key`, `message_id` or `command_id`.
        argument: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Too few nodes have a copy of what this store writes.
    #[error("the store has {copies} of the {min_copies} copies that it needs: {}", fate_of(*.maybe_stored))]
    NotEnoughCopies {
        /// The number of nodes that have a copy.
        copies: u64,
        /// The number that the group demands.
        min_copies: u64,
        /// True if it was written, so that it may be stored or not; false if it was refused, and nothing was stored.
        maybe_stored: bool,
    },
    /// This node does not decide for its group of copies, not yet or not any more; nothing was done.
    #[error("this node is not the primary of its copies")]
    NotPrimary {
        /// The epoch that the node knows of.
        epoch: u32,
    },
    /// A batch of another copy is not the next one of this log; nothing was written.
    #[error("the log goes on at sequence {expected}, the batch begins at {found}")]
    NotNext {
        /// The sequence at which the log goes on.
        expected: u64,
        /// The sequence at which the batch begins.
        found: u64,
    },
    /// A newer epoch has begun since; nothing was written.
    #[error("epoch {found} is over: epoch {newest} has begun")]
    Fenced {
        /// The newest epoch that is known.
        newest: u32,
        /// The epoch that is over.
        found: u32,
    },
    /// Two copies have different content in the same place; nothing was written.
    #[error("two copies differ before sequence {sequence}: here the chain is {expected:08x}, there it is {found:08x}")]
    Diverged {
        /// The first sequence after the place.
        sequence: u64,
        /// The chain of the last batch here.
        expected: u32,
        /// The chain of the last batch of the other copy.
        found: u32,
    },
    /// The log no longer has all facts from a sequence on.
    #[error("facts from sequence {sequence} on are not kept: the log has all facts from {first} on")]
    NotKept {
        /// The sequence that was asked for.
        sequence: u64,
        /// The first sequence from which on the log has all facts.
        first: u64,
    },
    /// A payload fails its check; it is voided, never delivered.
    #[error(
        "the message at sequence {sequence} in {path} is damaged at offset {offset}: expected {expected}, found {found}"
    )]
    DamagedPayload {
        /// The payload's sequence.
        sequence: u64,
        /// The file, relative to the store.
        path: String,
        /// Where in it.
        offset: u64,
        /// What belongs there.
        expected: String,
        /// What is there.
        found: String,
    },
}

const fn fate_of(maybe_stored: bool) -> &'static str {
    if maybe_stored { "the request may have been done or not" } else { "nothing was done" }
}

impl Error {
    /// True if the disk or quota is full, or the free space is below its mark.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::DiskFull | Self::BelowMark { .. } | Self::Storage { fault: StorageFault::NoSpace, .. })
    }

    /// True if a file was not found.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage { fault: StorageFault::NotFound, .. })
    }

    /// Damage at a place in a file, with the expected and the found content as texts.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand over numbers and texts alike")]
    pub fn corrupt(path: &str, offset: u64, expected: impl ToString, found: impl ToString) -> Self {
        Self::Corrupt { path: path.to_owned(), offset, expected: expected.to_string(), found: found.to_string() }
    }
}
