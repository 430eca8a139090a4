//! Counts the pending entries of a subject in each minute, for all due times: from the cells of runs, less
//! the entries that ended since the runs were written, and from the entries in memory. If a run has no cells,
//! or the entries that ended are unknown, its rows are read.

use std::sync::Arc;

use super::ended::{EndedView, JoinedEnded};
use super::horizon_pages::HorizonPages;
use crate::error::{Error, Result};
use crate::run::{Cell, Patches, RowScan, Run, ScanBuffer, ScheduleRow};
use crate::schedule_log::count::cells::Cells;
use crate::schedule_log::entry::Entry;
use crate::schedule_log::feed::recent::Recent;
use crate::schedule_log::schedule::Schedule;
use crate::schedule_log::window::bits::{EntryState, TwoBits};
use crate::schedule_log::window::{Body, entry_of};
use crate::units::{Minute, Sequence, SubjectNumber, Tally};

/// Returns the bytes of an entry's body, for entries without a size.
pub type SizeOf<'a> = &'a dyn Fn(&Entry) -> u32;

/// The counts at one moment, to be read without blocking the owner; see the module.
#[derive(Debug)]
pub struct HorizonView {
    subject: Option<SubjectNumber>,
    /// The pending entries of the open window, one by one: adding them up takes longer than copying them.
    open: Vec<(SubjectNumber, Minute, u32)>,
    frozen: Vec<(Arc<Recent>, TwoBits)>,
    runs: Vec<ViewedCells>,
}

/// A run with pending entries.
#[derive(Debug)]
struct ViewedCells {
    run: Arc<Run>,
    bits: TwoBits,
    patches: Patches<ScheduleRow>,
    /// `None` if the rows must be read.
    ended: Option<EndedView>,
    below: Minute,
}

/// The result of reading a view.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Horizon {
    /// The counts of pending entries.
    pub cells: Cells,
    /// Rows in blocks that cannot be read. Some may be pending.
    pub hidden_rows: u64,
}

impl Schedule {
    /// Returns a view of the pending entries of a subject, or of all. Reads all entries that no checkpoint
    /// has moved to a run yet.
    pub fn horizon(&self, subject: Option<SubjectNumber>) -> HorizonView {
        let asked = self.open.iter().filter(|entry| is_asked(entry, subject, &self.open_bits));
        let open =
            asked.map(|entry| (entry.subject(), entry.due().minute(), entry.size().unwrap_or_default())).collect();
        let (mut frozen, mut runs) = (Vec::new(), Vec::new());
        for window in self.windows.iter().filter(|window| window.pending > 0) {
            match &window.body {
                Body::Memory { entries, .. } => frozen.push((Arc::clone(entries), window.bits.clone())),
                Body::Run { run, patches } => runs.push(ViewedCells {
                    run: Arc::clone(run),
                    bits: window.bits.clone(),
                    patches: patches.clone(),
                    ended: window.ended.view(subject),
                    below: window.ended.below(),
                }),
                Body::Empty => {}
            }
        }
        HorizonView { subject, open, frozen, runs }
    }

    /// Takes over layers of ended entries that a checkpoint has joined, for windows that begin at these
    /// sequences.
    pub fn take_joined_ended(&mut self, joined: &[(Sequence, JoinedEnded)]) {
        for (first, joined) in joined {
            if let Some(window) = self.window_at(*first).and_then(|at| self.windows.get_mut(at)) {
                let rows = window.rows();
                window.ended.take_joined(joined, rows);
            }
        }
    }
}

impl HorizonView {
    /// True if rows of a run must be read, because the entries that ended are unknown.
    pub fn reads_rows(&self) -> bool {
        self.runs.iter().any(|viewed| viewed.ended.is_none())
    }

    /// Adds up the view. `size_of` is called for entries without a size.
    ///
    /// # Errors
    /// `Storage` if a run could not be read now. The rows of damaged blocks are counted instead.
    pub fn read(self, size_of: SizeOf<'_>) -> Result<Horizon> {
        let mut pages = HorizonPages::new(self.subject);
        let mut hidden_rows = 0;
        for (subject, minute, size) in self.open {
            pages.add(subject, minute, Tally::one(size));
        }
        for (entries, bits) in &self.frozen {
            entries.iter().for_each(|entry| count(&mut pages, entry, self.subject, bits, size_of));
        }
        let mut read = Vec::new();
        for viewed in &self.runs {
            if !viewed.add_cells(self.subject, &mut read, &mut pages)? {
                hidden_rows = viewed.add_rows(self.subject, size_of, &mut pages)?.saturating_add(hidden_rows);
            }
        }
        Ok(Horizon { cells: pages.into_cells(), hidden_rows })
    }
}

impl ViewedCells {
    /// Adds the counts of the cells, less the entries that ended. Returns false and adds nothing if these are
    /// unknown or a cell is damaged. All cells are read first, into a buffer that is reused for each run,
    /// since the last cell may be damaged.
    fn add_cells(
        &self,
        subject: Option<SubjectNumber>,
        read: &mut Vec<Cell>,
        pages: &mut HorizonPages,
    ) -> Result<bool> {
        let Some(ended) = &self.ended else { return Ok(false) };
        read.clear();
        match self.run.each_cell(subject, &mut |cell| read.push(cell)) {
            Ok(()) => {}
            Err(error @ Error::Storage { .. }) => return Err(error),
            // The cells are damaged. The rows hold the same counts.
            Err(_) => return Ok(false),
        }
        let mut ended = ended.read();
        for cell in read.iter().filter(|cell| cell.minute >= self.below) {
            let mut tally = cell.tally;
            tally.take(ended.at(cell.key()));
            pages.add(cell.subject, cell.minute, tally);
        }
        Ok(true)
    }

    /// Adds the counts of the rows, and returns how many rows could not be read.
    fn add_rows(&self, subject: Option<SubjectNumber>, size_of: SizeOf<'_>, pages: &mut HorizonPages) -> Result<u64> {
        let mut hidden_rows = 0_u64;
        let mut buffer = ScanBuffer::default();
        let mut scan = RowScan::from_block(&self.run, 0, Some(&self.patches), &mut buffer);
        loop {
            match scan.next_row() {
                Ok(None) => return Ok(hidden_rows),
                Ok(Some(row)) => count(pages, &entry_of(&row), subject, &self.bits, size_of),
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(damage) => {
                    let rows = self.run.rows_in_block(damage.block) as u64;
                    hidden_rows = hidden_rows.saturating_add(rows);
                    scan.skip_block();
                }
            }
        }
    }
}

#[inline]
fn count(pages: &mut HorizonPages, entry: &Entry, subject: Option<SubjectNumber>, bits: &TwoBits, size_of: SizeOf<'_>) {
    if is_asked(entry, subject, bits) {
        let size = entry.size().unwrap_or_else(|| size_of(entry));
        pages.add(entry.subject(), entry.due().minute(), Tally::one(size));
    }
}

#[inline]
fn is_asked(entry: &Entry, subject: Option<SubjectNumber>, bits: &TwoBits) -> bool {
    subject.is_none_or(|subject| subject == entry.subject()) && bits.get(entry.sequence()) == EntryState::Pending
}
