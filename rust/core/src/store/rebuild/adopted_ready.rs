//! Ready messages whose payloads are in a run that cannot be opened. If the log or another run still has the payloads,
//! the rows of these messages are written again, since a checkpoint must name every run that rows point into.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::NAMED_MAX;
use super::basis::Basis;
use super::other_copies::Elsewhere;
use crate::error::{Error, Result};
use crate::message_log::sift_segment;
use crate::record::message::KIND_MESSAGE;
use crate::run::{DispatchRow, RowScan, Run, RunHead, RunWriter, ScanBuffer, run_path};
use crate::storage::Storage;
use crate::store::rebuild::unfinished_ready::unfinished_ready;
use crate::store::salvage::payloads::{Payloads, each_record};
use crate::store::state::State;
use crate::units::{Location, LocationFile, RunNumber, Sequence};

/// A run of ready messages that must be written again.
pub(super) struct Rewriting {
    /// The run as it is now.
    pub(super) run: Arc<Run>,
    number: RunNumber,
    lost: BTreeSet<RunNumber>,
    places: BTreeMap<Sequence, Location>,
    /// The location for rows that no reader needs any more.
    nowhere: Location,
}

/// Returns the unfinished runs of ready messages that point into runs that cannot be opened. The new runs are numbered
/// from `next` on.
///
/// # Errors
/// `MissingFile` if only such a run has a needed payload; `Corrupt` if rows cannot be read; `NewerFormat`, `Storage`.
pub(super) fn rewritings(basis: &Basis, state: &State, next: RunNumber) -> Result<Vec<Rewriting>> {
    let lost: BTreeSet<RunNumber> = basis.lost.keys().copied().collect();
    let mut found = Vec::new();
    let mut number = next;
    for run in unfinished_ready(state) {
        let points = run.references().iter().any(|reference| is_lost(reference.file, &lost) && reference.rows > 0);
        if points {
            let places = places_of(basis, state, &run, &lost)?;
            let nowhere = Location::in_segment(basis.read.files.floor, 0);
            found.push(Rewriting { run, number, lost: lost.clone(), places, nowhere });
            number = number.next();
        }
    }
    Ok(found)
}

fn is_lost(file: LocationFile, lost: &BTreeSet<RunNumber>) -> bool {
    matches!(file, LocationFile::Run(run) if lost.contains(&run))
}

/// Shows each row of a run; an unreadable row is an error.
fn every_row(run: &Run, show: &mut dyn FnMut(&DispatchRow) -> Result<()>) -> Result<()> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<DispatchRow>::from_block(run, 0, None, &mut buffer);
    while let Some(row) = scan.next_row().map_err(|damage| damage.error)? {
        show(&row)?;
    }
    Ok(())
}

/// Finds other places of the payloads that unfinished rows have in lost runs.
fn places_of(
    basis: &Basis,
    state: &State,
    run: &Run,
    lost: &BTreeSet<RunNumber>,
) -> Result<BTreeMap<Sequence, Location>> {
    let mut wanted: BTreeMap<Sequence, Location> = BTreeMap::new();
    every_row(run, &mut |row| {
        let is_needed = row.number >= state.dispatch.listed_from(row.subject)
            && state.subjects.get(row.subject).is_none_or(|subject| !subject.gone.contains(row.number.0));
        if is_lost(row.location.file(), lost) && is_needed {
            wanted.insert(row.payload_sequence, row.location);
        }
        Ok(())
    })?;
    let mut places = BTreeMap::new();
    for segment in basis.segments() {
        if wanted.range(segment.sequences.clone()).next().is_none() {
            continue;
        }
        let place = (segment.number, segment.sequences.start, segment.to);
        sift_segment(&basis.storage, basis.stream, place, &basis.read.files.holes, &mut |find| {
            each_record(&find, &mut |record, location| {
                let is_meant = record.header.kind == KIND_MESSAGE && wanted.contains_key(&record.sequence);
                if is_meant && record.payload_is_whole() {
                    places.insert(record.sequence, location);
                }
            });
        })?;
    }
    let mut missing: BTreeMap<Sequence, Location> = wanted;
    missing.retain(|sequence, _| !places.contains_key(sequence));
    places.extend(in_runs(basis, &missing, lost)?);
    missing.retain(|sequence, _| !places.contains_key(sequence));
    let Some((_, first)) = missing.first_key_value() else { return Ok(places) };
    let path = match first.file() {
        LocationFile::Run(number) => run_path(number),
        LocationFile::Segment(_) => run_path(run.number()),
    };
    let named: Vec<String> = missing.keys().take(NAMED_MAX).map(Sequence::to_string).collect();
    let reason =
        format!("{} ready messages have their payloads there alone, of sequences {}", missing.len(), named.join(", "));
    Err(Error::MissingFile { path, reason })
}

/// Finds places of these payloads in runs that can be opened.
fn in_runs(
    basis: &Basis,
    missing: &BTreeMap<Sequence, Location>,
    lost: &BTreeSet<RunNumber>,
) -> Result<BTreeMap<Sequence, Location>> {
    let mut found = BTreeMap::new();
    if missing.is_empty() {
        return Ok(found);
    }
    let elsewhere = Elsewhere::of_payloads(basis, missing.keys().copied())?;
    let mut payloads = Payloads::new(&basis.storage, &basis.loaded);
    for sequence in missing.keys() {
        let is_named = |location: &Location| !is_lost(location.file(), lost);
        found.extend(elsewhere.place_of(*sequence, &is_named, &mut payloads)?.map(|place| (*sequence, place)));
    }
    Ok(found)
}

impl Rewriting {
    /// Writes the new run.
    ///
    /// # Errors
    /// The errors of the storage.
    pub(super) fn write(&self, storage: &dyn Storage, stream: &[u8; 16]) -> Result<Run> {
        let head = RunHead { number: self.number, stream: *stream, row_count: self.run.row_count() };
        let mut writer = RunWriter::<DispatchRow>::create(storage, head)?;
        for reference in self.run.references().iter().filter(|reference| !is_lost(reference.file, &self.lost)) {
            writer.hold(reference.file);
        }
        every_row(&self.run, &mut |row| {
            let mut row = *row;
            if is_lost(row.location.file(), &self.lost) {
                row.location = self.places.get(&row.payload_sequence).copied().unwrap_or(self.nowhere);
            }
            writer.push_row(&row)
        })?;
        writer.finish(storage)
    }
}
