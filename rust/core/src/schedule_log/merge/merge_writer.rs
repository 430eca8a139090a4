//! Writes a merged run, a piece at a time, on any thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::merging::MergePlan;
use super::payload_copies::PayloadCopies;
use crate::error::{Error, Result, StorageFault};
use crate::run::{DamagedBlock, LoadedRuns, Run, RunHead, RunWriter, ScanBuffer, ScheduleRow};
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::schedule_log::window::due_key_of;
use crate::storage::Storage;
use crate::units::{DueKey, LocationFile, Millis, RunNumber};

/// Blocks of one run that are read at once.
const BLOCKS_READ: u32 = 16;
/// Bytes that a row counts against a piece's budget: it is read and written.
const ROW_BUDGET_BYTES: usize = 96;

/// The progress of a merge.
#[derive(Debug)]
pub enum MergeProgress {
    /// More remains to be written.
    More,
    /// The run is whole and durable.
    Written(Arc<Run>),
    /// The run cannot be made now. No file of it is left, and the old runs stay in use.
    GivenUp {
        /// The reason.
        error: Error,
        /// The run with a damaged block, if that is the reason.
        damaged: Option<RunNumber>,
    },
}

/// The pending rows of one run, in order.
struct Input {
    run: Arc<Run>,
    bits: TwoBits,
    next_block: u32,
    rows: Vec<ScheduleRow>,
    at: usize,
}

impl Input {
    /// The next row. `None` at the end of the run.
    fn peek(
        &mut self,
        buffer: &mut ScanBuffer<ScheduleRow>,
    ) -> std::result::Result<Option<ScheduleRow>, Box<DamagedBlock>> {
        while self.at >= self.rows.len() {
            if self.next_block >= self.run.block_count() {
                return Ok(None);
            }
            let count = BLOCKS_READ.min(self.run.block_count().saturating_sub(self.next_block));
            self.run.read_blocks(self.next_block, count, buffer, &mut self.rows)?;
            self.next_block = self.next_block.saturating_add(count);
            self.run.prefetch(self.next_block, BLOCKS_READ);
            let bits = &self.bits;
            self.rows.retain(|row| bits.get(row.key.sequence) == EntryState::Pending);
            self.at = 0;
        }
        Ok(self.rows.get(self.at).copied())
    }
}

/// The result of a piece of the work.
type Tried<T> = std::result::Result<T, Fault>;

/// The error of a piece.
enum Fault {
    Damaged(Box<DamagedBlock>),
    Other(Error),
}

impl From<Box<DamagedBlock>> for Fault {
    fn from(damage: Box<DamagedBlock>) -> Self {
        Self::Damaged(damage)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Writes one merged run; see the module.
pub struct MergeWriter {
    plan: MergePlan,
    head: RunHead,
    copy_after: Millis,
    inputs: Vec<Input>,
    /// The key of each input's next row, the least on top.
    next: BinaryHeap<Reverse<(DueKey, usize)>>,
    writer: Option<RunWriter<ScheduleRow>>,
    copies: PayloadCopies,
    buffer: ScanBuffer<ScheduleRow>,
}

impl std::fmt::Debug for MergeWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MergeWriter").field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl MergePlan {
    /// Begins the run. In the files to be emptied, payloads due after `copy_after` are copied. Earlier ones
    /// may be in hand already, and their file is removed when they are finished.
    pub fn into_writer(self, number: RunNumber, stream: [u8; 16], copy_after: Millis) -> MergeWriter {
        let inputs = self.inputs.iter().filter_map(|(bits, run)| {
            let run = Arc::clone(run.as_ref()?);
            Some(Input { run, bits: bits.clone(), next_block: 0, rows: Vec::new(), at: 0 })
        });
        MergeWriter {
            inputs: inputs.collect(),
            head: RunHead { number, stream, row_count: self.pending() },
            copy_after,
            plan: self,
            next: BinaryHeap::new(),
            writer: None,
            copies: PayloadCopies::default(),
            buffer: ScanBuffer::default(),
        }
    }
}

impl MergeWriter {
    /// The same writer for a store with loaded runs, which may hold payloads.
    pub(crate) fn knowing(mut self, loaded: LoadedRuns) -> Self {
        self.copies = PayloadCopies::knowing(loaded);
        self
    }

    /// The plan that is being written.
    pub fn plan(&self) -> &MergePlan {
        &self.plan
    }

    /// Reads and writes about `budget_bytes`. Call it until the run is written or abandoned.
    ///
    /// # Errors
    /// `Storage` with `Stopped` if the storage was stopped. Any other failure only abandons the merge.
    pub fn write_piece(&mut self, storage: &dyn Storage, budget_bytes: usize) -> Result<MergeProgress> {
        let fault = match self.write_within(storage, budget_bytes) {
            Ok(progress) => return Ok(progress),
            Err(fault) => fault,
        };
        if let Some(writer) = self.writer.take() {
            // The next open removes a temporary file that is left.
            drop(writer.abandon(storage));
        }
        match fault {
            Fault::Other(error @ Error::Storage { fault: StorageFault::Stopped, .. }) => Err(error),
            Fault::Other(error) => Ok(MergeProgress::GivenUp { error, damaged: None }),
            Fault::Damaged(damage) => {
                let is_gone = !matches!(damage.error, Error::Storage { .. });
                Ok(MergeProgress::GivenUp { damaged: is_gone.then_some(damage.run), error: damage.error })
            }
        }
    }

    fn write_within(&mut self, storage: &dyn Storage, budget_bytes: usize) -> Tried<MergeProgress> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.begin(storage)?,
        };
        let mut left = budget_bytes.max(1);
        while left > 0 {
            match self.write_next(storage, &mut writer) {
                Ok(Some(spent)) => left = left.saturating_sub(spent),
                Ok(None) => return Ok(MergeProgress::Written(Arc::new(writer.finish(storage)?))),
                Err(fault) => {
                    self.writer = Some(writer);
                    return Err(fault);
                }
            }
        }
        let synced = writer.sync();
        self.writer = Some(writer);
        synced?;
        Ok(MergeProgress::More)
    }

    fn begin(&mut self, storage: &dyn Storage) -> Tried<RunWriter<ScheduleRow>> {
        self.next.clear();
        for (at, input) in self.inputs.iter_mut().enumerate() {
            if let Some(row) = input.peek(&mut self.buffer)? {
                self.next.push(Reverse((due_key_of(&row), at)));
            }
        }
        Ok(RunWriter::create(storage, self.head)?)
    }

    /// Writes the next row and returns its cost. `None` if there are no more rows.
    fn write_next(&mut self, storage: &dyn Storage, writer: &mut RunWriter<ScheduleRow>) -> Tried<Option<usize>> {
        let Some(Reverse((_, at))) = self.next.pop() else { return Ok(None) };
        let Some(input) = self.inputs.get_mut(at) else { return Ok(None) };
        let Some(mut row) = input.peek(&mut self.buffer)? else { return Ok(None) };
        input.at = input.at.saturating_add(1);
        if let Some(next) = input.peek(&mut self.buffer)? {
            self.next.push(Reverse((due_key_of(&next), at)));
        }
        row.length = 0;
        if row.size.is_none() {
            // A damaged or missing payload has no size. If it cannot be read now, the merge fails and the
            // next one reads it: the size is written permanently, so a temporary failure must not be
            // recorded.
            row.size = self.copies.size_of(storage, &row)?;
        }
        let mut spent = ROW_BUDGET_BYTES;
        let is_emptied = matches!(row.location.file(), LocationFile::Run(number) if self.plan.copied.contains(&number));
        if is_emptied
            && row.key.due > self.copy_after
            && let Some(placed) = self.copies.copy(storage, &row, writer)?
        {
            row.location = placed.location_in(self.head.number);
            row.length = placed.length;
            spent = spent.saturating_add(self.copies.record_bytes().saturating_mul(2));
        }
        writer.push_row(&row)?;
        Ok(Some(spent))
    }
}
