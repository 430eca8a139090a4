//! What is pending in a range of keys as of one moment, to be looked at with nobody waiting: what is
//! in memory is copied, as far as the piece goes, and of runs only the file and the two bits of each
//! sequence are taken along, both shared. Feeding takes no part in it.

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
use crate::units::{DueKey, SubjectNumber};

/// A run that may hold entries of the range.
#[derive(Debug)]
struct ViewedRun {
    bits: TwoBits,
    run: Arc<Run>,
    patches: Patches<ScheduleRow>,
}

/// See the module.
#[derive(Debug)]
pub struct PendingView {
    from: DueKey,
    to: DueKey,
    /// True where `to` is not the end of what was asked for.
    cut: bool,
    memory: Vec<Entry>,
    runs: Vec<ViewedRun>,
    /// Where moved entries have their origins, where there are any in `memory`.
    origins: Origins,
}

/// A block whose rows are not shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HiddenBlock {
    /// Which, and why.
    pub block: DamagedBlock,
    /// Rows in it; some may have been pending, in the range, and of a subject that was asked for.
    pub rows: u64,
}

/// A piece of a list.
#[derive(Debug, Default)]
pub struct ViewedPiece {
    /// In the order of due time and sequence.
    pub entries: Vec<Entry>,
    /// All that is pending up to this key, and was asked for, was shown.
    pub to: DueKey,
    /// True where `to` is not the end of what was asked for.
    pub cut: bool,
    /// What could not be read; a block that reaches into the next piece is named by that, too.
    pub hidden: Vec<HiddenBlock>,
}

impl Schedule {
    /// What is pending above `from` and up to `to`, which is included. Where more than `limit`
    /// entries of it are in memory, the view ends with the last of so many. Takes as long as so many
    /// entries need, and not as long as what is pending does.
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
    /// Reads the runs and puts it together: the first `limit` entries of subjects that are `wanted`.
    /// Slow, and holds nobody up.
    ///
    /// # Errors
    /// `Storage` where a run could not be read now. What is damaged is in the answer.
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

/// Offers what a run holds in the range.
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
                    // What was passed on the way here lies before the range.
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

/// Moved entries learn from their origins which delivery they wait for, and of which message. Where an origin
/// cannot be read its block is named, and the entry is shown with what is known of it.
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

/// Two sorted lists as one.
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
