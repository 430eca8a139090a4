//! Salvage: saves the messages of a store that can no longer be opened. The store is only read.
//!
//! The certain state comes from a checkpoint and the facts after it, up to the first lost fact; see [`base`]. After
//! that fact, doubtful messages are kept (at least once). Salvage tries every readable checkpoint as the beginning, and
//! takes the one that loses least.

pub(super) mod base;
pub(super) mod kept_messages;
pub(super) mod known_loads;
pub(super) mod late_facts;
pub(super) mod loads;
pub(super) mod lost_message;
pub(super) mod payloads;
pub(super) mod runs;
pub(super) mod search;
pub(super) mod series;
pub(super) mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::checkpoint::file::read_checkpoint;
use super::names::subject_names::holds_dead_letters;
use crate::error::{Error, Result};
use crate::message_log::{Identity, SEGMENT_HEADER_BYTES, SegmentHeader, Stream, list_segments, segment_path};
use crate::record::header::read_record;
use crate::record::message::{Message, decode_message};
use crate::record::retry::Death;
use crate::run::LoadedRuns;
use crate::storage::{Storage, read_upto};
use crate::store::checkpoint::paths::list_checkpoints;
use crate::store::salvage::known_loads::loaded_runs;
use crate::store::salvage::lost_message::LostMessage;
use crate::units::{GroupNumber, Millis, Sequence, SubjectNumber};
use base::{Base, base};
use kept_messages::{Gathering, Kept, Sure};
use payloads::{Payloads, deaths_of, other_copies};
use runs::Runs;
use series::{SalvagedSeries, series_of};
use storage::PatientStorage;

pub use base::Gap;

/// The maximum number of damaged places to list; the rest is counted.
const LISTED_MAX: usize = 10_000;

/// The saved and lost messages of one subject.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SalvagedSubject {
    /// Its name.
    pub name: String,
    /// The number of messages that are not yet due.
    pub pending: u64,
    /// The number of messages that are ready and not finished.
    pub ready: u64,
    /// The number of messages that may have been finished or cancelled. They are kept because that is unknown.
    pub doubtful: u64,
    /// The number of unfinished messages whose bytes are lost.
    pub lost: u64,
}

/// A saved group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SalvagedGroup {
    /// Its subject.
    pub subject: String,
    /// Its name.
    pub name: String,
    /// The number of saved ready messages that it has not finished.
    pub unfinished: u64,
}

/// The messages that can be saved, and those that are lost.
pub struct Salvage {
    /// The damaged places of the store, at most [`LISTED_MAX`].
    pub damage: Vec<Error>,
    /// The number of further places of damage.
    pub damage_unlisted: u64,
    /// Sequences whose facts cannot be read.
    pub gaps: Vec<Gap>,
    /// True if no checkpoint can be read and the beginning of the log is missing: it is unknown which messages were
    /// finished.
    pub is_blind: bool,
    /// All subjects with saved or lost messages.
    pub subjects: Vec<SalvagedSubject>,
    /// All groups.
    pub groups: Vec<SalvagedGroup>,
    /// All series that continue.
    pub series: Vec<SalvagedSeries>,
    /// Lost messages, at most [`LISTED_MAX`]; `subjects` counts all.
    pub lost: Vec<LostMessage>,
    /// The longest delay that the store accepted, in milliseconds; 0 if unknown.
    pub delay_ms_max: u64,
    storage: Arc<dyn Storage>,
    loaded: LoadedRuns,
    kept: Vec<Kept>,
    names: BTreeMap<SubjectNumber, String>,
    group_names: BTreeMap<GroupNumber, String>,
    deaths: BTreeMap<Sequence, Death>,
}

/// A saved message.
#[derive(Debug)]
pub struct SalvagedMessage<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The groups that have not finished it; empty if these are all groups of its subject.
    pub groups: Vec<&'a str>,
    /// The due time; a past time means now. For a dead letter, the time it died.
    pub due: Millis,
    /// Why it is a dead letter, if it is one and that can be read.
    pub death: Option<&'a Death>,
    /// True if it is unknown whether it was finished or cancelled.
    pub is_doubtful: bool,
    /// The message itself.
    pub message: Message<'a>,
}

/// Finds the messages that can be saved. Failed reads are repeated, and then count as damage.
///
/// # Errors
/// `NotAStore` if there is nothing to save, `NewerFormat`, `Storage`.
pub fn salvage(storage: &Arc<dyn Storage>) -> Result<Salvage> {
    let patient = Arc::new(PatientStorage::new(storage));
    let storage: Arc<dyn Storage> = Arc::clone(&patient) as Arc<dyn Storage>;
    let mut found = salvage_from(&storage)?;
    let mut damage = patient.given_up();
    damage.append(&mut found.damage);
    let mut told = BTreeSet::new();
    damage.retain(|error| told.insert(error.to_string()));
    found.damage_unlisted = damage.len().saturating_sub(LISTED_MAX) as u64;
    damage.truncate(LISTED_MAX);
    found.damage = damage;
    Ok(found)
}

fn salvage_from(storage: &Arc<dyn Storage>) -> Result<Salvage> {
    let (stream, no_identity) = stream_of(storage.as_ref())?;
    let mut checkpoints = Vec::new();
    let mut unreadable: Vec<Error> = no_identity.into_iter().collect();
    for number in list_checkpoints(storage.as_ref())?.into_iter().rev() {
        match read_checkpoint(storage.as_ref(), &stream, number) {
            Ok(read) => checkpoints.push(read),
            Err(error) if error.is_not_found() => {}
            Err(error @ (Error::NewerFormat { .. } | Error::Storage { .. })) => return Err(error),
            Err(error) => unreadable.push(error),
        }
    }
    let mut runs = Runs::read(storage.as_ref(), stream)?;
    let known = checkpoints.iter().map(|read| read.snapshot.position.next_sequence).max().unwrap_or_default();
    let known = known.max(runs.end());
    let mut best: Option<(Sequence, Salvage)> = None;
    for from in checkpoints.iter().map(Some).chain([None]) {
        let mut base = base(storage, stream, from, None)?;
        let certain_to = base.certain_to();
        // A base with more certain facts knows better which messages are finished. Messages that it lacks are searched
        // in all files.
        if best.as_ref().is_some_and(|(to, _)| certain_to < *to || base.is_blind) {
            continue;
        }
        base.miss_below(known);
        let found = plan(storage, stream, base, &mut runs)?;
        let is_better = |(to, best): &(Sequence, Salvage)| *to < certain_to || found.harm() < best.harm();
        if best.as_ref().is_none_or(is_better) {
            best = Some((certain_to, found));
        }
    }
    let Some((_, mut best)) = best else {
        return Err(Error::NotAStore { path: ".".to_owned(), found: "nothing to save".to_owned() });
    };
    unreadable.append(&mut best.damage);
    unreadable.append(&mut runs.take_damage());
    best.damage = unreadable;
    Ok(best)
}

/// Returns the stream of these files: from the identity, or from the first segment whose header can be read.
pub(super) fn stream_of(storage: &dyn Storage) -> Result<(Stream, Option<Error>)> {
    let refused = match Identity::read(storage) {
        Ok(Some(identity)) => return Ok((identity.stream, None)),
        Ok(None) => Error::NotAStore { path: ".".to_owned(), found: "no identity and no log".to_owned() },
        Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
        Err(error) => error,
    };
    let segments = match list_segments(storage) {
        Err(error) if error.is_not_found() => Vec::new(),
        other => other?,
    };
    for number in segments {
        let path = segment_path(number);
        let file = match storage.open(&path) {
            Err(error) if error.is_not_found() => continue,
            other => other?,
        };
        let block = read_upto(file.as_ref(), 0, SEGMENT_HEADER_BYTES as usize)?;
        if let Ok(header) = SegmentHeader::read(&path, &block) {
            let reason = "its log is there".to_owned();
            let missing = Error::MissingFile { path: crate::message_log::IDENTITY_PATH.to_owned(), reason };
            let error = if matches!(refused, Error::NotAStore { .. }) { missing } else { refused };
            return Ok((header.stream, Some(error)));
        }
    }
    Err(refused)
}

/// Gathers the messages that are kept, and reads every payload.
fn plan(storage: &Arc<dyn Storage>, stream: Stream, mut base: Base, runs: &mut Runs) -> Result<Salvage> {
    let loaded = loaded_runs(storage.as_ref(), stream, &mut base)?;
    runs.know_loaded(&loaded);
    let Base { owner, late, gaps: behind, damage, is_blind, .. } = base;
    let mut gathering = Gathering::new(storage, stream, owner, late, damage);
    gathering.gather(runs)?;
    let Gathering { owner, mut names, mut kept, missing, damage, late, mut gaps, .. } = gathering;
    gaps.extend(behind);
    let unread = read_all(storage, &loaded, &mut kept)?;
    let wanted: BTreeSet<Sequence> = unread.iter().map(|(one, _)| one.entry.payload_sequence()).collect();
    let copies = other_copies(storage, stream, runs, &wanted)?;
    let (mut moved, mut lost) = (Vec::new(), Vec::new());
    for (mut one, error) in unread {
        match copies.get(&one.entry.payload_sequence()) {
            Some(location) => {
                one.entry = one.entry.with_location(*location);
                moved.push(one);
            }
            None => lost.push((one, error)),
        }
    }
    lost.extend(read_all(storage, &loaded, &mut moved)?);
    kept.append(&mut moved);
    kept.sort_by_key(Kept::order);
    let is_dead = |one: &&Kept| names.get(&one.entry.subject()).is_some_and(|name| holds_dead_letters(name));
    let dead: BTreeSet<Sequence> = kept.iter().filter(is_dead).map(|one| one.entry.sequence()).collect();
    let deaths = deaths_of(storage, stream, &dead)?;
    let state = owner.state();
    let mut groups: BTreeMap<(SubjectNumber, String), u64> = BTreeMap::new();
    for group in state.groups.values() {
        groups.insert((group.subject, group.name.clone()), 0);
    }
    let series = series_of(state, &late.series, &late.messages, &mut names);
    for (subject, name) in late.groups {
        groups.entry((subject, name)).or_default();
    }
    let mut salvage = Salvage {
        damage,
        damage_unlisted: 0,
        gaps,
        is_blind,
        subjects: Vec::new(),
        groups: Vec::new(),
        series,
        lost: Vec::new(),
        delay_ms_max: state.delay_ms_max,
        storage: Arc::clone(storage),
        loaded,
        group_names: state.groups.values().map(|group| (group.number, group.name.clone())).collect(),
        kept,
        names,
        deaths,
    };
    salvage.count(groups, lost, missing);
    Ok(salvage)
}

/// Reads every payload. Removes from `kept` and returns the messages whose payloads cannot be read.
fn read_all(storage: &Arc<dyn Storage>, loaded: &LoadedRuns, kept: &mut Vec<Kept>) -> Result<Vec<(Kept, Error)>> {
    let (mut payloads, mut buffer) = (Payloads::new(storage, loaded), Vec::new());
    let mut whole = Vec::with_capacity(kept.len());
    let mut unread = Vec::new();
    for one in kept.drain(..) {
        match payloads.read(one.entry.location(), one.entry.payload_sequence(), &mut buffer) {
            Ok(()) => whole.push(one),
            Err(error @ Error::Storage { .. }) => return Err(error),
            Err(error) => unread.push((one, error)),
        }
    }
    *kept = whole;
    Ok(unread)
}

impl Salvage {
    /// Returns the number of saved messages.
    pub fn saved(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Returns the number of dead letters saved with their reason.
    pub fn reasons_count(&self) -> u64 {
        self.deaths.len() as u64
    }

    /// Returns the number of messages that are known to be lost.
    pub fn lost_count(&self) -> u64 {
        self.subjects.iter().map(|subject| subject.lost).fold(0, u64::saturating_add)
    }

    /// Returns how much a base loses; less is better. Each unreadable fact counts as a lost message.
    fn harm(&self) -> (u64, u64) {
        let unread = self.gaps.iter().map(|gap| gap.count).fold(0, u64::saturating_add);
        let doubtful = self.subjects.iter().map(|subject| subject.doubtful).fold(0, u64::saturating_add);
        (self.lost_count().saturating_add(unread), doubtful)
    }

    /// Shows every saved message: ready ones in the order of their subject, then the rest by due time. Ends with the
    /// first error that `give` returns.
    ///
    /// # Errors
    /// The errors of `give`, and read errors if the store has changed since [`salvage`].
    pub fn each(&self, give: &mut dyn FnMut(&SalvagedMessage<'_>) -> Result<()>) -> Result<()> {
        let (mut payloads, mut buffer) = (Payloads::new(&self.storage, &self.loaded), Vec::new());
        for one in &self.kept {
            let sequence = one.entry.payload_sequence();
            payloads.read(one.entry.location(), sequence, &mut buffer)?;
            let record = read_record(&buffer, sequence).ok();
            let Some(message) = record.as_ref().and_then(decode_message) else {
                let found = "another record".to_owned();
                let expected = "a message".to_owned();
                let (path, offset) = (String::new(), u64::from(one.entry.location().offset()));
                return Err(Error::DamagedPayload { sequence: sequence.0, path, offset, expected, found });
            };
            let groups = one.groups.iter().filter_map(|group| self.group_names.get(group)).map(String::as_str);
            let subject = self.names.get(&one.entry.subject()).map_or("", String::as_str);
            let death = self.deaths.get(&one.entry.sequence());
            let (groups, due, is_doubtful) = (groups.collect(), one.entry.due(), one.sure == Sure::Doubtful);
            give(&SalvagedMessage { subject, groups, due, death, is_doubtful, message })?;
        }
        Ok(())
    }

    fn count(
        &mut self,
        mut groups: BTreeMap<(SubjectNumber, String), u64>,
        lost: Vec<(Kept, Error)>,
        missing: Vec<LostMessage>,
    ) {
        let mut subjects: BTreeMap<SubjectNumber, SalvagedSubject> = BTreeMap::new();
        for (number, name) in &self.names {
            subjects.insert(*number, SalvagedSubject { name: name.clone(), ..SalvagedSubject::default() });
        }
        for one in &self.kept {
            let subject = subjects.entry(one.entry.subject()).or_default();
            let count = match one.sure {
                Sure::Pending => &mut subject.pending,
                Sure::Ready(_) => &mut subject.ready,
                Sure::Doubtful => &mut subject.doubtful,
            };
            *count = count.saturating_add(1);
            if !matches!(one.sure, Sure::Ready(_)) {
                continue;
            }
            for ((_, name), unfinished) in groups.iter_mut().filter(|((of, _), _)| *of == one.entry.subject()) {
                let names = one.groups.iter().filter_map(|group| self.group_names.get(group));
                if one.groups.is_empty() || names.into_iter().any(|other| other == name) {
                    *unfinished = unfinished.saturating_add(1);
                }
            }
        }
        for (one, error) in lost {
            let subject = subjects.entry(one.entry.subject()).or_default();
            subject.lost = subject.lost.saturating_add(1);
            if self.lost.len() < LISTED_MAX {
                let due = (one.entry.due() > Millis(0)).then_some(one.entry.due());
                let name = subject.name.clone();
                self.lost.push(LostMessage { subject: name, sequence: one.entry.payload_sequence(), due, error });
            }
        }
        let mut elsewhere = SalvagedSubject::default();
        for one in missing {
            let by_name = subjects.values_mut().find(|subject| subject.name == one.subject && !one.subject.is_empty());
            let subject = by_name.unwrap_or(&mut elsewhere);
            subject.lost = subject.lost.saturating_add(1);
            if self.lost.len() < LISTED_MAX {
                self.lost.push(one);
            }
        }
        let named = |subject: SubjectNumber| self.names.get(&subject).cloned().unwrap_or_default();
        self.groups = groups
            .into_iter()
            .map(|((subject, name), unfinished)| SalvagedGroup { subject: named(subject), name, unfinished })
            .collect();
        let is_there = |one: &SalvagedSubject| one.pending + one.ready + one.doubtful + one.lost > 0;
        self.subjects = subjects.into_values().chain([elsewhere]).filter(is_there).collect();
    }
}
