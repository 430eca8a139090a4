//! The files that a copy gets from a primary besides batches: those of a snapshot, and those of a load, which a copy must have before it
//! appends the fact that names them. A copy without them that became primary could not apply the fact.

use crate::run::{LoadName, StagedRun};
use crate::units::Sequence;

/// A file of a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotFile {
    /// Its path, relative to the store.
    pub path: String,
    /// Its length in bytes.
    pub length: u64,
}

/// The files that a primary offers instead of the part of its log that it no longer has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotOffer {
    /// Its number, which no other snapshot of this primary has.
    pub number: u64,
    /// The sequence after the last fact of its checkpoint. All of these are committed.
    pub committed: Sequence,
    /// The sequence after the last fact of its log.
    pub end: Sequence,
    /// Bytes of its files, without what was prepared for later facts.
    pub bytes: u64,
    /// Its files.
    pub files: Vec<SnapshotFile>,
}

/// A message about the files of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadMessage {
    /// A primary asks a replica to hold these files. Their load is not in the log yet.
    Hold {
        /// The number of the load, which no other one of this primary has.
        number: u64,
        /// The files.
        runs: Vec<StagedRun>,
    },
    /// A replica has all files of this load, durably.
    Held {
        /// The number of the load.
        number: u64,
    },
}

/// A file that a primary sends in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentFile {
    /// A file of a snapshot.
    Snapshot {
        /// The number of the snapshot.
        number: u64,
        /// The file, from 0.
        file: u32,
    },
    /// A file of a load.
    Load(LoadName),
}

/// A place in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilePlace {
    /// The file.
    pub file: SentFile,
    /// The offset in the file, in bytes.
    pub offset: u64,
}

/// A part of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePart {
    /// The place where it begins.
    pub place: FilePlace,
    /// It begins with so many bytes that are zero.
    pub zeros: u64,
    /// The bytes after them.
    pub bytes: Vec<u8>,
}

impl FilePart {
    /// The offset in the file at which it ends.
    pub fn end(&self) -> u64 {
        self.place.offset.saturating_add(self.zeros).saturating_add(self.bytes.len() as u64)
    }
}
