//! A view of the pending entries in a range of keys at one moment, to be read without blocking the owner. The
//! entries in memory are copied, up to a limit. The view shares only the file of each run and the two bits
//! of each sequence. The feed is not involved.

use std::sync::Arc;

use super::entry::Entry;
use super::feed::cursors::after;
use super::feed::gather::{Gather, Gathered};
use super::schedule::Schedule;
use super::window::bits::TwoBits;
use super::window::lookup::Lookups;
use super::window::{Body, due_key_of, entry_of};
use crate::error::{Error, Result};
use crate::run::{DamagedBlock, Patches, RowScan, Run, ScanBuffer, ScheduleRow};
use crate::schedule_log::window::origins::Origins;
use crate::units::{DueKey, RunNumber, Sequence, SubjectNumber};

/// A run that may hold entries of the range.
#[derive(Debug)]
struct ViewedRun {
    bits: TwoBits,
    run: Arc<Run>,
    patches: Patches<ScheduleRow>,
}

/// A view of pending entries; see the module.
#[derive(Debug)]
pub struct PendingView {
    from: DueKey,
    to: DueKey,
    /// True if `to` is before the end of the requested range.
    cut: bool,
    memory: Vec<Entry>,
    runs: Vec<ViewedRun>,
    /// The origins of the moved entries in `memory`, if there are any.
    origins: Origins,
}

/// A damaged block whose rows are not shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HiddenBlock {
    /// The block, and why it cannot be read.
    pub block: DamagedBlock,
    /// Number of rows in it. Some may be pending, in the range, and of a requested subject.
    pub rows: u64,
}

/// One part of a listing.
#[derive(Debug, Default)]
pub struct ViewedPiece {
    /// The entries, in the order of due time and sequence.
    pub entries: Vec<Entry>,
    /// All requested pending entries up to this key are shown.
    pub to: DueKey,
    /// True if `to` is before the end of the requested range.
    pub cut: bool,
    /// The blocks that could not be read. A block that extends into the next piece is listed in that piece
    /// again.
    pub hidden: Vec<HiddenBlock>,
}

impl Schedule {
    /// The run with the row of this sequence; `None` if the entry is in memory, or ended before its window became a run.
    pub fn run_of(&self, sequence: Sequence) -> Option<RunNumber> {
        if sequence >= self.open_bits.first() {
            return None;
        }
        self.window_of(sequence)?.run().map(|run| run.number())
    }

    /// Returns a view of the pending entries above `from` and up to `to`, inclusive. If more than `limit` of
    /// them are in memory, the view ends with the last of the first `limit`. The time depends on `limit`, not
    /// on the number of pending entries.
    pub fn view(&mut self, from: DueKey, to: DueKey, limit: usize) -> PendingView {
        let mut gather = Gather::new(from, to, limit);
        for window in self.windows.iter_mut().filter(|window| window.pending > 0) {
            if let Body::Memory { entries, index } = &mut window.body {
                index.gather(entries, &window.bits, &mut gather);
            }
        }
        self.open_index.gather(&self.open, &self.open_bits, &mut gather);
        let Gathered { entries: memory, to, cut } = gather.finish();
        let mut runs = Vec::new();
        for window in self.windows.iter().filter(|window| window.pending > 0) {
            if let Body::Run { run, patches } = &window.body
                && run.first_key().is_some_and(|first| first.due_key() <= to)
            {
                runs.push(ViewedRun { bits: window.bits.clone(), run: Arc::clone(run), patches: patches.clone() });
            }
        }
        let is_moved = memory.iter().any(|entry| entry.origin().is_some());
        let origins = if is_moved { self.origins() } else { Origins::default() };
        PendingView { from, to, cut, memory, runs, origins }
    }
}

impl PendingView {
    /// Reads the runs and merges everything: the first `limit` entries of subjects that are `wanted`. This is
    /// slow, but does not hold the owner.
    ///
    /// # Errors
    /// `Storage` if a run could not be read now. Damaged blocks are listed in the answer.
    pub fn read(
        self,
        wanted: &dyn Fn(SubjectNumber) -> bool,
        limit: usize,
        buffer: &mut ScanBuffer<ScheduleRow>,
    ) -> Result<ViewedPiece> {
        let mut gather = Gather::new(self.from, self.to, limit);
        let mut hidden = Vec::new();
        for viewed in &self.runs {
            offer(viewed, wanted, &mut gather, buffer, &mut hidden)?;
        }
        let Gathered { entries, to, cut } = gather.finish();
        let memory = self.memory.into_iter().filter(|entry| entry.key() <= to && wanted(entry.subject()));
        let mut memory: Vec<Entry> = memory.collect();
        hidden.retain(|one: &HiddenBlock| one.block.from.due_key() <= to);
        resolve(&mut memory, &self.origins, &mut hidden)?;
        let mut merged = merged(entries, memory);
        let (mut to, mut cut) = (to, cut || self.cut);
        if merged.len() > limit {
            merged.truncate(limit);
            (to, cut) = (merged.last().map_or(to, Entry::key), true);
        }
        Ok(ViewedPiece { entries: merged, to, cut, hidden })
    }
}

/// Offers the rows of a run that are in the range.
fn offer(
    viewed: &ViewedRun,
    wanted: &dyn Fn(SubjectNumber) -> bool,
    gather: &mut Gather,
    buffer: &mut ScanBuffer<ScheduleRow>,
    hidden: &mut Vec<HiddenBlock>,
) -> Result<()> {
    let (run, from) = (&viewed.run, gather.from());
    let already = hidden.len();
    let mut scan = RowScan::from_block(run, run.first_block(after(from).into()), Some(&viewed.patches), buffer);
    loop {
        match scan.peek() {
            Ok(Some(row)) if due_key_of(&row) > gather.to() => return Ok(()),
            Ok(Some(row)) => {
                if due_key_of(&row) <= from {
                    // Blocks skipped up to here are before the range.
                    hidden.truncate(already);
                } else if wanted(row.subject) {
                    gather.offer(entry_of(&row), &viewed.bits);
                }
                scan.advance();
            }
            Ok(None) => return Ok(()),
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Err(damage) => {
                if damage.from.due_key() > gather.to() {
                    return Ok(());
                }
                let rows = run.rows_in_block(damage.block) as u64;
                hidden.push(HiddenBlock { block: *damage, rows });
                scan.skip_block();
            }
        }
    }
}

/// Takes the attempt and the payload of moved entries from their origins. If an origin cannot be read, its
/// block is listed, and the entry is shown with the fields that are known.
fn resolve(entries: &mut [Entry], origins: &Origins, hidden: &mut Vec<HiddenBlock>) -> Result<()> {
    let unresolved = |(place, entry): (usize, &Entry)| Some((entry.origin()?, place));
    let mut moved: Vec<(DueKey, usize)> = entries.iter().enumerate().filter_map(unresolved).collect();
    moved.sort_unstable();
    let mut lookups = Lookups::default();
    for (origin, place) in moved {
        let row = match origins.find(&mut lookups, origin) {
            Ok(row) => row,
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Err(damage) => {
                if hidden.iter().all(|one| (one.block.run, one.block.block) != (damage.run, damage.block)) {
                    hidden.push(HiddenBlock { block: *damage, rows: 0 });
                }
                None
            }
        };
        if let Some(entry) = entries.get_mut(place) {
            *entry = entry.with_payload_of(row);
        }
    }
    Ok(())
}

/// Merges two sorted lists.
fn merged(left: Vec<Entry>, right: Vec<Entry>) -> Vec<Entry> {
    if left.is_empty() || right.is_empty() {
        return if left.is_empty() { right } else { left };
    }
    let mut merged = Vec::with_capacity(left.len().saturating_add(right.len()));
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let next = if first.key() < second.key() { left.next() } else { right.next() };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    merged
}
