//! A frozen part of the schedule, and its way into a run: in pieces, beside everything else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::bits::{EntryState, TwoBits};
use super::recent::Recent;
use super::reserve::reserved;
use super::window::row_of;
use crate::error::{Error, Result, StorageFault};
use crate::message_log::segment_path;
use crate::planted::{Planted, is_on};
use crate::record::header::RECORD_HEADER_BYTES;
use crate::run::{Run, RunHead, RunWriter, ScheduleRow, read_payload, run_path};
use crate::storage::{Storage, StorageFile};
use crate::units::{Location, LocationFile, Millis, RunNumber, Sequence};

/// Files that are kept open for copying.
const OPEN_FILES_MAX: usize = 64;
/// Records that are looked at before they are copied, and how much of each.
const TOUCHED_AHEAD: usize = 64;
const TOUCHED_LINES: usize = 4;
/// Bytes that memory gives at once.
const LINE_BYTES: usize = 64;
/// Bytes that a row counts against a piece's budget.
const ROW_BUDGET_BYTES: usize = 48;

/// Entries that left the schedule's open end, with their states as of the freeze. May be written
/// by another thread.
#[derive(Clone, Debug)]
pub struct FrozenPart {
    entries: Arc<Recent>,
    bits: TwoBits,
    pending: u64,
}

impl FrozenPart {
    pub(super) fn new(entries: Arc<Recent>, mut bits: TwoBits, mut pending: u64) -> Self {
        if is_on(Planted::CheckpointAfterFlush)
            && pending > 1
            && let Some(last) = bits.pending().last()
        {
            // It came behind the flush and before the position was read.
            bits.set(last, EntryState::Nothing);
            pending = pending.saturating_sub(1);
        }
        Self { entries, bits, pending }
    }

    /// The first sequence; by it the part is installed.
    pub fn first(&self) -> Sequence {
        self.bits.first()
    }

    /// The sequence after the last.
    pub fn end(&self) -> Sequence {
        self.bits.end()
    }

    /// How many entries were pending, and will be rows.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Begins the run. Payloads of what is due after `copy_after` are copied into it.
    pub fn into_writer(self, number: RunNumber, stream: [u8; 16], copy_after: Millis) -> PartWriter {
        PartWriter {
            part: self,
            number,
            stream,
            copy_after,
            order: Vec::new(),
            copy_from: 0,
            placed: Vec::new(),
            run: None,
            rows_written: 0,
            files: HashMap::new(),
            record: Vec::new(),
        }
    }
}

/// Where a payload was copied to.
#[derive(Clone, Copy, Debug)]
struct Placed {
    offset: u32,
    length: u32,
}

/// Writes one part as a run, a piece at a time.
pub struct PartWriter {
    part: FrozenPart,
    number: RunNumber,
    stream: [u8; 16],
    copy_after: Millis,
    /// Due time and place in the part, in the order of the run.
    order: Vec<(u64, u32)>,
    /// From here on in `order` payloads are copied.
    copy_from: usize,
    /// For each from `copy_from` on: where its payload went, or none where it stays.
    placed: Vec<Option<Placed>>,
    run: Option<RunWriter<ScheduleRow>>,
    rows_written: usize,
    /// By the file's half of a location; none for a file that is not there.
    files: HashMap<u64, Option<Arc<dyn StorageFile>>>,
    record: Vec<u8>,
}

impl PartWriter {
    /// The part's first sequence; by it the run is installed.
    pub fn first(&self) -> Sequence {
        self.part.first()
    }

    /// Writes about `budget_bytes` and syncs them. Returns the run once it is whole and durable;
    /// it is to be called until then.
    ///
    /// # Errors
    /// What the storage says. The writer is of no more use then: [`Self::abandon`] it. The part is
    /// still in the schedule, and comes with the next freeze.
    pub fn write_piece(&mut self, storage: &dyn Storage, budget_bytes: usize) -> Result<Option<Arc<Run>>> {
        let mut writer = match self.run.take() {
            Some(writer) => writer,
            None => self.begin(storage)?,
        };
        let spent = self.write_within(storage, &mut writer, budget_bytes.max(1));
        if let Err(error) = spent {
            self.run = Some(writer);
            return Err(error);
        }
        if self.rows_written < self.order.len() {
            let synced = writer.sync();
            self.run = Some(writer);
            return synced.map(|()| None);
        }
        writer.finish(storage).map(|run| Some(Arc::new(run)))
    }

    /// Gives up, and removes what was written.
    pub fn abandon(self, storage: &dyn Storage) -> Result<()> {
        match self.run {
            Some(writer) => writer.abandon(storage),
            None => Ok(()),
        }
    }

    /// Sorts what is pending and opens the file.
    fn begin(&mut self, storage: &dyn Storage) -> Result<RunWriter<ScheduleRow>> {
        let bits = &self.part.bits;
        let pending = (0_u32..)
            .zip(self.part.entries.iter())
            .filter(|(_, entry)| bits.get(entry.sequence()) == EntryState::Pending)
            .map(|(place, entry)| (entry.due().0, place));
        let mut order =
            Vec::with_capacity(reserved::<(u64, u32)>(usize::try_from(self.part.pending).unwrap_or_default()));
        order.extend(pending);
        // Places are in the order of sequences, so this is the order of keys.
        order.sort_unstable();
        self.copy_from = order.partition_point(|(due, _)| *due <= self.copy_after.0);
        self.placed = Vec::with_capacity(reserved::<Option<Placed>>(order.len().saturating_sub(self.copy_from)));
        self.order = order;
        self.rows_written = 0;
        let row_count = self.order.len() as u64;
        RunWriter::create(storage, RunHead { number: self.number, stream: self.stream, row_count })
    }

    fn write_within(
        &mut self,
        storage: &dyn Storage,
        writer: &mut RunWriter<ScheduleRow>,
        budget_bytes: usize,
    ) -> Result<()> {
        let mut left = budget_bytes;
        while left > 0 && self.copy_from.saturating_add(self.placed.len()) < self.order.len() {
            if self.placed.len().is_multiple_of(TOUCHED_AHEAD) {
                self.touch_ahead();
            }
            let spent = self.copy_next(storage, writer)?;
            left = left.saturating_sub(spent);
        }
        while left > 0 && self.rows_written < self.order.len() {
            if let Some(row) = self.row(self.rows_written) {
                writer.push_row(&row)?;
            }
            self.rows_written = self.rows_written.saturating_add(1);
            left = left.saturating_sub(ROW_BUDGET_BYTES);
        }
        Ok(())
    }

    fn entry_row(&self, at: usize) -> Option<ScheduleRow> {
        let (_, place) = self.order.get(at)?;
        self.part.entries.get(*place).as_ref().map(row_of)
    }

    /// The row at a place of the run, with its payload where it is now.
    fn row(&self, at: usize) -> Option<ScheduleRow> {
        let mut row = self.entry_row(at)?;
        let copied = at.checked_sub(self.copy_from).and_then(|at| self.placed.get(at).copied().flatten());
        if let Some(Placed { offset, length }) = copied {
            row.location = Location::in_run(self.number, offset);
            row.length = length;
        }
        Some(row)
    }

    /// Looks at the next records where their files lie in memory. They are scattered, and each look
    /// waits for memory: looks that do not depend on each other wait together, and copying finds
    /// the records near.
    fn touch_ahead(&self) {
        let first = self.copy_from.saturating_add(self.placed.len());
        let next = self.order.get(first..).unwrap_or_default();
        let mut seen = 0_u8;
        for (_, place) in next.iter().take(TOUCHED_AHEAD) {
            let Some(entry) = self.part.entries.get(*place) else { continue };
            let location = entry.location();
            let file = self.files.get(&(location.0 >> 32)).and_then(Option::as_ref);
            let start = u64::from(location.offset());
            let bytes = file.and_then(|file| file.view_at(start, TOUCHED_LINES * LINE_BYTES));
            for line in bytes.unwrap_or_default().chunks(LINE_BYTES) {
                seen ^= line.first().copied().unwrap_or_default();
            }
        }
        std::hint::black_box(seen);
    }

    /// Copies the next payload. One that cannot be read stays where it is: whoever reads it there
    /// finds out and voids it. Returns what it counts against the budget.
    fn copy_next(&mut self, storage: &dyn Storage, writer: &mut RunWriter<ScheduleRow>) -> Result<usize> {
        let at = self.copy_from.saturating_add(self.placed.len());
        let Some(row) = self.entry_row(at) else {
            self.placed.push(None);
            return Ok(ROW_BUDGET_BYTES);
        };
        let placed = match self.read_record(storage, &row) {
            Ok(true) => {
                let length = self.record.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                writer.push_payload(&self.record)?.map(|offset| Placed { offset, length })
            }
            Err(error @ Error::Storage { fault: StorageFault::Stopped, .. }) => return Err(error),
            Ok(false) | Err(_) => None,
        };
        self.placed.push(placed);
        Ok(self.record.len().max(RECORD_HEADER_BYTES))
    }

    /// Reads and checks a row's payload; false where its file is not there.
    fn read_record(&mut self, storage: &dyn Storage, row: &ScheduleRow) -> Result<bool> {
        self.record.clear();
        let source = row.location.0 >> 32;
        if self.files.len() >= OPEN_FILES_MAX && !self.files.contains_key(&source) {
            self.files.clear();
        }
        let opened = match self.files.entry(source) {
            Entry::Occupied(opened) => opened.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(open(storage, row.location.file())?),
        };
        let Some(file) = opened else { return Ok(false) };
        let offset = u64::from(row.location.offset());
        read_payload(file.as_ref(), offset, row.payload_sequence, None, &mut self.record)?;
        Ok(true)
    }
}

/// Opens a file that payloads lie in; none where it is not there.
fn open(storage: &dyn Storage, file: LocationFile) -> Result<Option<Arc<dyn StorageFile>>> {
    let path = match file {
        LocationFile::Segment(number) => segment_path(number),
        LocationFile::Run(number) => run_path(number),
    };
    match storage.open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
