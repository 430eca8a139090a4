//! Positions of the log, starts of segments, and holes, as bytes; parts of [`super::snapshot`].

use std::collections::BTreeMap;

use super::codec::{FieldReader, FieldWriter};
use super::named_files::NamedRun;
use crate::error::Result;
use crate::message_log::{Hole, Holes};
use crate::run::{RunHole, RunHoles};
use crate::store::state::file_subjects::FileSubjects;
use crate::store::state::segment_ready::SegmentReady;
use crate::store::state::{LogPosition, SegmentStart};
use crate::units::{Epoch, Location, Millis, RunNumber, SegmentNumber, Sequence};

pub(super) fn write_position(out: &mut FieldWriter, position: &LogPosition) {
    out.u64(position.end.0);
    out.u32(position.chain);
    out.u64(position.next_sequence.0);
    out.u32(position.epoch.0);
    out.u64(position.trusted.0);
}

pub(super) fn read_position(from: &mut FieldReader<'_>) -> Result<LogPosition> {
    Ok(LogPosition {
        end: Location(from.u64()?),
        chain: from.u32()?,
        next_sequence: Sequence(from.u64()?),
        epoch: Epoch(from.u32()?),
        trusted: Millis(from.u64()?),
    })
}

pub(super) fn write_holes(out: &mut FieldWriter, holes: &Holes) {
    out.count(holes.iter().len());
    for hole in holes.iter() {
        write_position(out, &hole.from);
        write_position(out, &hole.to);
    }
}

/// Reads holes of segments, which must be in kept segments and before the position of the checkpoint.
pub(super) fn read_holes(from: &mut FieldReader<'_>, floor: SegmentNumber, position: &LogPosition) -> Result<Holes> {
    let mut all = Vec::new();
    for _ in 0..from.count(64)? {
        all.push(Hole { from: read_position(from)?, to: read_position(from)? });
    }
    let is_within = all.first().is_none_or(|first| first.segment() >= floor)
        && all.last().is_none_or(|last| last.to.end <= position.end);
    let holes = Holes::of(all).filter(|_| is_within);
    holes.ok_or_else(|| from.malformed("holes of the log that is kept, in its order"))
}

pub(super) fn write_run_holes(out: &mut FieldWriter, holes: &RunHoles) {
    out.count(holes.iter().len());
    for hole in holes.iter() {
        out.u32(hole.run.0);
        out.u64(hole.from);
        out.u64(hole.to);
    }
}

/// Reads holes of runs, which must be in named runs and before their ends.
pub(super) fn read_run_holes(from: &mut FieldReader<'_>, runs: &[NamedRun]) -> Result<RunHoles> {
    let lengths: BTreeMap<RunNumber, u64> = runs.iter().map(|run| (run.number, run.length)).collect();
    let mut all = Vec::new();
    for _ in 0..from.count(20)? {
        all.push(RunHole { run: RunNumber(from.u32()?), from: from.u64()?, to: from.u64()? });
    }
    let is_within = all.iter().all(|hole| lengths.get(&hole.run).is_some_and(|length| hole.to < *length));
    let holes = RunHoles::of(all).filter(|_| is_within);
    holes.ok_or_else(|| from.malformed("holes of the schedule runs that it names, in their order"))
}

pub(super) fn read_segments(from: &mut FieldReader<'_>) -> Result<Vec<SegmentStart>> {
    let mut segments = Vec::new();
    for _ in 0..from.count(36)? {
        let (segment, position) = (SegmentNumber(from.u32()?), read_position(from)?);
        let (subjects, ready) = (FileSubjects::unknown(), SegmentReady::none());
        segments.push(SegmentStart { segment, position, subjects, ready });
    }
    Ok(segments)
}
