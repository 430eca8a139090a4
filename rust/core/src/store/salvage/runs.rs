//! All runs of the store, whether or not a checkpoint names them: the rows of a run that no readable checkpoint names
//! may be the last trace of a message.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::message_log::Stream;
use crate::run::{DispatchRow, LoadedRuns, Row, RowScan, Run, ScanBuffer, ScheduleRow, list_runs};
use crate::schedule_log::Entry;
use crate::storage::Storage;
use crate::units::{DueKey, ReadyNumber, Sequence};

/// The runs whose footers can be read.
pub(in crate::store) struct Runs {
    readable: Vec<Arc<Run>>,
    /// The loaded runs, as the state under examination has them.
    loaded: LoadedRuns,
    /// The errors of other runs, and of blocks of the runs that were read.
    damage: Vec<Error>,
    /// The texts of errors in `damage`, so that each damaged block is reported once.
    told: BTreeSet<String>,
}

impl Runs {
    /// Opens all runs. A run of a newer format counts as damage, since it may be stray; its messages are then missing
    /// and reported. If a readable checkpoint names the run, salvage ends with an error elsewhere.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::store) fn read(storage: &dyn Storage, stream: Stream) -> Result<Self> {
        let mut read =
            Self { readable: Vec::new(), loaded: LoadedRuns::default(), damage: Vec::new(), told: BTreeSet::new() };
        for number in list_runs(storage)? {
            match Run::open_any(storage, number, &stream.id) {
                Ok(run) => read.readable.push(Arc::new(run)),
                Err(error @ Error::Storage { .. }) if !error.is_not_found() => return Err(error),
                Err(error) => read.tell(error),
            }
        }
        Ok(read)
    }

    /// The sequence after the last one that any run has.
    pub(in crate::store) fn end(&self) -> Sequence {
        self.readable.iter().map(|run| run.last_sequence().next()).max().unwrap_or_default()
    }

    /// Sets the loaded runs.
    pub(super) fn know_loaded(&mut self, loaded: &LoadedRuns) {
        self.loaded = loaded.clone();
    }

    /// Takes the damage found up to now.
    pub(super) fn take_damage(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.damage)
    }

    /// Shows the rows of all schedule runs.
    ///
    /// # Errors
    /// `Storage`: it is unknown whether the content of an unread block is lost.
    pub(super) fn each_schedule_row(&mut self, show: &mut dyn FnMut(&ScheduleRow)) -> Result<()> {
        self.each_row(Sequence(0), show)
    }

    /// Shows the entries of all runs with sequences from `least` on, with their ready numbers if they became ready.
    /// Dispatch runs come first.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn each_entry(
        &mut self,
        least: Sequence,
        show: &mut dyn FnMut(Entry, Option<ReadyNumber>),
    ) -> Result<()> {
        self.each_row(least, &mut |row: &DispatchRow| {
            let key = DueKey { due: row.due, sequence: row.sequence };
            show(Entry::new(key, row.attempt, row.payload_sequence, row.location, row.subject), Some(row.number));
        })?;
        self.each_row(least, &mut |row: &ScheduleRow| {
            show(Entry::new(row.key, row.attempt, row.payload_sequence, row.location, row.subject), None);
        })
    }

    fn each_row<R: Row>(&mut self, least: Sequence, show: &mut dyn FnMut(&R)) -> Result<()> {
        let mut buffer = ScanBuffer::default();
        let mut damaged = Vec::new();
        let has_some = |run: &&Arc<Run>| run.kind() == R::KIND && run.last_sequence() >= least;
        for run in self.readable.iter().chain(self.loaded.iter()).filter(has_some) {
            let mut scan = RowScan::<R>::from_block(run.as_ref(), 0, None, &mut buffer);
            loop {
                match scan.next_row() {
                    Ok(None) => break,
                    Ok(Some(row)) => show(&row),
                    Err(block) if matches!(block.error, Error::Storage { .. }) => return Err(block.error),
                    Err(block) => {
                        damaged.push(block.error);
                        scan.skip_block();
                    }
                }
            }
        }
        for error in damaged {
            self.tell(error);
        }
        Ok(())
    }

    fn tell(&mut self, error: Error) {
        if self.told.insert(error.to_string()) {
            self.damage.push(error);
        }
    }
}
