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

/// How many calls were made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallCounts {
    pub(super) calls: BTreeMap<Call, u64>,
    pub(super) bytes_read: u64,
}

impl CallCounts {
    /// How many of one kind.
    pub fn of(&self, call: Call) -> u64 {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// How many bytes were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// How many of all kinds.
    pub fn all(&self) -> u64 {
        self.calls.values().sum()
    }

    /// How many of those that change something.
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

/// What the operating system answers a call that fails.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Errno {
    /// The device failed: of a write or a sync some sectors are done.
    Io,
    /// The disk is full: of a write the first bytes are done.
    NoSpace,
    /// The quota is full: of a write nothing is done.
    Quota,
    /// A signal came between, once too often to call again: of a write the first bytes are done.
    Interrupted,
    /// Fewer bytes were taken than were given, and no more the second time.
    Short,
}

/// Every way in which a call is made to fail.
pub const ERRNOS: [Errno; 5] = [Errno::Io, Errno::NoSpace, Errno::Quota, Errno::Interrupted, Errno::Short];

impl Errno {
    /// What the core is told.
    pub fn fault(self) -> StorageFault {
        match self {
            Self::NoSpace | Self::Quota => StorageFault::NoSpace,
            Self::Io | Self::Interrupted | Self::Short => StorageFault::Io,
        }
    }
}
