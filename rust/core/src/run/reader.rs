//! An open run: its footer in memory, its rows on disk.

use std::sync::Arc;

use super::block::{BLOCK_BYTES, BLOCK_ROWS};
use super::cells::CellFence;
use super::footer::{
    Footer, FooterPlace, GROUP_BLOCKS, Reference, SubjectRange, TRAILER_BYTES, TimeBucket, block_count, decode_trailer,
};
use super::reopening::ReopenedFile;
use super::rows::RowKey;
use super::staging::{LoadName, Relation, STAGED_KIND, StagedRun, StagedTail};
use super::{RunKind, run_path};
use crate::error::{Error, Result};
use crate::storage::{Storage, StorageFile, read_upto};
use crate::units::{Millis, RunNumber, Sequence, SubjectNumber};

/// One run. It is immutable, and all its readers share it.
pub struct Run {
    pub(super) file: Arc<dyn StorageFile>,
    /// Without time buckets, which are read again on request.
    footer: Footer,
    kind: RunKind,
    place: FooterPlace,
    length: u64,
    /// For an adopted run: translates its own sequences and subjects.
    relation: Option<Arc<Relation>>,
}

/// A block whose rows cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedBlock {
    /// The run.
    pub run: RunNumber,
    /// The block's number within it.
    pub block: u32,
    /// The least key that a row of the block can have.
    pub from: RowKey,
    /// All keys of the block are below this. `None` at the end of the run.
    pub to: Option<RowKey>,
    /// The reason: `Corrupt`, or an error of the storage.
    pub error: Error,
}

impl Run {
    /// Opens a run by its trailer and footer.
    ///
    /// # Errors
    /// `MissingFile`, `NewerFormat`, or `Corrupt` if trailer and footer are damaged or belong to another run,
    /// kind or stream.
    pub fn open(storage: &dyn Storage, number: RunNumber, kind: RunKind, stream: &[u8; 16]) -> Result<Self> {
        Self::open_as(storage, number, Some(kind), stream)
    }

    /// Like [`Self::open`], for a run of either kind.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn open_any(storage: &dyn Storage, number: RunNumber, stream: &[u8; 16]) -> Result<Self> {
        Self::open_as(storage, number, None, stream)
    }

    fn open_as(storage: &dyn Storage, number: RunNumber, kind: Option<RunKind>, stream: &[u8; 16]) -> Result<Self> {
        let file = open_needed(storage, &run_path(number), "a checkpoint names it")?;
        let (footer, place, length) = read_end(file.as_ref())?;
        let is_dispatch = footer.kind == RunKind::Dispatch as u32;
        let kind = kind.unwrap_or(if is_dispatch { RunKind::Dispatch } else { RunKind::Schedule });
        check_who(&file, &footer, place, (kind as u32, number.0, *stream))?;
        Ok(Self { file, footer, kind, place, length, relation: None })
    }

    /// Opens a schedule run of this number that is in the folder of staged runs.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub fn open_beside(storage: &dyn Storage, name: &LoadName, number: RunNumber, stream: &[u8; 16]) -> Result<Self> {
        let file = open_needed(storage, &name.path(), "it was rebuilt")?;
        let (footer, place, length) = read_end(file.as_ref())?;
        check_who(&file, &footer, place, (RunKind::Schedule as u32, number.0, *stream))?;
        Ok(Self { file, footer, kind: RunKind::Schedule, place, length, relation: None })
    }

    /// Opens a staged run by its trailer and footer.
    ///
    /// # Errors
    /// Like [`Self::open`].
    pub(super) fn open_staged(storage: &dyn Storage, name: &LoadName) -> Result<Self> {
        Self::open_staged_at(storage, &name.path(), name)
    }

    /// Opens a staged run that has not got its name yet.
    ///
    /// # Errors
    /// As [`Self::open_staged`].
    pub(super) fn open_staged_at(storage: &dyn Storage, path: &str, name: &LoadName) -> Result<Self> {
        let file = open_needed(storage, path, "it was staged")?;
        let (footer, place, length) = read_end(file.as_ref())?;
        check_who(&file, &footer, place, (STAGED_KIND, 0, name.nonce))?;
        Ok(Self { file, footer, kind: RunKind::Schedule, place, length, relation: None })
    }

    /// Opens a staged run as a schedule run of the store that adopted it: with `number` and `stream`,
    /// sequences from `base` on, the publish time `published`, and the number of each subject by its name.
    ///
    /// # Errors
    /// Like [`Self::open`]; also `Corrupt` if it is not the named run, or if a subject is unknown.
    pub fn open_adopted(
        storage: &dyn Storage,
        named: &StagedRun,
        who: (RunNumber, &[u8; 16]),
        (base, published): (Sequence, Millis),
        number_of: &dyn Fn(&str) -> Option<SubjectNumber>,
    ) -> Result<Self> {
        let mut run = Self::open_staged(storage, &named.name)?;
        named.check(&run)?;
        let names = run.footer.staged.take().map(|tail| tail.names).unwrap_or_default();
        let numbered = |name: &String| {
            let unknown = || Error::corrupt(run.file.path(), run.place.offset, "subjects that are known", name);
            number_of(name).ok_or_else(unknown)
        };
        let subjects = names.iter().map(numbered).collect::<Result<Vec<_>>>()?;
        let relation = Relation::new(named.name, who.0, base, published, subjects);
        run.footer.adopt(&relation, *who.1);
        run.relation = Some(Arc::new(relation));
        Ok(run)
    }

    /// The same run, without an open file: the file is opened for each read.
    #[must_use]
    pub fn let_go(mut self, storage: &Arc<dyn Storage>) -> Self {
        let path = self.file.path().to_owned();
        self.file = Arc::new(ReopenedFile { storage: Arc::clone(storage), path });
        self
    }

    /// Its number.
    pub fn number(&self) -> RunNumber {
        self.footer.number
    }

    /// The kind of its rows.
    pub fn kind(&self) -> RunKind {
        self.kind
    }

    /// The stream that it belongs to.
    pub fn stream(&self) -> [u8; 16] {
        self.footer.stream
    }

    /// The number of its rows.
    pub fn row_count(&self) -> u64 {
        self.footer.row_count
    }

    /// The number of its blocks.
    pub fn block_count(&self) -> u32 {
        u32::try_from(block_count(self.footer.row_count)).unwrap_or(u32::MAX)
    }

    /// The least sequence among its rows.
    pub fn first_sequence(&self) -> Sequence {
        self.footer.first_sequence
    }

    /// The greatest sequence among its rows.
    pub fn last_sequence(&self) -> Sequence {
        self.footer.last_sequence
    }

    /// The files with the payloads of its rows, and the number of rows for each.
    pub fn references(&self) -> &[Reference] {
        &self.footer.references
    }

    /// The range of each subject in a dispatch run, by subject. Empty for a schedule run.
    pub fn subjects(&self) -> &[SubjectRange] {
        &self.footer.subjects
    }

    /// The rows due in each hour, read from the disk. Empty for a dispatch run.
    pub fn time_buckets(&self) -> Result<Vec<TimeBucket>> {
        Ok(read_footer(self.file.as_ref(), self.place)?.buckets)
    }

    /// The file's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The footer's check. A checkpoint records it with the length, to recognize the file.
    pub fn digest(&self) -> u32 {
        self.place.check
    }

    /// The offset of the payload area.
    pub fn payload_start(&self) -> u64 {
        self.footer.payload_start
    }

    /// Bytes of the payload area.
    pub fn payload_bytes(&self) -> u64 {
        self.footer.payload_bytes
    }

    /// The open file, for reading payloads.
    pub fn file(&self) -> &Arc<dyn StorageFile> {
        &self.file
    }

    /// Bytes of memory that the open run takes.
    pub fn memory_bytes(&self) -> usize {
        let fences = self.footer.fences.capacity().saturating_mul(size_of::<RowKey>());
        let references = self.footer.references.capacity().saturating_mul(size_of::<Reference>());
        let subjects = self.footer.subjects.capacity().saturating_mul(size_of::<SubjectRange>());
        let cells = self.footer.cells.capacity().saturating_mul(size_of::<CellFence>());
        let relation = self.relation.as_ref().map_or(0, |relation| relation.memory_bytes());
        let small = size_of::<Self>().saturating_add(relation).saturating_add(references).saturating_add(cells);
        small.saturating_add(fences).saturating_add(subjects)
    }

    /// The first key of the run.
    pub fn first_key(&self) -> Option<RowKey> {
        self.footer.fences.first().copied()
    }

    /// The first key of each group of blocks, and the number of rows in the group.
    pub fn fenced(&self) -> impl Iterator<Item = (RowKey, u64)> + '_ {
        let rows = u64::from(GROUP_BLOCKS) * BLOCK_ROWS as u64;
        let left = move |group: u64| self.row_count().saturating_sub(group.saturating_mul(rows)).min(rows);
        (0_u64..).zip(&self.footer.fences).map(move |(group, key)| (*key, left(group)))
    }

    /// The group of blocks that has the row with `key`, if the row exists.
    pub(super) fn group_of(&self, key: RowKey) -> u32 {
        let above = self.footer.fences.partition_point(|fence| *fence <= key);
        u32::try_from(above.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The first block of a group.
    pub(super) fn block_of_group(&self, group: u32) -> u32 {
        group.saturating_mul(GROUP_BLOCKS).min(self.block_count())
    }

    /// The number of rows in a block.
    pub(crate) fn rows_in_block(&self, block: u32) -> usize {
        let before = u64::from(block).saturating_mul(BLOCK_ROWS as u64);
        usize::try_from(self.row_count().saturating_sub(before)).unwrap_or(usize::MAX).min(BLOCK_ROWS)
    }

    /// The first cell of each block of cells.
    pub(super) fn cell_fences(&self) -> &[CellFence] {
        &self.footer.cells
    }

    /// The offset of the blocks of cells, after the payload area.
    pub(super) fn cells_start(&self) -> u64 {
        self.footer.payload_start.saturating_add(self.footer.payload_bytes)
    }

    /// The additional part of a staged run's footer.
    pub(super) fn staged_tail(&self) -> Option<&StagedTail> {
        self.footer.staged.as_ref()
    }

    /// The translation of its own sequences and subjects, if it was adopted.
    pub fn relation(&self) -> Option<&Arc<Relation>> {
        self.relation.as_ref()
    }

    /// Its number in the file.
    pub(super) fn file_number(&self) -> RunNumber {
        if self.relation.is_some() { RunNumber(0) } else { self.footer.number }
    }

    /// Its stream in the file.
    pub(super) fn file_stream(&self) -> [u8; 16] {
        self.relation.as_ref().map_or(self.footer.stream, |relation| relation.name.nonce)
    }

    /// Its kind in the file.
    pub(super) fn file_kind(&self) -> u32 {
        self.footer.kind
    }

    pub(super) fn fences(&self) -> &[RowKey] {
        &self.footer.fences
    }

    /// The offset of a block in the file.
    pub fn block_offset(block: u32) -> u64 {
        u64::from(block).saturating_add(1).saturating_mul(BLOCK_BYTES as u64)
    }

    pub(super) fn damaged(&self, block: u32, error: Error) -> Box<DamagedBlock> {
        let group = (block / GROUP_BLOCKS) as usize;
        Box::new(DamagedBlock {
            run: self.number(),
            block,
            from: self.footer.fences.get(group).copied().unwrap_or_default(),
            to: self.footer.fences.get(group.saturating_add(1)).copied(),
            error,
        })
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Run")
            .field("number", &self.number().0)
            .field("kind", &self.kind)
            .field("rows", &self.row_count())
            .finish_non_exhaustive()
    }
}

fn open_needed(storage: &dyn Storage, path: &str, reason: &str) -> Result<Arc<dyn StorageFile>> {
    storage.open(path).map_err(|error| {
        if error.is_not_found() {
            Error::MissingFile { path: path.to_owned(), reason: reason.to_owned() }
        } else {
            error
        }
    })
}

/// Reads the footer, without its time buckets, its place, and the file's length.
fn read_end(file: &dyn StorageFile) -> Result<(Footer, FooterPlace, u64)> {
    let length = file.length()?;
    let trailer = read_upto(file, length.saturating_sub(TRAILER_BYTES as u64), TRAILER_BYTES)?;
    let place = decode_trailer(&trailer, file.path(), length)?;
    let mut footer = read_footer(file, place)?;
    footer.buckets = Vec::new();
    Ok((footer, place, length))
}

/// Checks that the footer is of this kind, number and stream, and that its parts end where it begins.
fn check_who(
    file: &Arc<dyn StorageFile>,
    footer: &Footer,
    place: FooterPlace,
    expected: (u32, u32, [u8; 16]),
) -> Result<()> {
    let found = (footer.kind, footer.number.0, footer.stream);
    if found != expected {
        let expected = format!("kind, run and stream {expected:?}");
        return Err(Error::corrupt(file.path(), place.offset, expected, format!("{found:?}")));
    }
    let payload_start = Footer::payload_start_of(footer.row_count);
    let cells_bytes = (footer.cells.len() as u64).saturating_mul(BLOCK_BYTES as u64);
    let ends = footer.payload_start.checked_add(footer.payload_bytes);
    let ends = ends.and_then(|ends| ends.checked_add(cells_bytes));
    if footer.payload_start != payload_start || ends != Some(place.offset) {
        let expected = format!("payloads from {payload_start} to {}", place.offset);
        let found = format!("{} bytes from {}", footer.payload_bytes.saturating_add(cells_bytes), footer.payload_start);
        return Err(Error::corrupt(file.path(), place.offset, expected, found));
    }
    Ok(())
}

fn read_footer(file: &dyn StorageFile, place: FooterPlace) -> Result<Footer> {
    let bytes = read_upto(file, place.offset, usize::try_from(place.bytes).unwrap_or(usize::MAX))?;
    let check = crc32fast::hash(&bytes);
    if check != place.check {
        let found = format!("{check:08x}");
        return Err(Error::corrupt(file.path(), place.offset, format!("footer check {:08x}", place.check), found));
    }
    Footer::decode(&bytes).ok_or_else(|| {
        Error::corrupt(file.path(), place.offset, "a footer whose parts fit", format!("{} bytes", bytes.len()))
    })
}
