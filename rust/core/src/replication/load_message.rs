//! The messages about the files of a load, which a copy must have before it appends the fact that names them. A copy without them that
//! became primary could not apply the fact.

use crate::run::{LoadName, StagedRun};

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
    /// A replica asks for the part of a file that begins there.
    Ask {
        /// The file.
        name: LoadName,
        /// The offset in the file, in bytes.
        offset: u64,
    },
    /// A primary sends a part of a file.
    Part(LoadPart),
}

/// A part of a file of a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadPart {
    /// The file.
    pub name: LoadName,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The bytes from there on.
    pub bytes: Vec<u8>,
}
