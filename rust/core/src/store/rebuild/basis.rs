//! The input of a rebuild: a checkpoint with those of its runs that can be opened, and the log.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::run::{LoadedRuns, Run, RunKind, ScanBuffer, ScheduleRow};
use crate::storage::Storage;
use crate::store::checkpoint::file::{ReadCheckpoint, read_checkpoint};
use crate::store::checkpoint::paths::list_checkpoints;
use crate::store::recovery::restoration::open_run;
use crate::units::{RunNumber, SegmentNumber, Sequence};

/// The number of blocks of a loaded run that are read at once.
const BLOCKS_READ: u32 = 16;

/// The input of a rebuild: see the module.
pub(super) struct Basis {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) stream: Stream,
    pub(super) read: ReadCheckpoint,
    /// The runs that the checkpoint names and that can be opened.
    pub(super) runs: BTreeMap<RunNumber, Arc<Run>>,
    /// The other runs, and why they cannot be opened.
    pub(super) lost: BTreeMap<RunNumber, Error>,
    /// The loaded runs among `runs`.
    pub(super) loaded: LoadedRuns,
}

/// A segment, and the sequences of its facts.
#[derive(Clone, Debug)]
pub(super) struct SegmentFacts {
    pub(super) number: SegmentNumber,
    /// The offset after its last batch as of the checkpoint, if later batches may follow there; otherwise `u32::MAX`.
    pub(super) to: u32,
    pub(super) sequences: Range<Sequence>,
}

/// Returns the newest readable checkpoint, which an open would choose; `None` if there is no checkpoint.
///
/// # Errors
/// The error of the newest checkpoint, if none can be read; `NewerFormat`, `Storage`.
pub(super) fn newest_checkpoint(storage: &dyn Storage, stream: &Stream) -> Result<Option<ReadCheckpoint>> {
    let mut refused = None;
    for number in list_checkpoints(storage)?.into_iter().rev() {
        match read_checkpoint(storage, stream, number) {
            Ok(read) => return Ok(Some(read)),
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) => drop(refused.get_or_insert(error)),
        }
    }
    refused.map_or(Ok(None), Err)
}

impl Basis {
    /// Opens the runs that the checkpoint names, as far as possible.
    ///
    /// # Errors
    /// `NewerFormat`, `Storage`.
    pub(super) fn of(storage: &Arc<dyn Storage>, stream: Stream, read: ReadCheckpoint) -> Result<Self> {
        let (mut runs, mut lost) = (BTreeMap::new(), BTreeMap::new());
        let schedule = read.files.schedule_runs.iter().map(|named| (named, RunKind::Schedule));
        let dispatch = read.files.dispatch_runs.iter().map(|named| (named, RunKind::Dispatch));
        for (named, kind) in schedule.chain(dispatch) {
            match open_run(storage, stream, kind, named, &read) {
                Ok(run) => drop(runs.insert(named.number, run)),
                Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
                Err(error) => drop(lost.insert(named.number, error)),
            }
        }
        let loaded = LoadedRuns::among(runs.values());
        Ok(Self { storage: Arc::clone(storage), stream, read, runs, lost, loaded })
    }

    /// The segments kept as of the checkpoint, the newest first.
    pub(super) fn segments(&self) -> Vec<SegmentFacts> {
        let starts = &self.read.snapshot.segments;
        let end_of_log = self.read.snapshot.position.end;
        let ends = starts.iter().skip(1).map(|next| next.position.next_sequence);
        let ends = ends.chain([self.read.snapshot.position.next_sequence]);
        let facts = starts.iter().zip(ends).map(|(start, end)| SegmentFacts {
            number: start.segment,
            to: if end_of_log.segment() == Some(start.segment) { end_of_log.offset() } else { u32::MAX },
            sequences: start.position.next_sequence..end,
        });
        let mut facts: Vec<SegmentFacts> = facts.collect();
        facts.reverse();
        facts
    }

    /// The loaded run with the message of this sequence, and the message's place in the run.
    pub(super) fn loaded_at(&self, sequence: Sequence) -> Option<(&Arc<Run>, u64)> {
        self.loaded.iter().find_map(|run| {
            let place = run.relation()?.relative(sequence)?.0;
            (place < run.row_count()).then_some((run, place))
        })
    }

    /// Shows the readable rows of loaded runs for these ascending sequences. The log has no more of a loaded message,
    /// since its fact only names the run.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn loaded_rows(
        &self,
        sequences: impl Iterator<Item = Sequence>,
        show: &mut dyn FnMut(&ScheduleRow),
    ) -> Result<()> {
        let mut piece = LoadedPiece::default();
        for sequence in sequences {
            let Some((run, place)) = self.loaded_at(sequence) else { continue };
            if let Some(row) = piece.row(run, place)?.filter(|row| row.key.sequence == sequence) {
                show(&row);
            }
        }
        Ok(())
    }
}

/// A few blocks of a loaded run in memory. Rows of a loaded run are in sequence order.
#[derive(Default)]
struct LoadedPiece {
    run: Option<RunNumber>,
    /// The place of the first row in the run.
    first: u64,
    /// The number of rows requested; `rows` is empty if one of their blocks is damaged.
    count: u64,
    rows: Vec<ScheduleRow>,
    buffer: ScanBuffer<ScheduleRow>,
}

impl LoadedPiece {
    fn row(&mut self, run: &Arc<Run>, place: u64) -> Result<Option<ScheduleRow>> {
        let is_here =
            self.run == Some(run.number()) && (self.first..self.first.saturating_add(self.count)).contains(&place);
        if !is_here {
            self.read(run, place)?;
        }
        let at = usize::try_from(place.saturating_sub(self.first)).unwrap_or(usize::MAX);
        Ok(self.rows.get(at).copied())
    }

    fn read(&mut self, run: &Arc<Run>, place: u64) -> Result<()> {
        let block_rows = crate::run::BLOCK_ROWS as u64;
        let block = u32::try_from(place / block_rows).unwrap_or(u32::MAX);
        let blocks = BLOCKS_READ.min(run.block_count().saturating_sub(block));
        self.run = Some(run.number());
        self.first = u64::from(block).saturating_mul(block_rows);
        // If a block is damaged, retry with one block, so that only the rows of the damaged block are lost.
        for count in [blocks, 1] {
            self.count = u64::from(count).saturating_mul(block_rows);
            match run.read_blocks(block, count, &mut self.buffer, &mut self.rows) {
                Ok(()) => return Ok(()),
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(_) => self.rows.clear(),
            }
        }
        Ok(())
    }
}
