//! Searches other runs for messages that neither the log nor the present run has whole: a merged run that is still
//! kept, or a run with a copy of the payload. All rows of all runs are read, which is slow, but rarely needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::basis::Basis;
use super::log_entries::LogRow;
use crate::error::{Error, Result};
use crate::run::{DispatchRow, Row, RowScan, Run, RunKind, ScanBuffer, ScheduleRow};
use crate::schedule_log::row_of;
use crate::store::rebuild::expected_rows::{expected, unless_unread};
use crate::store::rebuild::finding::RebuildFinding;
use crate::store::salvage::payloads::Payloads;
use crate::units::{Location, Sequence};

/// A pending message that was not found whole.
pub(super) struct Doubt {
    pub(super) sequence: Sequence,
    pub(super) log: Option<LogRow>,
    /// The row in the present run.
    pub(super) row: Option<ScheduleRow>,
    /// The finding to report if the message is found after all.
    pub(super) finding: RebuildFinding,
    pub(super) words: Arc<str>,
}

impl Doubt {
    /// The expected row, as far as it is known; its payload is still searched.
    fn expected(&self) -> Option<ScheduleRow> {
        match (&self.log, &self.row) {
            (Some(log), Some(row)) => Some(expected(log, row)),
            (Some(log), None) if log.is_rooted => Some(row_of(&log.entry)),
            (_, row) => *row,
        }
    }
}

/// The rows and payloads found in other runs.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// The rows of pending messages.
    rows: BTreeMap<Sequence, ScheduleRow>,
    /// The possible places of payloads.
    places: BTreeMap<Sequence, Vec<Location>>,
}

impl Elsewhere {
    /// Reads the rows of all runs if there are doubts.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn find(basis: &Basis, doubts: &[Doubt]) -> Result<Self> {
        let mut found = Self::default();
        if doubts.is_empty() {
            return Ok(found);
        }
        let mut wanted: BTreeMap<Sequence, Option<ScheduleRow>> = BTreeMap::new();
        for doubt in doubts {
            wanted.insert(doubt.sequence, None);
            if let Some(row) = doubt.expected() {
                found.places.entry(row.payload_sequence).or_default();
            }
        }
        found.read_rows(basis, &mut wanted)?;
        // A row that was found may have copies of its payload in more places.
        let mut is_more = false;
        for (sequence, row) in wanted {
            if let Some(row) = row {
                is_more = is_more || !found.places.contains_key(&row.payload_sequence);
                found.places.entry(row.payload_sequence).or_default();
                found.rows.insert(sequence, row);
            }
        }
        if is_more {
            found.read_rows(basis, &mut BTreeMap::new())?;
        }
        Ok(found)
    }

    /// Reads the rows of all runs to find the possible places of these payloads.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn of_payloads(basis: &Basis, payloads: impl Iterator<Item = Sequence>) -> Result<Self> {
        let places = payloads.map(|sequence| (sequence, Vec::new())).collect();
        let mut found = Self { places, ..Self::default() };
        found.read_rows(basis, &mut BTreeMap::new())?;
        Ok(found)
    }

    /// Returns a place at which a payload can be read.
    ///
    /// # Errors
    /// `NewerFormat`, `Storage`.
    pub(super) fn place_of(
        &self,
        payload: Sequence,
        may_be: &dyn Fn(&Location) -> bool,
        payloads: &mut Payloads,
    ) -> Result<Option<Location>> {
        let mut record = Vec::new();
        for location in self.places.get(&payload).into_iter().flatten().filter(|location| may_be(location)) {
            if unless_unread(payloads.read(*location, payload, &mut record))?.is_ok() {
                return Ok(Some(*location));
            }
        }
        Ok(None)
    }

    fn read_rows(&mut self, basis: &Basis, wanted: &mut BTreeMap<Sequence, Option<ScheduleRow>>) -> Result<()> {
        for run in basis.runs.values() {
            if run.kind() == RunKind::Dispatch {
                readable_rows(run, &mut |row: &DispatchRow| self.note(row))?;
                continue;
            }
            readable_rows(run, &mut |row: &ScheduleRow| {
                self.note(row);
                if let Some(place) = wanted.get_mut(&row.key.sequence)
                    && row.location != Location::NOWHERE
                {
                    *place = Some(*row);
                }
            })?;
        }
        Ok(())
    }

    fn note<R: Row>(&mut self, row: &R) {
        if let Some(places) = self.places.get_mut(&row.payload_sequence())
            && row.location() != Location::NOWHERE
            && !places.contains(&row.location())
        {
            places.push(row.location());
        }
    }

    /// Returns the row of a doubtful message, pointing to a readable payload; `None` if no file has the message whole.
    ///
    /// # Errors
    /// `NewerFormat`, `Storage`.
    pub(super) fn row_of(&self, doubt: &Doubt, payloads: &mut Payloads) -> Result<Option<ScheduleRow>> {
        let beside = self.rows.get(&doubt.sequence);
        let known = match (doubt.expected(), beside, &doubt.log) {
            (Some(row), _, _) => row,
            (None, Some(row), Some(log)) => expected(log, row),
            (None, Some(row), None) => *row,
            (None, None, _) => return Ok(None),
        };
        let place = self.place_of(known.payload_sequence, &|_| true, payloads)?;
        Ok(place.map(|location| ScheduleRow { location, length: 0, ..known }))
    }
}

/// Shows the readable rows of a run; a damaged block is skipped.
fn readable_rows<R: Row>(run: &Arc<Run>, show: &mut dyn FnMut(&R)) -> Result<()> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<R>::from_block(run, 0, None, &mut buffer);
    loop {
        match scan.next_row() {
            Ok(Some(row)) => show(&row),
            Ok(None) => return Ok(()),
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => return Err(damage.error),
            Err(_) => scan.skip_block(),
        }
    }
}
