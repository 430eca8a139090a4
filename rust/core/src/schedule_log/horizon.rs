//! What is pending of a subject in each minute, over the whole horizon: from the cells of runs without what
//! has ended since they were written, and from entries in memory. Of a run that has no cells, or of which
//! it is not known what ended, the rows are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bits::{EntryState, TwoBits};
use super::ended::EndedCells;
use super::entry::Entry;
use super::recent::Recent;
use super::schedule::Schedule;
use super::window::{Body, entry_of};
use crate::error::{Error, Result};
use crate::run::{Patches, RowScan, Run, ScanBuffer, ScheduleRow};
use crate::units::{Minute, SubjectNumber, Tally};

/// By subject and minute; nothing that is empty.
pub type Cells = BTreeMap<(SubjectNumber, Minute), Tally>;

/// Bytes of an entry's body, where the entry does not know.
pub type SizeOf<'a> = &'a dyn Fn(&Entry) -> u32;

/// See the module: as of one moment, to be read with nobody waiting.
#[derive(Debug)]
pub struct HorizonView {
    subject: Option<SubjectNumber>,
    /// What is pending in the open window, one by one: putting it together takes longer than copying it.
    open: Vec<(SubjectNumber, Minute, u32)>,
    frozen: Vec<(Arc<Recent>, TwoBits)>,
    runs: Vec<ViewedCells>,
}

/// A run in which something is pending.
#[derive(Debug)]
struct ViewedCells {
    run: Arc<Run>,
    bits: TwoBits,
    patches: Patches<ScheduleRow>,
    /// None where the rows have to be read.
    ended: Option<EndedCells>,
    below: Minute,
}

/// What a view came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Horizon {
    /// What is pending.
    pub cells: Cells,
    /// Rows in blocks that cannot be read: some may have been pending.
    pub hidden_rows: u64,
}

impl Schedule {
    /// What is pending of a subject, or of all. Looks through the entries that no checkpoint has taken yet.
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
                    ended: window.ended.of(subject).filter(|_| run.has_cells()),
                    below: window.ended.below(),
                }),
                Body::Empty => {}
            }
        }
        HorizonView { subject, open, frozen, runs }
    }
}

impl HorizonView {
    /// Puts it together. `size_of` is asked for rows of formats that do not say it.
    ///
    /// # Errors
    /// `Storage` where a run could not be read now. Damaged blocks are counted instead.
    pub fn read(self, size_of: SizeOf<'_>) -> Result<Horizon> {
        let mut found = Horizon::default();
        for (subject, minute, size) in self.open {
            add(&mut found.cells, (subject, minute), Tally::one(size));
        }
        for (entries, bits) in &self.frozen {
            entries.iter().for_each(|entry| count(&mut found.cells, entry, self.subject, bits, size_of));
        }
        for viewed in &self.runs {
            match viewed.cells(self.subject) {
                Some(Ok(cells)) => cells.into_iter().for_each(|(key, tally)| add(&mut found.cells, key, tally)),
                Some(Err(error @ Error::Storage { .. })) => return Err(error),
                // Its cells are damaged: the rows say the same.
                Some(Err(_)) | None => viewed.count_rows(self.subject, size_of, &mut found)?,
            }
        }
        Ok(found)
    }
}

impl ViewedCells {
    /// What the cells say, without what has ended; `None` where that is not known.
    fn cells(&self, subject: Option<SubjectNumber>) -> Option<Result<Cells>> {
        let ended = self.ended.as_ref()?;
        let mut cells = Cells::new();
        let read = self.run.each_cell(subject, &mut |cell| {
            if cell.minute < self.below {
                return;
            }
            let key = (cell.subject, cell.minute);
            let mut tally = cell.tally;
            if let Some(ended) = ended.get(&key) {
                tally.take(*ended);
            }
            add(&mut cells, key, tally);
        });
        Some(read.map(|()| cells))
    }

    fn count_rows(&self, subject: Option<SubjectNumber>, size_of: SizeOf<'_>, found: &mut Horizon) -> Result<()> {
        let mut buffer = ScanBuffer::default();
        let mut scan = RowScan::from_block(&self.run, 0, Some(&self.patches), &mut buffer);
        loop {
            match scan.next_row() {
                Ok(None) => return Ok(()),
                Ok(Some(row)) => count(&mut found.cells, &entry_of(&row), subject, &self.bits, size_of),
                Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
                Err(damage) => {
                    let rows = self.run.rows_in_block(damage.block) as u64;
                    found.hidden_rows = found.hidden_rows.saturating_add(rows);
                    scan.skip_block();
                }
            }
        }
    }
}

fn add(cells: &mut Cells, key: (SubjectNumber, Minute), tally: Tally) {
    if !tally.is_empty() {
        cells.entry(key).or_default().add(tally);
    }
}

#[inline]
fn count(cells: &mut Cells, entry: &Entry, subject: Option<SubjectNumber>, bits: &TwoBits, size_of: SizeOf<'_>) {
    if is_asked(entry, subject, bits) {
        let size = entry.size().unwrap_or_else(|| size_of(entry));
        add(cells, (entry.subject(), entry.due().minute()), Tally::one(size));
    }
}

#[inline]
fn is_asked(entry: &Entry, subject: Option<SubjectNumber>, bits: &TwoBits) -> bool {
    subject.is_none_or(|subject| subject == entry.subject()) && bits.get(entry.sequence()) == EntryState::Pending
}
