//! Lists the files of a store: the kind and size of each, and how much of each is unfinished.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::message_log::{ASIDE_FOLDER, Hole, LOG_FOLDER, SEGMENT_HEADER_BYTES};
use crate::record::batch::BATCH_HEADER_BYTES;
use crate::run::{LOAD_FOLDER, LoadName, RUN_FOLDER, RunKind};
use crate::storage::{Storage, StorageFile, names_in};
use crate::store::checkpoint::paths::{CHECKPOINT_FOLDER, checkpoint_path};
use crate::store::copies::snapshot::adoption::INCOMING_FOLDER;
use crate::store::inspect::written::written;
use crate::store::retention::finished_age::{Held, Keeping, users_subject};
use crate::store::retention::kept_files::KeptFiles;
use crate::store::retention::pins::PIN_FOLDER;
use crate::store::state::{SegmentStart, State};
use crate::units::{LocationFile, Millis, RunNumber, SegmentNumber};

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A segment of the log.
    Segment,
    /// A segment that is being prepared, or that a killed process was preparing.
    Preparing,
    /// A run of pending messages.
    ScheduleRun,
    /// A run of ready messages.
    DispatchRun,
    /// A run that no kept checkpoint names.
    UnusedRun,
    /// A run that was staged, or is being staged, and that no fact has adopted.
    StagedRun,
    /// A checkpoint.
    Checkpoint,
    /// Bytes set aside by a repair, kept as evidence.
    Aside,
    /// A reader's pin.
    Pin,
    /// Anything else.
    Other,
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedFile {
    /// Its path, relative to the store.
    pub path: String,
    /// Its kind.
    pub kind: FileKind,
    /// Its length.
    pub bytes: u64,
    /// Bytes of the file that are holes or were never written. Their disk space is free, or will be freed once two
    /// checkpoints name the holes.
    pub hole_bytes: u64,
    /// Rows of a run; 0 for other files.
    pub rows: u64,
    /// Rows of a run that are not finished; 0 for other files.
    pub unfinished: u64,
    /// Pending messages whose payloads are in the file.
    pub pending: u64,
    /// The segment or run; `None` for other files.
    pub place: Option<LocationFile>,
    /// When a complete segment or run was last written, by the store's clock.
    pub written: Option<Millis>,
    /// How long retention keeps the file even without a holder, and why; `None` for a file that is still being
    /// written.
    pub kept: Option<KeptForAge>,
    /// The first 16 of its holders, as indexes into the list of holders.
    pub held_by: Vec<u32>,
    /// The number of holders that need the file.
    pub held_by_count: u64,
}

/// The retention that keeps a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptForAge {
    /// The user's subject whose messages are kept that long. `None` if the default of all other subjects decides, or
    /// if the subjects in the file are unknown.
    pub subject: Option<String>,
    /// The end of the retention by the store's clock; may be in the past.
    pub until: Millis,
}

/// Lists all files with their lengths. A file that is removed during the listing is left out.
pub(in crate::store) fn files_of(
    storage: &dyn Storage,
    state: &State,
    kept: &[KeptFiles],
    waiting_in: &BTreeMap<LocationFile, u64>,
    keeping: &Keeping,
) -> Result<Vec<InspectedFile>> {
    let mut files = Vec::new();
    let others = [ASIDE_FOLDER, PIN_FOLDER, INCOMING_FOLDER];
    for folder in ["", LOG_FOLDER, RUN_FOLDER, LOAD_FOLDER, CHECKPOINT_FOLDER].into_iter().chain(others) {
        let names = names_in(storage, folder)?;
        for name in names {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            match storage.open(&path).and_then(|file| sizes_of(state, &path, file.as_ref())) {
                Err(error) if error.is_not_found() => {}
                sizes => {
                    let Sizes { length, room, is_empty } = sizes?;
                    let mut file = described(state, kept, folder, path, length);
                    if is_empty {
                        (file.kind, file.place) = (FileKind::Preparing, None);
                    }
                    let named = file.place.map_or(0, |place| hole_bytes(state, place));
                    file.hole_bytes = named.max(length.saturating_sub(room));
                    file.pending = file.place.and_then(|place| waiting_in.get(&place).copied()).unwrap_or_default();
                    file.written = file.place.and_then(|place| written(state, place));
                    file.kept = file.place.and_then(|place| kept_for_age(state, keeping, place));
                    files.push(file);
                }
            }
        }
    }
    Ok(files)
}

/// The length of a file, its size on disk, and whether it is an unused segment.
struct Sizes {
    length: u64,
    room: u64,
    is_empty: bool,
}

fn sizes_of(state: &State, path: &str, file: &dyn StorageFile) -> Result<Sizes> {
    Ok(Sizes { length: file.length()?, room: file.room()?, is_empty: is_empty(state, path, file)? })
}

fn hole_bytes(state: &State, place: LocationFile) -> u64 {
    match place {
        LocationFile::Segment(segment) => {
            state.holes.in_segment(segment).iter().map(Hole::bytes).fold(0, u64::saturating_add)
        }
        LocationFile::Run(run) => state.run_holes.bytes_in(run),
    }
}

/// True for an empty segment after the end of the log that was read: it was prepared, and has no holder.
fn is_empty(state: &State, path: &str, file: &dyn StorageFile) -> Result<bool> {
    let Some(LocationFile::Segment(segment)) = place_of(state, path) else { return Ok(false) };
    if state.position.end.segment().is_some_and(|last| segment <= last) {
        return Ok(false);
    }
    let mut first = [0; BATCH_HEADER_BYTES];
    file.read_at(u64::from(SEGMENT_HEADER_BYTES), &mut first)?;
    Ok(first.iter().all(|byte| *byte == 0))
}

fn described(state: &State, kept: &[KeptFiles], folder: &str, path: String, bytes: u64) -> InspectedFile {
    let mut file = InspectedFile {
        path,
        kind: FileKind::Other,
        bytes,
        hole_bytes: 0,
        rows: 0,
        unfinished: 0,
        pending: 0,
        place: None,
        written: None,
        kept: None,
        held_by: Vec::new(),
        held_by_count: 0,
    };
    file.kind = match folder {
        LOG_FOLDER if file.path.strip_suffix(".segment").is_some() => FileKind::Segment,
        LOG_FOLDER if file.path.strip_suffix(".ahead.tmp").is_some() => FileKind::Preparing,
        RUN_FOLDER if file.path.strip_suffix(".run").is_some() => FileKind::UnusedRun,
        LOAD_FOLDER if staged_name(&file.path).is_some() => FileKind::StagedRun,
        CHECKPOINT_FOLDER if kept.iter().any(|files| file.path == checkpoint_path(files.checkpoint)) => {
            FileKind::Checkpoint
        }
        ASIDE_FOLDER => FileKind::Aside,
        PIN_FOLDER => FileKind::Pin,
        _ => FileKind::Other,
    };
    file.place = place_of(state, &file.path);
    if matches!(file.kind, FileKind::UnusedRun | FileKind::StagedRun) {
        let number =
            file.place.and_then(|place| if let LocationFile::Run(number) = place { Some(number) } else { None });
        if let Some(known) = number.and_then(|number| state.runs.get(&number)) {
            file.kind = match known.run.kind() {
                RunKind::Schedule => FileKind::ScheduleRun,
                RunKind::Dispatch => FileKind::DispatchRun,
            };
            file.rows = known.run.row_count();
            file.unfinished = unfinished_in(state, known.run.number());
        }
    }
    file
}

/// Returns until when the file is kept for its age. The log is contiguous, so a segment is kept as long as any before
/// it.
fn kept_for_age(state: &State, keeping: &Keeping, place: LocationFile) -> Option<KeptForAge> {
    let held = match place {
        LocationFile::Run(run) => state.runs.get(&run).map(|known| keeping.held(known.created, &known.subjects))?,
        LocationFile::Segment(segment) => {
            let ended = |pair: &[SegmentStart]| match pair {
                [start, next] if start.segment <= segment => {
                    Some((start.segment, keeping.held(next.position.trusted, &start.subjects)))
                }
                _ => None,
            };
            let all: Vec<(SegmentNumber, Held)> = state.segments.windows(2).filter_map(ended).collect();
            all.last().filter(|(last, _)| *last == segment)?;
            all.into_iter().map(|(_, held)| held).max_by_key(|held| held.until)?
        }
    };
    let name = |number| state.subjects.get(number).map(|subject| users_subject(&subject.name).to_owned());
    Some(KeptForAge { subject: held.subject.and_then(name), until: held.until })
}

/// Returns the name of a staged run, whether or not its staging is finished.
fn staged_name(path: &str) -> Option<LoadName> {
    let file_name = path.strip_prefix(LOAD_FOLDER)?.strip_prefix('/')?;
    LoadName::parse(file_name.strip_suffix(".tmp").unwrap_or(file_name))
}

/// Returns the segment or the run at this path.
fn place_of(state: &State, path: &str) -> Option<LocationFile> {
    if path.starts_with(LOAD_FOLDER) {
        let mut loaded = state.runs.iter().filter(|(_, known)| known.run.file().path() == path);
        return loaded.next().map(|(number, _)| LocationFile::Run(*number));
    }
    let (folder, name) = path.split_once('/')?;
    match (folder, name.split_once('.')?) {
        (LOG_FOLDER, (digits, "segment")) => Some(LocationFile::Segment(SegmentNumber(digits.parse().ok()?))),
        (RUN_FOLDER, (digits, "run")) => Some(LocationFile::Run(RunNumber(digits.parse().ok()?))),
        _ => None,
    }
}

/// Counts the rows of a run that are not finished.
fn unfinished_in(state: &State, number: RunNumber) -> u64 {
    let windows = state.schedule.windows().iter();
    let pending = windows.filter(|window| window.run().is_some_and(|run| run.number() == number));
    let pending = pending.map(crate::schedule_log::Window::pending).fold(0, u64::saturating_add);
    let runs = state.dispatch.runs().iter().filter(|run| run.run().number() == number);
    let ranges = runs.flat_map(|run| run.ranges().iter());
    let ready = ranges.map(|range| range.last.next().since(range.first.max(state.dispatch.listed_from(range.subject))));
    pending.saturating_add(ready.fold(0, u64::saturating_add))
}
