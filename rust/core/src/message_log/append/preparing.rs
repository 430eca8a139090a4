//! Prepares a segment before it is needed, in pieces, so that the caller can pace the disk.
//!
//! The file gets its header, its space and its zeros under a temporary name. The appender renames it when it
//! adopts the segment. A failure here is ordinary: the temporary file is removed, and the caller can try
//! again.

use std::sync::Arc;

use crate::error::Result;
use crate::message_log::segment::{LOG_FOLDER, SEGMENT_HEADER_BYTES, SegmentHeader, segment_path};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{Planted, is_on};
use crate::storage::{Storage, StorageFile};
use crate::units::SegmentNumber;

/// Bytes of one write of zeros.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Suffix of the names of unfinished files. Opening a store removes such files.
pub(in crate::message_log) const TEMPORARY_SUFFIX: &str = ".tmp";

/// A segment under preparation.
pub struct Preparing {
    storage: Arc<dyn Storage>,
    header: SegmentHeader,
    temporary: String,
    file: Arc<dyn StorageFile>,
    next: u64,
}

/// A whole segment, durable under its temporary name.
pub struct PreparedSegment {
    pub(in crate::message_log) header: SegmentHeader,
    pub(in crate::message_log) temporary: String,
    pub(in crate::message_log) file: Arc<dyn StorageFile>,
}

/// A segment of the log that is open for writing.
pub(super) struct OpenSegment {
    pub(super) number: SegmentNumber,
    pub(super) capacity: u32,
    pub(super) file: Arc<dyn StorageFile>,
}

impl PreparedSegment {
    /// Its number.
    pub fn number(&self) -> SegmentNumber {
        self.header.number
    }

    /// Bytes of the whole segment.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.header.capacity)
    }

    /// The name of its file until the log adopts it.
    pub fn temporary(&self) -> &str {
        &self.temporary
    }
}

impl Preparing {
    /// Creates the file and allocates its space. If `zero` is false, the space stays unwritten, which is
    /// faster to make and slower to sync into. Errors: those of the storage, `NoSpace` included. No file
    /// remains after an error.
    pub fn begin(storage: Arc<dyn Storage>, header: SegmentHeader, zero: bool) -> Result<Self> {
        let temporary = format!("{}.ahead{TEMPORARY_SUFFIX}", segment_path(header.number));
        Self::begin_as(storage, header, zero, temporary)
    }

    /// Like `begin`, under a name that only the appender uses.
    pub(super) fn begin_own(storage: Arc<dyn Storage>, header: SegmentHeader, zero: bool) -> Result<Self> {
        let temporary = format!("{}.own{TEMPORARY_SUFFIX}", segment_path(header.number));
        Self::begin_as(storage, header, zero, temporary)
    }

    fn begin_as(storage: Arc<dyn Storage>, header: SegmentHeader, zero: bool, temporary: String) -> Result<Self> {
        match storage.remove(&temporary) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let file = storage.create(&temporary)?;
        let capacity = u64::from(header.capacity);
        let next = if zero { u64::from(SEGMENT_HEADER_BYTES) } else { capacity };
        let preparing = Self { storage, header, temporary, file, next };
        let started = preparing.file.allocate(capacity).and_then(|()| preparing.file.write_at(0, &header.to_block()));
        match started {
            Ok(()) => {
                reached(Failpoint::PreparingBegun);
                Ok(preparing)
            }
            Err(error) => Err(preparing.give_up(error)),
        }
    }

    /// Does the next piece: writes about `budget_bytes` of zeros and syncs them. Returns `Prepared` after the
    /// last piece.
    pub fn step(mut self, budget_bytes: u64) -> Result<PreparingStep> {
        match self.write_piece(budget_bytes.max(1)) {
            Err(error) => Err(self.give_up(error)),
            Ok(()) if self.next < u64::from(self.header.capacity) => Ok(PreparingStep::More(self)),
            Ok(()) => {
                let Self { header, temporary, file, .. } = self;
                Ok(PreparingStep::Prepared(PreparedSegment { header, temporary, file }))
            }
        }
    }

    /// Does all remaining pieces at once.
    pub fn finish(self) -> Result<PreparedSegment> {
        let mut preparing = self;
        loop {
            match preparing.step(u64::MAX)? {
                PreparingStep::More(more) => preparing = more,
                PreparingStep::Prepared(prepared) => return Ok(prepared),
            }
        }
    }

    fn write_piece(&mut self, budget_bytes: u64) -> Result<()> {
        let capacity = u64::from(self.header.capacity);
        let end = self.next.saturating_add(budget_bytes).min(capacity);
        while self.next < end {
            let piece = (capacity - self.next).min(ZEROS.len() as u64);
            self.file.write_at(self.next, ZEROS.get(..piece as usize).unwrap_or_default())?;
            self.next = self.next.saturating_add(piece);
        }
        reached(Failpoint::PreparingWritten);
        self.file.sync_data()
    }

    /// The name of its file.
    pub fn temporary(&self) -> &str {
        &self.temporary
    }

    /// Bytes of the whole segment.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.header.capacity)
    }

    /// True if more than half of the segment is done.
    pub fn is_half_done(&self) -> bool {
        self.next.saturating_mul(2) > self.capacity_bytes()
    }

    /// Removes the unfinished file and returns `error`. If the file cannot be removed now, the next opening
    /// removes it.
    fn give_up(self, error: crate::error::Error) -> crate::error::Error {
        drop(self.storage.remove(&self.temporary));
        error
    }
}

/// Gives a prepared segment its final name, durably, and opens it under that name.
pub(super) fn install(storage: &dyn Storage, prepared: &PreparedSegment) -> Result<OpenSegment> {
    let SegmentHeader { number, capacity, .. } = prepared.header;
    let path = segment_path(number);
    storage.rename(&prepared.temporary, &path)?;
    reached(Failpoint::SegmentRenamed);
    if !is_on(Planted::FolderNotSynced) {
        storage.sync_folder(LOG_FOLDER)?;
    }
    reached(Failpoint::SegmentInstalled);
    Ok(OpenSegment { number, capacity, file: storage.open(&path)? })
}

/// The result of one step.
pub enum PreparingStep {
    /// More pieces remain.
    More(Preparing),
    /// The segment is whole and durable under its temporary name.
    Prepared(PreparedSegment),
}
