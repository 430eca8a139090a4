//! A frozen part of the schedule, and the writer that makes a run of it, in pieces, while everything else
//! continues.

use std::collections::HashMap;
use std::sync::Arc;

use super::bits::{EntryState, TwoBits};
use super::lookup::Lookups;
use super::row_of;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::header::RECORD_HEADER_BYTES;
use crate::run::{LoadedRuns, Run, RunHead, RunWriter, ScheduleRow};
use crate::schedule_log::feed::recent::Recent;
use crate::schedule_log::feed::reserve::reserved;
use crate::schedule_log::merge::payload_copies::{PayloadCopies, Placed};
use crate::schedule_log::window::origins::Origins;
use crate::storage::Storage;
use crate::units::{DueKey, Location, LocationFile, Millis, RunNumber, Sequence};

/// Records that are read ahead into the processor's cache before they are copied, and cache lines of each.
const TOUCHED_AHEAD: usize = 64;
const TOUCHED_LINES: usize = 4;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// Bytes that a row counts against a piece's budget.
const ROW_BUDGET_BYTES: usize = 48;

/// Entries of a closed window, with their states as of the freeze. Another thread may write them.
#[derive(Clone, Debug)]
pub struct FrozenPart {
    entries: Arc<Recent>,
    bits: TwoBits,
    pending: u64,
    /// The origins of moved entries, as of the freeze.
    origins: Arc<Origins>,
}

impl FrozenPart {
    pub(in crate::schedule_log) fn new(
        entries: Arc<Recent>,
        mut bits: TwoBits,
        mut pending: u64,
        origins: Arc<Origins>,
    ) -> Self {
        if is_on(Planted::CheckpointAfterFlush)
            && pending > 1
            && let Some(last) = bits.pending().last()
        {
            // This stands for an entry that came after the flush and before the position was read.
            bits.set(last, EntryState::Nothing);
            pending = pending.saturating_sub(1);
        }
        Self { entries, bits, pending, origins }
    }

    /// The first sequence. The part is installed by it.
    pub fn first(&self) -> Sequence {
        self.bits.first()
    }

    /// The sequence after the last.
    pub fn end(&self) -> Sequence {
        self.bits.end()
    }

    /// The number of entries that were pending and become rows.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Begins the run. The payloads of entries due after `copy_after` are copied into it.
    pub fn into_writer(self, number: RunNumber, stream: [u8; 16], copy_after: Millis) -> PartWriter {
        PartWriter {
            number,
            stream,
            copy_after,
            order: Vec::new(),
            origins: self.origins.as_ref().clone(),
            unresolved: Vec::new(),
            resolved: HashMap::new(),
            lookups: Lookups::default(),
            copy_from: 0,
            placed: Vec::new(),
            run: None,
            rows_written: 0,
            copies: PayloadCopies::default(),
            copied_from: Vec::new(),
            part: self,
        }
    }
}

/// Writes one part as a run, a piece at a time.
pub struct PartWriter {
    part: FrozenPart,
    number: RunNumber,
    stream: [u8; 16],
    copy_after: Millis,
    /// Due time and place in the part, in the order of the run.
    order: Vec<(u64, u32)>,
    /// Moved entries whose origins were not read yet, by place in the part. The next one to read is the last.
    unresolved: Vec<(DueKey, u32)>,
    /// Moved entries whose origins were read, by place in the part.
    resolved: HashMap<u32, crate::schedule_log::Entry>,
    origins: Origins,
    lookups: Lookups,
    /// The place in `order` from which on payloads are copied.
    copy_from: usize,
    /// For each place from `copy_from` on: the payload's new place, or `None` if it was not copied.
    placed: Vec<Option<Placed>>,
    run: Option<RunWriter<ScheduleRow>>,
    rows_written: usize,
    copies: PayloadCopies,
    /// Locations in other runs that payloads were copied from.
    copied_from: Vec<Location>,
}

impl PartWriter {
    /// The same writer for a store with loaded runs, which may hold payloads.
    pub(crate) fn knowing(mut self, loaded: LoadedRuns) -> Self {
        self.copies = PayloadCopies::knowing(loaded);
        self
    }

    /// The part's first sequence. The run is installed by it.
    pub fn first(&self) -> Sequence {
        self.part.first()
    }

    /// Writes about `budget_bytes` and syncs them. Returns the run once it is whole and durable. Call it
    /// until then.
    ///
    /// # Errors
    /// Those of the storage. The writer cannot be used after an error: [`Self::abandon`] it. The part is
    /// still in the schedule, and comes again with the next freeze.
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

    /// The number of its entries that are written. Copying a payload counts as much as writing its row.
    pub fn entries_written(&self) -> u64 {
        let rows = self.order.len() as u64;
        let whole = rows.saturating_add(rows.saturating_sub(self.copy_from as u64));
        let done = (self.placed.len() as u64).saturating_add(self.rows_written as u64);
        rows.saturating_mul(done).checked_div(whole).unwrap_or(0)
    }

    /// Returns and clears the locations in other runs that payloads were copied from. Entries that were moved
    /// out of the part in the meantime still have these locations.
    pub fn take_copied_from(&mut self) -> Vec<Location> {
        std::mem::take(&mut self.copied_from)
    }

    /// Removes the unfinished run.
    pub fn abandon(self, storage: &dyn Storage) -> Result<()> {
        match self.run {
            Some(writer) => writer.abandon(storage),
            None => Ok(()),
        }
    }

    /// Sorts the pending entries and creates the file.
    fn begin(&mut self, storage: &dyn Storage) -> Result<RunWriter<ScheduleRow>> {
        let bits = &self.part.bits;
        let pending = (0_u32..)
            .zip(self.part.entries.iter())
            .filter(|(_, entry)| bits.get(entry.sequence()) == EntryState::Pending)
            .map(|(place, entry)| (entry.due().0, place));
        let mut order =
            Vec::with_capacity(reserved::<(u64, u32)>(usize::try_from(self.part.pending).unwrap_or_default()));
        order.extend(pending);
        // Places are in the order of sequences, so this is key order.
        order.sort_unstable();
        self.copy_from = order.partition_point(|(due, _)| *due <= self.copy_after.0);
        self.placed = Vec::with_capacity(reserved::<Option<Placed>>(order.len().saturating_sub(self.copy_from)));
        let origin = |(_, place): &(u64, u32)| Some((self.part.entries.get(*place)?.origin()?, *place));
        self.unresolved = order.iter().filter_map(origin).collect();
        // The order of runs, and of rows in each run.
        self.unresolved
            .sort_by_key(|(origin, place)| std::cmp::Reverse((self.origins.place(*origin), *origin, *place)));
        self.resolved = HashMap::with_capacity(self.unresolved.len());
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
        while left > 0 && self.resolve_next()? {
            left = left.saturating_sub(ROW_BUDGET_BYTES);
        }
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

    /// Resolves the next moved entry. False if all are resolved. If an origin is damaged, the payload has no
    /// location, and its reader voids the message.
    fn resolve_next(&mut self) -> Result<bool> {
        let Some((origin, place)) = self.unresolved.last().copied() else { return Ok(false) };
        let found = loop {
            match self.origins.find(&mut self.lookups, origin) {
                Ok(found) => break found,
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(damage) => self.origins.give_up(&damage),
            }
        };
        let entry = self.part.entries.get(place).map(|entry| entry.with_payload_of(found));
        self.resolved.extend(entry.map(|entry| (place, entry)));
        self.unresolved.pop();
        Ok(true)
    }

    fn entry_row(&self, at: usize) -> Option<ScheduleRow> {
        let (_, place) = self.order.get(at)?;
        let entry = self.part.entries.get(*place);
        self.resolved.get(place).copied().or(entry).as_ref().map(row_of)
    }

    /// The row at a place of the run, with the current location of its payload.
    fn row(&self, at: usize) -> Option<ScheduleRow> {
        let mut row = self.entry_row(at)?;
        let copied = at.checked_sub(self.copy_from).and_then(|at| self.placed.get(at).copied().flatten());
        if let Some(placed) = copied {
            row.location = placed.location_in(self.number);
            row.length = placed.length;
        }
        Some(row)
    }

    /// Touches the next records in the memory maps of their files. The records are scattered, and each access
    /// waits for memory. Accesses that do not depend on each other wait together, and the copy then finds the
    /// records in the cache.
    fn touch_ahead(&self) {
        let first = self.copy_from.saturating_add(self.placed.len());
        let next = self.order.get(first..).unwrap_or_default();
        let mut seen = 0_u8;
        for (_, place) in next.iter().take(TOUCHED_AHEAD) {
            let Some(entry) = self.part.entries.get(*place) else { continue };
            let location = entry.location();
            let file = self.copies.opened(location);
            let start = u64::from(location.offset());
            let bytes = file.and_then(|file| file.view_at(start, TOUCHED_LINES * LINE_BYTES));
            for line in bytes.unwrap_or_default().chunks(LINE_BYTES) {
                seen ^= line.first().copied().unwrap_or_default();
            }
        }
        std::hint::black_box(seen);
    }

    /// Copies the next payload. Returns the bytes that count against the budget.
    fn copy_next(&mut self, storage: &dyn Storage, writer: &mut RunWriter<ScheduleRow>) -> Result<usize> {
        let at = self.copy_from.saturating_add(self.placed.len());
        let Some(row) = self.entry_row(at) else {
            self.placed.push(None);
            return Ok(ROW_BUDGET_BYTES);
        };
        let placed = self.copies.copy(storage, &row, writer)?;
        if placed.is_some() && matches!(row.location.file(), LocationFile::Run(_)) {
            self.copied_from.push(row.location);
        }
        self.placed.push(placed);
        Ok(self.copies.record_bytes().max(RECORD_HEADER_BYTES))
    }
}
