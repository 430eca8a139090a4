//! Ready messages whose payloads lie in a run that cannot be opened: the log may have them, or another run. Their rows
//! are written anew then, since a checkpoint names every run that they point into.

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

/// A run of ready messages that is to be written anew.
pub(super) struct Rewriting {
    /// As it is.
    pub(super) run: Arc<Run>,
    number: RunNumber,
    lost: BTreeSet<RunNumber>,
    places: BTreeMap<Sequence, Location>,
    /// Where rows point to that nobody reads any more.
    nowhere: Location,
}

/// The unfinished runs of ready messages that point into runs which cannot be opened, with numbers from `next` on.
///
/// # Errors
/// `MissingFile` where only such a run has a payload that is needed; `Corrupt` where rows cannot be read; `NewerFormat`,
/// `Storage`.
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

/// Each row of a run, all of which must be readable.
fn every_row(run: &Run, show: &mut dyn FnMut(&DispatchRow) -> Result<()>) -> Result<()> {
    let mut buffer = ScanBuffer::default();
    let mut scan = RowScan::<DispatchRow>::from_block(run, 0, None, &mut buffer);
    while let Some(row) = scan.next_row().map_err(|damage| damage.error)? {
        show(&row)?;
    }
    Ok(())
}

/// Where the payloads are that unfinished rows have in lost runs.
fn places_of(
    basis: &Basis,
    state: &State,
    run: &Run,
    lost: &BTreeSet<RunNumber>,
) -> Result<BTreeMap<Sequence, Location>> {
    let mut wanted: BTreeMap<Sequence, Location> = BTreeMap::new();
    every_row(run, &mut |row| {
        let is_needed = row.number >= state.dispatch.finished_below(row.subject)
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

/// Where runs that can be opened have these payloads.
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
    /// Writes it.
    ///
    /// # Errors
    /// Those of the storage.
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
