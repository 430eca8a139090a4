//! The identity of a store: the file that is read before all others.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `magic`: `DMQSTORE` |
//! | 8 | 4 | `format_version` |
//! | 12 | 4 | `flags`: bit 0 clustered |
//! | 16 | 16 | `stream` |
//! | 32 | 4 | `timeline` |
//! | 36 | 4 | `promised_epoch` |
//! | 40 | 16 | `node` |
//! | 56 | 8 | `coordinator` |
//! | 64 | 8 | `register_version` |
//! | 72 | 4 | `segment_bytes` |
//! | 76 | 4 | `check`: CRC-32 of bytes 0..76 |
//!
//! The file is always replaced as a whole.

use std::sync::Arc;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Stream};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::{check_format, written_format};
use crate::storage::{Storage, read_upto, write_atomically};
use crate::units::{Epoch, Version};

/// The path of the identity.
pub const IDENTITY_PATH: &str = "identity";
const IDENTITY_MAGIC: [u8; 8] = *b"DMQSTORE";
const IDENTITY_BYTES: usize = 80;
const SEGMENT_BYTES_OFFSET: u64 = 72;
const CHECK_OFFSET: usize = 76;
const FLAG_CLUSTERED: u32 = 1;

/// The promise of a copy to the other copies of its log, which is durable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Promise {
    /// The highest epoch that it will serve.
    pub epoch: Epoch,
    /// The coordinator and the version of the register that it saw last. (0, 0) if none.
    pub seen: (u64, Version),
}

/// The values that are fixed when a store is made, and what it has promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The history that the store holds.
    pub stream: Stream,
    /// Random bytes of this copy. Another copy of the same stream has other bytes.
    pub node: [u8; 16],
    /// The last epoch that was begun or promised. 0 before the first.
    pub promised_epoch: Epoch,
    /// The coordinator and the version of the register that this copy saw last. (0, 0) for a store alone.
    pub seen: (u64, Version),
    /// True if the store belongs to a cluster and must not be opened alone.
    pub clustered: bool,
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIdentity {
    magic: [u8; 8],
    format_version: U32,
    flags: U32,
    stream: [u8; 16],
    timeline: U32,
    promised_epoch: U32,
    node: [u8; 16],
    coordinator: U64,
    register_version: U64,
    segment_bytes: U32,
    check: U32,
}
const _: () = assert!(size_of::<RawIdentity>() == IDENTITY_BYTES);

impl RawIdentity {
    fn expected_check(&self) -> u32 {
        crc32fast::hash(self.as_bytes().get(..CHECK_OFFSET).unwrap_or_default())
    }
}

impl Identity {
    /// Reads the identity. `None` if there is no such file. Errors: `NotAStore` if the file is something
    /// else, `NewerFormat`, `Corrupt`, and those of the storage.
    pub fn read(storage: &dyn Storage) -> Result<Option<Self>> {
        let file = match storage.open(IDENTITY_PATH) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        Self::decode(&read_upto(&*file, 0, IDENTITY_BYTES + 1)?).map(Some)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let path = IDENTITY_PATH;
        if !bytes.starts_with(&IDENTITY_MAGIC) {
            let found = format!("{} bytes that do not start with DMQSTORE", bytes.len());
            return Err(Error::NotAStore { path: path.to_owned(), found });
        }
        let Ok(raw) = RawIdentity::read_from_bytes(bytes) else {
            return Err(Error::corrupt(path, 0, format!("{IDENTITY_BYTES} bytes"), bytes.len()));
        };
        let (expected, found) = (raw.expected_check(), raw.check.get());
        if expected != found {
            let words = (format!("check {expected:08x}"), format!("{found:08x}"));
            return Err(Error::corrupt(path, CHECK_OFFSET as u64, words.0, words.1));
        }
        check_format(path, 8, raw.format_version.get())?;
        let segment_bytes = raw.segment_bytes.get();
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            return Err(Error::corrupt(path, SEGMENT_BYTES_OFFSET, "the size of a segment", segment_bytes));
        }
        Ok(Self {
            stream: Stream { id: raw.stream, timeline: raw.timeline.get() },
            node: raw.node,
            promised_epoch: Epoch(raw.promised_epoch.get()),
            seen: (raw.coordinator.get(), Version(raw.register_version.get())),
            clustered: raw.flags.get() & FLAG_CLUSTERED != 0,
            segment_bytes,
        })
    }

    /// Replaces the identity file, durably.
    pub fn write(&self, storage: &dyn Storage) -> Result<()> {
        let mut raw = RawIdentity {
            magic: IDENTITY_MAGIC,
            format_version: U32::new(written_format()),
            flags: U32::new(if self.clustered { FLAG_CLUSTERED } else { 0 }),
            stream: self.stream.id,
            timeline: U32::new(self.stream.timeline),
            promised_epoch: U32::new(self.promised_epoch.0),
            node: self.node,
            coordinator: U64::new(self.seen.0),
            register_version: U64::new(self.seen.1.0),
            segment_bytes: U32::new(self.segment_bytes),
            check: U32::ZERO,
        };
        raw.check = U32::new(raw.expected_check());
        write_atomically(storage, "", IDENTITY_PATH, raw.as_bytes())
    }

    /// The promise of this copy.
    pub fn promise(&self) -> Promise {
        Promise { epoch: self.promised_epoch, seen: self.seen }
    }

    /// Makes a promise durable, and returns the identity with it. Epoch and register are replaced together, so a stop
    /// leaves the promise before or this one.
    ///
    /// A later epoch may come with any register: an operator can have confirmed one that was set back.
    ///
    /// # Errors
    /// `Fenced` if a later epoch was promised. `InvalidArgument` if the promise of the same epoch came with a later
    /// version of the same register. Nothing was changed. Those of the storage: the promise may be kept or not.
    pub fn keep_promise(&self, storage: &dyn Storage, promise: Promise) -> Result<Self> {
        let kept = self.promise();
        if promise.epoch < kept.epoch {
            return Err(Error::Fenced { newest: kept.epoch.0, found: promise.epoch.0 });
        }
        let is_same = (promise.epoch, promise.seen.0) == (kept.epoch, kept.seen.0);
        if is_same && promise.seen.1 < kept.seen.1 {
            let (expected, found) = (format!("version {} or later", kept.seen.1), promise.seen.1.to_string());
            return Err(Error::InvalidArgument { argument: "seen", expected, found });
        }
        let keeping = Self { promised_epoch: promise.epoch, seen: promise.seen, ..*self };
        keeping.write(storage)?;
        Ok(keeping)
    }
}

/// The source of the next epoch.
pub trait EpochSource {
    /// Returns an epoch above all earlier ones. It is durable before this returns, so that no two openings
    /// get the same epoch.
    fn raise(&mut self) -> Result<Epoch>;
}

/// Epochs of a store that is not in a cluster: a number in its identity.
pub struct FileEpochSource {
    storage: Arc<dyn Storage>,
    identity: Identity,
}

impl FileEpochSource {
    /// Continues from the epoch that `identity`, which was just read, has promised.
    pub fn new(storage: Arc<dyn Storage>, identity: Identity) -> Self {
        Self { storage, identity }
    }

    /// The identity as it is in the file now.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }
}

impl EpochSource for FileEpochSource {
    fn raise(&mut self) -> Result<Epoch> {
        if is_on(Planted::SequenceReused) && self.identity.promised_epoch > Epoch(0) {
            return Ok(self.identity.promised_epoch);
        }
        let raised = Identity { promised_epoch: self.identity.promised_epoch.next(), ..self.identity };
        raised.write(&*self.storage)?;
        self.identity = raised;
        Ok(raised.promised_epoch)
    }
}

#[cfg(test)]
#[path = "identity_tests.rs"]
mod tests;
