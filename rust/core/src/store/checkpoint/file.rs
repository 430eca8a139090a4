//! The checkpoint on disk: a header, then the body that [`super::snapshot`] describes.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `magic`: `DMQCHKPT` |
//! | 8 | 4 | `format_version` |
//! | 12 | 4 | `number`, also its name |
//! | 16 | 16 | `stream` |
//! | 32 | 4 | `timeline` |
//! | 36 | 4 | `digest`: CRC-32 of the part of the body that is the same on every copy |
//! | 40 | 8 | `body_length` |
//! | 48 | 8 | `logical_length`: how much of the body the digest covers |
//! | 56 | 4 | `body_check`: CRC-32 of the body |
//! | 60 | 4 | `header_check`: CRC-32 of bytes 0..60 |

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::named_files::NamedFiles;
use super::paths::{CHECKPOINT_FOLDER, checkpoint_path};
use super::snapshot::{Frozen, Snapshot};
use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::record::{check_format, written_format};
use crate::storage::{Storage, read_upto, write_atomically};
use crate::store::retention::kept_files::KeptFiles;

/// Bytes of the header.
pub const CHECKPOINT_HEADER_BYTES: usize = 64;
const CHECKPOINT_MAGIC: [u8; 8] = *b"DMQCHKPT";
const CHECKED_BYTES: usize = 60;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CheckpointHeader {
    magic: [u8; 8],
    format_version: U32,
    number: U32,
    stream: [u8; 16],
    timeline: U32,
    digest: U32,
    body_length: U64,
    logical_length: U64,
    body_check: U32,
    header_check: U32,
}
const _: () = assert!(size_of::<CheckpointHeader>() == CHECKPOINT_HEADER_BYTES);

/// A checkpoint that was read and checked.
#[derive(Debug)]
pub(in crate::store) struct ReadCheckpoint {
    pub(in crate::store) number: u32,
    /// The check of its body.
    pub(in crate::store) check: u32,
    pub(in crate::store) snapshot: Snapshot,
    pub(in crate::store) files: NamedFiles,
}

impl ReadCheckpoint {
    /// The files that it needs.
    pub(in crate::store) fn kept(&self) -> KeptFiles {
        self.files.kept(self.number, self.snapshot.position.next_sequence)
    }
}

/// Writes a checkpoint whole or not at all. All that it names must be durable.
///
/// # Errors
/// Those of the storage.
pub(in crate::store) fn write_checkpoint(
    storage: &dyn Storage,
    stream: &Stream,
    number: u32,
    frozen: &Frozen,
    files: &NamedFiles,
) -> Result<()> {
    write_atomically(storage, CHECKPOINT_FOLDER, &checkpoint_path(number), &encoded(stream, number, frozen, files))
}

pub(super) fn encoded(stream: &Stream, number: u32, frozen: &Frozen, files: &NamedFiles) -> Vec<u8> {
    let (body, logical) = frozen.encode(files);
    let mut header = CheckpointHeader {
        magic: CHECKPOINT_MAGIC,
        format_version: U32::new(written_format()),
        number: U32::new(number),
        stream: stream.id,
        timeline: U32::new(stream.timeline),
        digest: U32::new(crc32fast::hash(body.get(..logical).unwrap_or_default())),
        body_length: U64::new(body.len() as u64),
        logical_length: U64::new(logical as u64),
        body_check: U32::new(crc32fast::hash(&body)),
        header_check: U32::ZERO,
    };
    header.header_check = U32::new(header.expected_check());
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

impl CheckpointHeader {
    fn expected_check(&self) -> u32 {
        crc32fast::hash(self.as_bytes().get(..CHECKED_BYTES).unwrap_or_default())
    }

    fn check(&self, path: &str, number: u32, stream: &Stream) -> Result<()> {
        if self.magic != CHECKPOINT_MAGIC {
            return Err(Error::corrupt(path, 0, "the magic DMQCHKPT", format!("{:02x?}", self.magic)));
        }
        let expected = self.expected_check();
        if self.header_check.get() != expected {
            return Err(Error::corrupt(path, CHECKED_BYTES as u64, format!("check {expected:08x}"), self.header_check));
        }
        check_format(path, 8, self.format_version.get())?;
        if self.number.get() != number {
            return Err(Error::corrupt(path, 12, format!("checkpoint number {number}"), self.number));
        }
        if self.stream != stream.id || self.timeline.get() > stream.timeline {
            return Err(Error::corrupt(path, 16, format!("{stream:02x?}"), format!("{:02x?}", self.stream)));
        }
        Ok(())
    }
}

/// Reads a checkpoint and checks it whole.
///
/// # Errors
/// `Corrupt` if it is damaged, `NewerFormat` if a later release wrote it, `Storage`.
pub(in crate::store) fn read_checkpoint(storage: &dyn Storage, stream: &Stream, number: u32) -> Result<ReadCheckpoint> {
    let path = checkpoint_path(number);
    let file = storage.open(&path)?;
    let length = file.length()?;
    let header = read_upto(file.as_ref(), 0, CHECKPOINT_HEADER_BYTES)?;
    let Ok(header) = CheckpointHeader::read_from_bytes(&header) else {
        return Err(Error::corrupt(&path, 0, "a checkpoint header", format!("{} bytes", header.len())));
    };
    header.check(&path, number, stream)?;
    let body_length = header.body_length.get();
    if length != body_length.saturating_add(CHECKPOINT_HEADER_BYTES as u64) {
        return Err(Error::corrupt(&path, 40, format!("a body of {body_length} bytes"), format!("a file of {length}")));
    }
    let body = read_upto(file.as_ref(), CHECKPOINT_HEADER_BYTES as u64, body_length as usize)?;
    let found = crc32fast::hash(&body);
    if found != header.body_check.get() {
        let expected = format!("body check {:08x}", header.body_check);
        return Err(Error::corrupt(&path, CHECKPOINT_HEADER_BYTES as u64, expected, format!("{found:08x}")));
    }
    let logical = body.get(..header.logical_length.get() as usize).unwrap_or_default();
    if crc32fast::hash(logical) != header.digest.get() {
        return Err(Error::corrupt(&path, 36, format!("digest {:08x}", header.digest), "another"));
    }
    let (snapshot, files) = Snapshot::decode(&path, header.format_version.get(), &body)?;
    Ok(ReadCheckpoint { number, check: found, snapshot, files })
}

#[cfg(test)]
#[path = "crafted_tests.rs"]
mod crafted_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;
    use crate::units::{ConsumerNumber, GroupNumber};

    /// The bytes of a golden file. A line `* n` stands for n lines of 32 zeros.
    pub(super) fn golden(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some(count) = line.strip_prefix("* ") {
                bytes.resize(bytes.len() + 32 * count.parse::<usize>().unwrap(), 0);
            } else {
                bytes.extend((0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap()));
            }
        }
        bytes
    }

    fn read(text: &str) -> Snapshot {
        let storage = MemoryStorage::new(1);
        storage.create_folder(CHECKPOINT_FOLDER).unwrap();
        let bytes = golden(text);
        storage.create(&checkpoint_path(1)).and_then(|file| file.write_at(0, &bytes)).unwrap();
        let stream = Stream { id: *b"golden stream 01", timeline: 1 };
        read_checkpoint(&storage, &stream, 1).unwrap().snapshot
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written() {
        let snapshot = read(include_str!("../../../../../tests/golden/checkpoint.hex"));
        assert_eq!(snapshot.groups.len(), 4);
        let pending: Vec<u64> = snapshot.queues.values().map(|queue| queue.pending).collect();
        assert_eq!(pending, [5, 1, 0]);
        let due = snapshot.totals.iter().map(|(_, tally)| tally.messages);
        assert_eq!(due.sum::<u64>(), pending.iter().sum::<u64>());
        assert!(snapshot.windows.iter().all(|window| window.ended.cells.is_some()));
        let billing = &snapshot.groups[&GroupNumber(1)];
        assert_eq!(billing.consumers.named("worker-1", false), Some(ConsumerNumber(1)));
        assert!(billing.consumers.are_all_lasting() == billing.consumers.is_empty());
        let orders = snapshot.subjects.number("orders").unwrap();
        assert_eq!(snapshot.subjects.get(orders).unwrap().groups.named("billing"), Some(GroupNumber(1)));
        let lasting = snapshot.groups.values().flat_map(|group| group.consumers.values());
        let lasting: Vec<_> = lasting.filter(|one| one.is_lasting).map(|one| one.name.as_str()).collect();
        assert_eq!(lasting, ["host-7@@0a1b"]);
        assert_eq!((snapshot.moves.len(), snapshot.keys.len(), snapshot.ids.len()), (2, 2, 1));
        assert_eq!(snapshot.dispatched_keys.len(), 1);
    }
}
