//! The calls of a disk, and the ways in which they fail.

use std::collections::BTreeMap;

use crate::error::StorageFault;

/// A kind of call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[expect(missing_docs, reason = "each is the call of that name")]
pub enum Call {
    Create,
    Open,
    List,
    Rename,
    Remove,
    CreateFolder,
    SyncFolder,
    Length,
    Read,
    Write,
    Allocate,
    Punch,
    Sync,
}

/// The number of calls of each kind, and of bytes read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    pub(super) calls: BTreeMap<Call, u64>,
    pub(super) bytes_read: u64,
}

impl CallCounts {
    /// The calls of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// The bytes read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The calls of all kinds.
    pub fn all(&self) -> u64 {
        self.calls.values().sum()
    }

    /// The calls that change something.
    pub fn changing(&self) -> u64 {
        let reading = [Call::Open, Call::List, Call::Length, Call::Read];
        self.all().saturating_sub(reading.iter().map(|call| self.of(*call)).sum())
    }
}

/// Every kind of call.
pub const CALLS: [Call; 13] = [
    Call::Create,
    Call::Open,
    Call::List,
    Call::Rename,
    Call::Remove,
    Call::CreateFolder,
    Call::SyncFolder,
    Call::Length,
    Call::Read,
    Call::Write,
    Call::Allocate,
    Call::Punch,
    Call::Sync,
];

/// The error of the operating system for a failing call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Errno {
    /// The device failed; some sectors of a write or sync were done.
    Io,
    /// The disk is full; the first bytes of a write were done.
    NoSpace,
    /// The quota is full; nothing of a write was done.
    Quota,
    /// Signals interrupted the call until it was no longer repeated; the first bytes of a write were done.
    Interrupted,
    /// The call took only some of the bytes, and none when it was repeated.
    Short,
}

/// Every way in which a call is made to fail.
pub const ERRNOS: [Errno; 5] = [Errno::Io, Errno::NoSpace, Errno::Quota, Errno::Interrupted, Errno::Short];

impl Errno {
    /// The fault that the core receives.
    pub fn fault(self) -> StorageFault {
        match self {
            Self::NoSpace | Self::Quota => StorageFault::NoSpace,
            Self::Io | Self::Interrupted | Self::Short => StorageFault::Io,
        }
    }
}
