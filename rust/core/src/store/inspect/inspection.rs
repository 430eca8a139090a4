//! Inspects a store without its lock, even while another process writes to it: reads the newest checkpoint and
//! applies the log after it in memory, up to the last visible fact. No file is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::files::{InspectedFile, files_of};
use super::space::{HeldSpace, weigh};
use crate::error::{Error, Result};
use crate::message_log::Identity;
use crate::queues::Group;
use crate::storage::Storage;
use crate::store::checkpoint::file::ReadCheckpoint;
use crate::store::query::lag::lag_of;
use crate::store::recovery::newest::Behind;
use crate::store::recovery::visible_state::visible_state;
use crate::store::retention::finished_age::KeepFinished;
use crate::store::retention::holders::{Holder, needs};
use crate::store::retention::kept_files::KeptFiles;
use crate::store::retention::pins::{Pin, archive_marks};
use crate::store::state::State;
use crate::units::{Epoch, LocationFile, Millis, Sequence, SubjectNumber, Version};

/// One subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedSubject {
    /// Its name.
    pub name: String,
    /// The number of messages that are not yet due.
    pub pending: u64,
    /// The earliest due time of the pending messages.
    pub next_due: Option<Millis>,
    /// Messages that became ready and that at least one group has not finished.
    pub ready: u64,
    /// The ready number that the next ready message gets.
    pub next_number: u64,
    /// The number of its groups.
    pub groups: u64,
    /// Messages that have expired.
    pub expired: u64,
}

/// One group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InspectedGroup {
    /// Its subject.
    pub subject: String,
    /// Its name.
    pub name: String,
    /// The next ready number that the group has not assigned.
    pub cursor: u64,
    /// The ready number that the subject's next ready message gets.
    pub next_number: u64,
    /// Ready messages that the group has not finished.
    pub lag: u64,
    /// Messages that its consumers hold.
    pub in_flight: u64,
    /// The ready number that the group began with.
    pub start: u64,
    /// The number of its dead letters.
    pub dead_letters: u64,
    /// Its consumers: name and number of held messages.
    pub consumers: Vec<(String, u64)>,
}

/// A store, as of one position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspection {
    /// How many times the store was opened for writing.
    pub epoch: Epoch,
    /// The coordinator and the version of the register that a copy in a cluster saw last. `None` for a store alone.
    pub register: Option<(u64, Version)>,
    /// The checkpoint that was used.
    pub checkpoint: Option<u32>,
    /// The sequence after the last fact that was read.
    pub next_sequence: Sequence,
    /// The trusted time of the last batch that was read.
    pub trusted: Millis,
    /// True if the log ends with a seal.
    pub sealed: bool,
    /// Facts after the checkpoint, which an open would apply.
    pub facts_behind: u64,
    /// The size of these facts in the log, in bytes.
    pub bytes_behind: u64,
    /// Facts after the last position that a batch calls visible: in flight, or left by a crash for the next open to
    /// judge. No other figure counts them.
    pub facts_unconfirmed: u64,
    /// The number of messages that are not yet due.
    pub pending: u64,
    /// The earliest due time of the pending messages.
    pub next_due: Option<Millis>,
    /// Ready messages that at least one group has not finished.
    pub ready: u64,
    /// Messages that were voided because their bytes were damaged.
    pub voided: u64,
    /// All files of the store.
    pub files: Vec<InspectedFile>,
    /// All subjects, by number.
    pub subjects: Vec<InspectedSubject>,
    /// All groups, by number.
    pub groups: Vec<InspectedGroup>,
    /// The holders of files; the one that needs the oldest segment comes first.
    pub holders: Vec<Holder>,
    /// The space held, by reason.
    pub space: Vec<HeldSpace>,
    /// The parts that could not be read, in words.
    pub damaged: Vec<String>,
    /// Why an open would be refused. If set, the figures count only the facts before the first lost one.
    pub refused: Option<Error>,
}

/// Reads a store. Another process that writes to the store may add and remove files during the read, so a file can
/// look damaged and be whole a moment later: the caller retries. `pins` are the pins to report. `keep` is the
/// retention of the process that has the store open.
///
/// # Errors
/// `Corrupt`, `MissingFile`, `NewerFormat`, `Storage`, as for recovery.
pub fn inspect(
    storage: &Arc<dyn Storage>,
    identity: &Identity,
    pins: &[Pin],
    keep: &KeepFinished,
) -> Result<Inspection> {
    let seen = visible_state(storage, identity)?;
    let found = Found {
        epoch: identity.promised_epoch,
        register: register_of(identity),
        sealed: seen.sealed,
        behind: seen.behind,
        facts_unconfirmed: seen.facts_unconfirmed,
    };
    picture(storage.as_ref(), seen.state(), &seen.chosen, &found, pins, keep)
}

pub(super) fn register_of(identity: &Identity) -> Option<(u64, Version)> {
    identity.clustered.then_some(identity.seen)
}

/// The facts about a store that its state does not contain.
pub(in crate::store) struct Found {
    pub(in crate::store) epoch: Epoch,
    pub(in crate::store) register: Option<(u64, Version)>,
    pub(in crate::store) sealed: bool,
    pub(in crate::store) behind: Behind,
    pub(in crate::store) facts_unconfirmed: u64,
}

/// Makes the inspection of a state. `chosen` are the kept checkpoints, the used one first.
pub(super) fn picture(
    storage: &dyn Storage,
    state: &State,
    chosen: &[ReadCheckpoint],
    found: &Found,
    pins: &[Pin],
    keep: &KeepFinished,
) -> Result<Inspection> {
    let kept: Vec<KeptFiles> = chosen.iter().map(ReadCheckpoint::kept).collect();
    let mut damaged = Vec::new();
    let (waiting, waiting_in) = waiting(state, &mut damaged);
    let keeping = keep.at(&state.subjects, state.position.trusted);
    let mut files = files_of(storage, state, &kept, &waiting_in, &keeping)?;
    let replay_from = chosen.iter().filter_map(|read| read.snapshot.position.end.segment()).min();
    let needs = needs(state, &kept, replay_from, pins, &archive_marks(storage)?);
    let (holders, space) = weigh(state, &needs, &mut files);
    Ok(Inspection {
        epoch: found.epoch,
        register: found.register,
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
        holders,
        space,
        files,
        damaged,
        refused: None,
    })
}

/// The pending messages of one subject.
#[derive(Clone, Copy, Default)]
struct Waiting {
    count: u64,
    next_due: Option<Millis>,
}

/// The pending messages of each subject, and the number of pending payloads in each file.
type BySubjectAndFile = (BTreeMap<SubjectNumber, Waiting>, BTreeMap<LocationFile, u64>);

fn waiting(state: &State, damaged: &mut Vec<String>) -> BySubjectAndFile {
    let mut waiting: BTreeMap<SubjectNumber, Waiting> = BTreeMap::new();
    let mut in_file: BTreeMap<LocationFile, u64> = BTreeMap::new();
    state.schedule.each_pending(
        &mut |entry| {
            let of = waiting.entry(entry.subject()).or_default();
            of.count = of.count.saturating_add(1);
            of.next_due = Some(of.next_due.map_or(entry.due(), |due| due.min(entry.due())));
            let in_this = in_file.entry(entry.location().file()).or_default();
            *in_this = in_this.saturating_add(1);
        },
        &mut |block| damaged.push(block.error.to_string()),
    );
    (waiting, in_file)
}

fn subjects_of(state: &State, waiting: &BTreeMap<SubjectNumber, Waiting>) -> Vec<InspectedSubject> {
    let of = |(number, subject): (SubjectNumber, &crate::store::names::subjects::Subject)| {
        let next = state.dispatch.next_number(number);
        let waiting = waiting.get(&number).copied().unwrap_or_default();
        InspectedSubject {
            name: subject.name.clone(),
            pending: waiting.count,
            next_due: waiting.next_due,
            ready: next.since(state.dispatch.finished_below(number)),
            next_number: next.0,
            groups: subject.groups.len() as u64,
            expired: subject.expired,
        }
    };
    state.subjects.iter().map(of).collect()
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
