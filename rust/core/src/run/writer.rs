//! Writes a run.
//!
//! | offset in the header | bytes | field |
//! |---|---|---|
//! | 0 | 8 | `magic`: `DMQRUN__` |
//! | 8 | 4 | `format` |
//! | 12 | 4 | `kind`: 1 schedule, 2 dispatch, 3 staged |
//! | 16 | 4 | `number` |
//! | 20 | 4 | `reserved` |
//! | 24 | 16 | `stream` |
//! | 40 | 8 | `row_count` |
//! | 48 | 8 | `payload_start` |
//! | 56 | 4036 | zeros |
//! | 4092 | 4 | `check`: CRC-32 of bytes 0..4092 |

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block::{BLOCK_BYTES, BLOCK_ROWS, encode_block};
use super::cells::{CellGatherer, encode_cells};
use super::footer::{Footer, FooterPlace, Reference, encode_trailer, file_code, file_of};
use super::rows::{ROW_BYTES, Row, RowKey, ScheduleRow};
use super::staging::{LOAD_FOLDER, LoadName, STAGED_KIND, StagedTail, header_check_of};
use super::{RUN_FOLDER, Run, RunKind, run_path};
use crate::error::{Error, Result};
use crate::planted::failpoint::{Failpoint, reached};
use crate::planted::{self, Planted};
use crate::record::written_format;
use crate::storage::{Storage, StorageFile};
use crate::units::{LocationFile, RunNumber};

/// Bytes that are buffered before a write.
const WRITE_BYTES: usize = 64 << 10;
pub(super) const HEADER_MAGIC: [u8; 8] = *b"DMQRUN__";
pub(super) const HEADER_CHECK_OFFSET: usize = BLOCK_BYTES - 4;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RunHeader {
    magic: [u8; 8],
    format: U32,
    kind: U32,
    number: U32,
    reserved: U32,
    stream: [u8; 16],
    row_count: U64,
    payload_start: U64,
}

/// The identity of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunHead {
    /// Its number.
    pub number: RunNumber,
    /// The stream that it belongs to.
    pub stream: [u8; 16],
    /// The number of rows that it will have, not zero.
    pub row_count: u64,
}

/// Encodes the header block.
pub(super) fn encode_header(head: &RunHead, format: u32, kind: u32) -> Vec<u8> {
    let header = RunHeader {
        magic: HEADER_MAGIC,
        format: U32::new(format),
        kind: U32::new(kind),
        number: U32::new(head.number.0),
        reserved: U32::ZERO,
        stream: head.stream,
        row_count: U64::new(head.row_count),
        payload_start: U64::new(Footer::payload_start_of(head.row_count)),
    };
    let mut block = header.as_bytes().to_vec();
    block.resize(HEADER_CHECK_OFFSET, 0);
    block.extend_from_slice(&crc32fast::hash(&block).to_le_bytes());
    block
}

/// Buffered bytes that are written one after the other.
struct Stream {
    offset: u64,
    buffer: Vec<u8>,
}

impl Stream {
    fn flush(&mut self, file: &dyn StorageFile) -> Result<()> {
        file.write_at(self.offset, &self.buffer)?;
        self.offset = self.offset.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        Ok(())
    }

    fn flush_if_large(&mut self, file: &dyn StorageFile) -> Result<()> {
        if self.buffer.len() >= WRITE_BYTES { self.flush(file) } else { Ok(()) }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.buffer.len() as u64)
    }
}

/// The path of a run that is being written.
struct Place {
    folder: &'static str,
    path: String,
}

impl Place {
    fn temporary(&self) -> String {
        format!("{}.tmp", self.path)
    }
}

/// A run that is being written: first its payloads, if any, then its rows, then the end.
pub struct RunWriter<R: Row> {
    place: Place,
    file: Arc<dyn StorageFile>,
    head: RunHead,
    footer: Footer,
    references: BTreeMap<u32, u64>,
    blocks: Stream,
    payloads: Stream,
    block: Vec<u8>,
    block_index: u32,
    cells: CellGatherer,
    /// In a staged run: over the checks of all blocks and records.
    contents: Option<crc32fast::Hasher>,
    last_key: Option<RowKey>,
    row: PhantomData<R>,
}

impl<R: Row> RunWriter<R> {
    /// Begins a run under its temporary name. A file with that name is removed.
    pub fn create(storage: &dyn Storage, head: RunHead) -> Result<Self> {
        let place = Place { folder: RUN_FOLDER, path: run_path(head.number) };
        Self::create_at(storage, place, head, R::KIND as u32)
    }

    fn create_at(storage: &dyn Storage, place: Place, head: RunHead, kind: u32) -> Result<Self> {
        let temporary = place.temporary();
        match storage.remove(&temporary) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let payload_start = Footer::payload_start_of(head.row_count);
        let footer = Footer { kind, number: head.number, stream: head.stream, payload_start, ..Footer::default() };
        Ok(Self {
            file: storage.create(&temporary)?,
            place,
            head,
            footer,
            references: BTreeMap::new(),
            blocks: Stream { offset: 0, buffer: encode_header(&head, written_format(), kind) },
            payloads: Stream { offset: payload_start, buffer: Vec::new() },
            block: Vec::with_capacity(BLOCK_ROWS * ROW_BYTES),
            block_index: 0,
            cells: CellGatherer::default(),
            contents: (kind == STAGED_KIND).then(crc32fast::Hasher::new),
            last_key: None,
            row: PhantomData,
        })
    }

    /// Adds a whole record to the payload area and returns its offset. `None` if the offset is too large for
    /// a location. `record` is padded to 8 bytes.
    pub fn push_payload(&mut self, record: &[u8]) -> Result<Option<u32>> {
        debug_assert!(record.len().is_multiple_of(8));
        let Ok(offset) = u32::try_from(self.payloads.end()) else { return Ok(None) };
        if let Some(contents) = &mut self.contents {
            contents.update(header_check_of(record));
        }
        self.payloads.buffer.extend_from_slice(record);
        self.payloads.flush_if_large(self.file.as_ref())?;
        Ok(Some(offset))
    }

    /// Adds the next row.
    ///
    /// # Errors
    /// `InvalidArgument` if its key is not above the previous one, or if there are more rows than announced:
    /// the run would then be unreadable.
    pub fn push_row(&mut self, row: &R) -> Result<()> {
        let key = row.key();
        if self.last_key.is_some_and(|last| last >= key) || self.footer.row_count >= self.head.row_count {
            return Err(Error::InvalidArgument {
                argument: "row",
                expected: format!("a key above {:?}, and at most {} rows", self.last_key, self.head.row_count),
                found: format!("{key:?}"),
            });
        }
        self.last_key = Some(key);
        self.footer.add(row);
        if R::KIND == RunKind::Schedule {
            self.cells.add(row.due(), row.subject(), row.size());
        }
        let rows = self.references.entry(file_code(row.location().file())).or_default();
        *rows = rows.saturating_add(1);
        row.encode(&mut self.block);
        if self.block.len() >= BLOCK_ROWS * ROW_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    /// Records that the run needs this file, even if no payload of its rows is there.
    pub fn hold(&mut self, file: LocationFile) {
        self.references.entry(file_code(file)).or_default();
    }

    /// Makes the written bytes durable, so that the last sync has little left to do.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync_data()
    }

    /// Writes the end, syncs, renames the run to its final name, and opens it.
    ///
    /// # Errors
    /// `InvalidArgument` if rows are missing. After any error the run does not exist, or it is whole and
    /// nothing refers to it.
    pub fn finish(mut self, storage: &dyn Storage) -> Result<Run> {
        self.write_end(storage)?;
        Run::open(storage, self.head.number, R::KIND, &self.head.stream)
    }

    fn write_end(&mut self, storage: &dyn Storage) -> Result<()> {
        if self.footer.row_count != self.head.row_count {
            return Err(Error::InvalidArgument {
                argument: "row_count",
                expected: self.head.row_count.to_string(),
                found: self.footer.row_count.to_string(),
            });
        }
        if !self.block.is_empty() {
            self.end_block()?;
        }
        self.blocks.flush(self.file.as_ref())?;
        self.footer.payload_bytes = self.payloads.end().saturating_sub(self.footer.payload_start);
        let references = self.references.iter().map(|(code, rows)| Reference { file: file_of(*code), rows: *rows });
        self.footer.references = references.collect();
        let (cells, fences) = encode_cells(self.head.number, &std::mem::take(&mut self.cells).finish());
        self.footer.cells = fences;
        self.payloads.buffer.extend_from_slice(&cells);
        drop(cells);
        let footer = self.footer.encode();
        let place =
            FooterPlace { offset: self.payloads.end(), bytes: footer.len() as u64, check: crc32fast::hash(&footer) };
        self.payloads.buffer.extend_from_slice(&footer);
        self.payloads.buffer.extend_from_slice(&encode_trailer(place));
        self.payloads.flush(self.file.as_ref())?;
        reached(Failpoint::RunWritten);
        if !planted::is_on(self.forgets_to_sync()) {
            self.file.sync_data()?;
        }
        reached(Failpoint::RunSynced);
        storage.rename(&self.place.temporary(), &self.place.path)?;
        reached(Failpoint::RunRenamed);
        storage.sync_folder(self.place.folder)
    }

    /// The planted fault that skips the sync of a run of this kind.
    fn forgets_to_sync(&self) -> Planted {
        if self.contents.is_some() { Planted::StagedUnsynced } else { Planted::CheckpointBeforeRuns }
    }

    /// Removes the unfinished run.
    pub fn abandon(self, storage: &dyn Storage) -> Result<()> {
        storage.remove(&self.place.temporary())
    }

    fn end_block(&mut self) -> Result<()> {
        let at = self.blocks.buffer.len();
        encode_block(&mut self.blocks.buffer, self.head.number, self.block_index, &self.block);
        if let Some(contents) = &mut self.contents {
            contents.update(self.blocks.buffer.get(at..at.saturating_add(4)).unwrap_or_default());
        }
        self.block.clear();
        self.block_index = self.block_index.saturating_add(1);
        self.blocks.flush_if_large(self.file.as_ref())
    }
}

impl RunWriter<ScheduleRow> {
    /// Begins a schedule run in the folder of staged runs, from which it is moved to its place later.
    pub fn create_beside(storage: &dyn Storage, name: &LoadName, head: RunHead) -> Result<Self> {
        Self::create_at(storage, Place { folder: LOAD_FOLDER, path: name.path() }, head, RunKind::Schedule as u32)
    }

    /// Like [`Self::finish`], for a run that [`Self::create_beside`] began.
    ///
    /// # Errors
    /// Like [`Self::finish`].
    pub fn finish_beside(mut self, storage: &dyn Storage, name: &LoadName) -> Result<Run> {
        self.write_end(storage)?;
        Run::open_beside(storage, name, self.head.number, &self.head.stream)
    }

    /// Begins a staged run of `row_count` rows, which has no number and no stream yet.
    pub(super) fn create_staged(storage: &dyn Storage, name: &LoadName, row_count: u64) -> Result<Self> {
        let head = RunHead { number: RunNumber(0), stream: name.nonce, row_count };
        Self::create_at(storage, Place { folder: LOAD_FOLDER, path: name.path() }, head, STAGED_KIND)
    }

    /// Like [`Self::finish`], with the subject names to which the places in rows and records refer.
    pub(super) fn finish_staged(mut self, storage: &dyn Storage, name: &LoadName, names: Vec<String>) -> Result<Run> {
        // The check of the content includes the last block.
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let contents = self.contents.clone().unwrap_or_default().finalize();
        self.footer.staged = Some(StagedTail { contents, names });
        self.write_end(storage)?;
        Run::open_staged(storage, name)
    }
}
