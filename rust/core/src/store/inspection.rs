//! Looking at a store without its lock, also while another process writes to it: the newest
//! checkpoint and the log behind it up to what is visible, applied in memory. Changes no file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checkpoint_file::{CHECKPOINT_FOLDER, ReadCheckpoint, list_checkpoints, read_checkpoint};
use super::holders::{Holder, holders};
use super::owner::{Owner, VisibleBatch};
use super::recovery::{PIN_FOLDER, restored_owner, scan_start};
use super::retention::{KeptFiles, checkpoint_path};
use super::state::State;
use crate::error::{Error, Result};
use crate::message_log::{ASIDE_FOLDER, Identity, LOG_FOLDER, ScanEnd, Scanner, Stream};
use crate::queues::Group;
use crate::record::batch::BatchHeader;
use crate::run::{RUN_FOLDER, RunKind};
use crate::storage::Storage;
use crate::units::{Epoch, Location, Millis, RunNumber, Sequence, SubjectNumber};

/// What a file of a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A segment of the log.
    Segment,
    /// A segment that is being prepared, or was when the process was killed.
    Preparing,
    /// A run of pending messages.
    ScheduleRun,
    /// A run of ready messages.
    DispatchRun,
    /// A run that neither kept checkpoint names.
    UnusedRun,
    /// A checkpoint.
    Checkpoint,
    /// Evidence that a repair kept.
    Aside,
    /// A pin of a reader.
    Pin,
    /// Anything else.
    Other,
}

/// One file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedFile {
    /// Its path, relative to the store.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Its length.
    pub bytes: u64,
    /// Rows of a run; 0 for everything else.
    pub rows: u64,
    /// Rows of a run that are not finished; 0 for everything else.
    pub unfinished: u64,
}

/// One subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedSubject {
    /// Its name.
    pub name: String,
    /// Messages that wait for their time.
    pub pending: u64,
    /// When the first of them is due.
    pub next_due: Option<Millis>,
    /// Messages that became ready and that some group has not finished.
    pub ready: u64,
    /// The number that the next ready message gets.
    pub next_number: u64,
    /// How many groups it has.
    pub groups: u64,
}

/// One group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedGroup {
    /// Its subject.
    pub subject: String,
    /// Its name.
    pub name: String,
    /// The next number that was never assigned.
    pub cursor: u64,
    /// The number that the subject's next ready message gets.
    pub next_number: u64,
    /// Ready messages that it has not finished.
    pub lag: u64,
    /// Those of them that a consumer holds.
    pub in_flight: u64,
    /// The ready number that it began with.
    pub start: u64,
    /// Its dead letters.
    pub dead_letters: u64,
    /// Its consumers: their names, and how many messages each holds.
    pub consumers: Vec<(String, u64)>,
}

/// A store, as of one position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// How often it was opened for writing.
    pub epoch: Epoch,
    /// The checkpoint that was used.
    pub checkpoint: Option<u32>,
    /// The sequence behind the last fact that was read.
    pub next_sequence: Sequence,
    /// The trusted time of the last batch that was read.
    pub trusted: Millis,
    /// True where the log was closed in good order.
    pub sealed: bool,
    /// Facts that an open would apply behind the checkpoint.
    pub facts_behind: u64,
    /// Bytes of them in the log.
    pub bytes_behind: u64,
    /// Facts behind the last position that a batch calls visible: on their way, or left by a crash
    /// for the next open to judge. They are not counted anywhere else.
    pub facts_unconfirmed: u64,
    /// Messages that wait for their time.
    pub pending: u64,
    /// When the first of them is due.
    pub next_due: Option<Millis>,
    /// Ready messages that some group has not finished.
    pub ready: u64,
    /// Messages given up because their bytes were damaged.
    pub voided: u64,
    /// Every file.
    pub files: Vec<InspectedFile>,
    /// Every subject, by number.
    pub subjects: Vec<InspectedSubject>,
    /// Every group, by number.
    pub groups: Vec<InspectedGroup>,
    /// Who needs which part of the log, the oldest first.
    pub holders: Vec<Holder>,
    /// What could not be read, in words.
    pub damaged: Vec<String>,
    /// Why an open would be refused; the figures are then those up to the first fact that is lost.
    pub refused: Option<Error>,
}

/// Reads a store. While another process writes to it, files may come and go under the reader; what
/// looks damaged may then be well a moment later, so the caller tries again.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`, as recovery has them.
pub fn inspect(storage: &Arc<dyn Storage>, identity: &Identity) -> Result<Inspection> {
    let chosen = newest_checkpoints(storage.as_ref(), &identity.stream)?;
    let used = chosen.first();
    let mut owner = restored_owner(storage, identity.stream, used)?;
    owner.state.counts.forget();
    let mut scanner = Scanner::new(Arc::clone(storage), identity.stream, &scan_start(&owner.state().position))?;
    let ending = scanner.ending().clone();
    let behind = apply_visible(&mut scanner, &mut owner)?;
    let found = Found {
        epoch: identity.promised_epoch,
        sealed: ending.sealed,
        behind,
        facts_unconfirmed: ending.next_sequence.since(owner.state().position.next_sequence),
    };
    picture(storage.as_ref(), owner.state(), &chosen, &found)
}

/// What the state does not tell.
pub(super) struct Found {
    pub(super) epoch: Epoch,
    pub(super) sealed: bool,
    pub(super) behind: Behind,
    pub(super) facts_unconfirmed: u64,
}

/// The inspection of a state, of which `chosen` are the kept checkpoints, the used one first.
pub(super) fn picture(
    storage: &dyn Storage,
    state: &State,
    chosen: &[ReadCheckpoint],
    found: &Found,
) -> Result<Inspection> {
    let kept: Vec<KeptFiles> = chosen.iter().map(|read| read.files.kept(read.number)).collect();
    let mut damaged = Vec::new();
    let waiting = waiting_by_subject(state, &mut damaged);
    let files = files_of(storage, state, &kept)?;
    Ok(Inspection {
        epoch: found.epoch,
        checkpoint: chosen.first().map(|read| read.number),
        next_sequence: state.position.next_sequence,
        trusted: state.position.trusted,
        sealed: found.sealed,
        facts_behind: found.behind.facts,
        bytes_behind: found.behind.bytes,
        facts_unconfirmed: found.facts_unconfirmed,
        pending: state.schedule.pending(),
        next_due: waiting.values().filter_map(|waiting| waiting.next_due).min(),
        ready: state.dispatch.unfinished(),
        voided: state.voided,
        subjects: subjects_of(state, &waiting),
        groups: state.groups.values().map(|group| group_of(state, group)).collect(),
        holders: holders(state, &kept, &files),
        files,
        damaged,
        refused: None,
    })
}

/// The two newest checkpoints that read whole, the newest first.
pub(super) fn newest_checkpoints(storage: &dyn Storage, stream: &Stream) -> Result<Vec<ReadCheckpoint>> {
    let mut found = Vec::new();
    for number in list_checkpoints(storage)?.into_iter().rev() {
        match read_checkpoint(storage, stream, number) {
            Ok(read) => found.push(read),
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(_) => {}
        }
        if found.len() == 2 {
            break;
        }
    }
    Ok(found)
}

/// What was applied behind the checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Behind {
    pub(super) facts: u64,
    pub(super) bytes: u64,
}

impl Behind {
    pub(super) fn add(&mut self, header: &BatchHeader) {
        self.facts = self.facts.saturating_add(u64::from(header.count.get()));
        self.bytes = self.bytes.saturating_add(u64::from(header.length.get()));
    }
}

/// Applies what is visible: everything where the log was closed, else what a later batch confirms.
fn apply_visible(scanner: &mut Scanner, owner: &mut Owner) -> Result<Behind> {
    let visible = visible_end(scanner.ending());
    let mut behind = Behind::default();
    while let Some(batch) = scanner.next_batch()? {
        let length = u64::from(batch.header.length.get());
        if Location(batch.start.0.saturating_add(length)) > visible {
            break;
        }
        owner.apply_facts(&VisibleBatch { header: batch.header, start: batch.start, records: batch.records() })?;
        behind.add(&batch.header);
        owner.take_outcomes();
        owner.take_woken();
        scanner.recycle(batch.bytes);
    }
    Ok(behind)
}

fn visible_end(ending: &ScanEnd) -> Location {
    if ending.sealed { ending.end } else { ending.vouched.max(ending.committed).min(ending.end) }
}

/// What waits in one subject.
#[derive(Clone, Copy, Default)]
struct Waiting {
    count: u64,
    next_due: Option<Millis>,
}

fn waiting_by_subject(state: &State, damaged: &mut Vec<String>) -> BTreeMap<SubjectNumber, Waiting> {
    let mut waiting: BTreeMap<SubjectNumber, Waiting> = BTreeMap::new();
    state.schedule.each_pending(
        &mut |entry| {
            let of = waiting.entry(entry.subject()).or_default();
            of.count = of.count.saturating_add(1);
            of.next_due = Some(of.next_due.map_or(entry.due(), |due| due.min(entry.due())));
        },
        &mut |block| damaged.push(block.error.to_string()),
    );
    waiting
}

fn subjects_of(state: &State, waiting: &BTreeMap<SubjectNumber, Waiting>) -> Vec<InspectedSubject> {
    let of = |(number, subject): (SubjectNumber, &super::subjects::Subject)| {
        let next = state.dispatch.next_number(number);
        let waiting = waiting.get(&number).copied().unwrap_or_default();
        InspectedSubject {
            name: subject.name.clone(),
            pending: waiting.count,
            next_due: waiting.next_due,
            ready: next.since(state.dispatch.finished_below(number)),
            next_number: next.0,
            groups: subject.groups.len() as u64,
        }
    };
    state.subjects.iter().map(of).collect()
}

/// Ready messages that a group has not finished.
fn lag_of(state: &State, group: &Group) -> u64 {
    let next = state.dispatch.next_number(group.subject);
    let done_above = group.done.ranges().map(|(first, end)| end.saturating_sub(first)).fold(0, u64::saturating_add);
    next.0.saturating_sub(group.done.below()).saturating_sub(done_above)
}

fn group_of(state: &State, group: &Group) -> InspectedGroup {
    let next = state.dispatch.next_number(group.subject);
    let consumers: Vec<(String, u64)> =
        group.consumers.values().map(|consumer| (consumer.name.clone(), consumer.held.len() as u64)).collect();
    let subject = state.subjects.get(group.subject).map(|subject| subject.name.clone()).unwrap_or_default();
    let dead = state.dead_letter_queue(&subject, &group.name).and_then(|queue| state.groups.get(&queue.group));
    InspectedGroup {
        dead_letters: dead.map_or(0, |dead| lag_of(state, dead)),
        start: group.start.0,
        subject,
        name: group.name.clone(),
        cursor: group.cursor.0,
        next_number: next.0,
        lag: lag_of(state, group),
        in_flight: consumers.iter().map(|(_, held)| *held).fold(0, u64::saturating_add),
        consumers,
    }
}

/// Every file, with its length. One that goes away meanwhile is left out.
fn files_of(storage: &dyn Storage, state: &State, kept: &[KeptFiles]) -> Result<Vec<InspectedFile>> {
    let mut files = Vec::new();
    for folder in ["", LOG_FOLDER, RUN_FOLDER, CHECKPOINT_FOLDER, ASIDE_FOLDER, PIN_FOLDER] {
        let names = match storage.list(folder) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        for name in names {
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            match storage.open(&path).and_then(|file| file.length()) {
                Err(error) if error.is_not_found() => {}
                length => files.push(described(state, kept, folder, path, length?)),
            }
        }
    }
    Ok(files)
}

fn described(state: &State, kept: &[KeptFiles], folder: &str, path: String, bytes: u64) -> InspectedFile {
    let mut file = InspectedFile { path, kind: FileKind::Other, bytes, rows: 0, unfinished: 0 };
    file.kind = match folder {
        LOG_FOLDER if file.path.strip_suffix(".segment").is_some() => FileKind::Segment,
        LOG_FOLDER if file.path.strip_suffix(".ahead.tmp").is_some() => FileKind::Preparing,
        RUN_FOLDER if file.path.strip_suffix(".run").is_some() => FileKind::UnusedRun,
        CHECKPOINT_FOLDER if kept.iter().any(|files| file.path == checkpoint_path(files.checkpoint)) => {
            FileKind::Checkpoint
        }
        ASIDE_FOLDER => FileKind::Aside,
        PIN_FOLDER => FileKind::Pin,
        _ => FileKind::Other,
    };
    if file.kind == FileKind::UnusedRun {
        let number = state.runs.keys().copied().find(|number| crate::run::run_path(*number) == file.path);
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

/// How many rows of a run are not finished.
fn unfinished_in(state: &State, number: RunNumber) -> u64 {
    let windows = state.schedule.windows().iter();
    let pending = windows.filter(|window| window.run().is_some_and(|run| run.number() == number));
    let pending = pending.map(crate::schedule_log::Window::pending).fold(0, u64::saturating_add);
    let runs = state.dispatch.runs().iter().filter(|run| run.run().number() == number);
    let ranges = runs.flat_map(|run| run.ranges().iter());
    let ready =
        ranges.map(|range| range.last.next().since(range.first.max(state.dispatch.finished_below(range.subject))));
    pending.saturating_add(ready.fold(0, u64::saturating_add))
}
