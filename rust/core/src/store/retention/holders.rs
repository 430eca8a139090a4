//! The holders of files: which group, pin, archive or checkpoint needs which segments and runs. An operator reads the
//! holders to learn why disk space is not freed.
//!
//! The rule is the one of retention: a run is needed while a message in it is unfinished, together with every file that
//! its rows point into. A holder that needs a segment needs all later ones.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::kept_files::KeptFiles;
use super::pins::{ArchiveMark, Pin};
use crate::queues::Group;
use crate::run::Run;
use crate::store::names::subject_names::dead_letters_of;
use crate::store::state::State;
use crate::units::{LocationFile, Millis, ReadyNumber, RunNumber, SegmentNumber, Sequence, SubjectNumber};

/// Why files are needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HolderKind {
    /// A group has not finished messages in these files.
    Group {
        /// The subject.
        subject: String,
        /// The group.
        group: String,
        /// The number of its consumers. The space of a group without consumers is never freed automatically.
        consumers: u64,
        /// When the last of its consumers ended; `None` if none is known to have ended.
        consumer_ended: Option<Millis>,
    },
    /// Dead letters of a group, and the log that gives their reasons.
    DeadLetters {
        /// The subject that the group consumes.
        subject: String,
        /// The group.
        group: String,
    },
    /// Ready messages of a subject that no group consumes.
    NoGroup {
        /// The subject.
        subject: String,
    },
    /// Messages that are not yet due.
    Pending {
        /// The number of the run that holds them; `None` for messages since the last checkpoint.
        run: Option<u32>,
    },
    /// The log that an open applies, after the older of the kept checkpoints.
    Replay,
    /// A reader without the lock: no file is removed until the pin ends or expires.
    Pin {
        /// The name of its file.
        name: String,
        /// When the pin expires.
        expires: Millis,
    },
    /// An archive that has not read everything yet, and that retention waits for.
    Archive {
        /// The name of its mark.
        name: String,
    },
    /// A kept checkpoint, with the files that were needed or young when it was made.
    Checkpoint {
        /// Its number.
        number: u32,
    },
}

/// A holder of files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The kind of holder, and why it needs files.
    pub kind: HolderKind,
    /// The number of messages; 0 for holders without messages.
    pub messages: u64,
    /// The oldest segment that it needs, with all later ones; `None` if it needs only runs.
    pub segment: Option<SegmentNumber>,
    /// When that segment began, by the store's clock.
    pub begun: Option<Millis>,
    /// Bytes of the log from that segment on, and of the needed runs.
    pub bytes: u64,
    /// Bytes that no other holder needs. They are freed some checkpoints after this holder ends, once they are old
    /// enough. For a group they include its retries and dead letters, which end with it. 0 for a checkpoint, which is
    /// removed automatically.
    pub alone: u64,
}

/// The files that one holder needs.
pub(in crate::store) struct Need {
    pub(in crate::store) kind: HolderKind,
    pub(in crate::store) messages: u64,
    pub(in crate::store) files: Files,
}

/// A set of files in the form that retention uses.
#[derive(Clone, Default)]
pub(in crate::store) struct Files {
    /// All segments from this one on.
    pub(in crate::store) floor: Option<SegmentNumber>,
    pub(in crate::store) runs: BTreeSet<RunNumber>,
}

impl Files {
    fn add(&mut self, file: LocationFile) {
        match file {
            LocationFile::Segment(SegmentNumber(0)) => {}
            LocationFile::Segment(segment) => {
                self.floor = Some(self.floor.map_or(segment, |floor| floor.min(segment)));
            }
            LocationFile::Run(run) => drop(self.runs.insert(run)),
        }
    }

    fn extend(&mut self, other: &Self) {
        other.floor.into_iter().for_each(|floor| self.add(LocationFile::Segment(floor)));
        self.runs.extend(&other.runs);
    }

    /// A run with all files that its rows point into.
    fn of_run(run: &Run) -> Self {
        let mut files = Self::default();
        files.add(LocationFile::Run(run.number()));
        run.references().iter().for_each(|reference| files.add(reference.file));
        files
    }

    fn is_empty(&self) -> bool {
        self.floor.is_none() && self.runs.is_empty()
    }

    pub(in crate::store) fn has(&self, file: LocationFile) -> bool {
        match file {
            LocationFile::Segment(segment) => self.floor.is_some_and(|floor| floor <= segment),
            LocationFile::Run(run) => self.runs.contains(&run),
        }
    }
}

/// Returns all holders; the one that needs the oldest segment comes first. `replay_from` is the segment in which the
/// older of the kept checkpoints ends.
pub(in crate::store) fn needs(
    state: &State,
    kept: &[KeptFiles],
    replay_from: Option<SegmentNumber>,
    pins: &[Pin],
    marks: &[ArchiveMark],
) -> Vec<Need> {
    let mut found = Vec::new();
    let replay_from = replay_from.or_else(|| Some(state.segments.first()?.segment));
    let replay = Files { floor: replay_from, ..Files::default() };
    found.push(Need { kind: HolderKind::Replay, messages: 0, files: replay });
    let of_checkpoint = |files: &KeptFiles| Need {
        kind: HolderKind::Checkpoint { number: files.checkpoint },
        messages: 0,
        files: Files { floor: Some(files.floor), runs: files.runs.clone() },
    };
    found.extend(kept.iter().map(of_checkpoint));
    // Runs also stay while a pin exists.
    let everything = || Files { floor: Some(SegmentNumber(0)), ..Files::default() };
    found.extend(pins.iter().map(|pin| Need {
        kind: HolderKind::Pin { name: pin.name.clone(), expires: pin.expires },
        messages: 0,
        files: everything(),
    }));
    found.extend(marks.iter().map(|mark| Need {
        kind: HolderKind::Archive { name: mark.name.clone() },
        messages: 0,
        files: Files { floor: awaited_from(state, mark.end), ..Files::default() },
    }));
    found.extend(pending(state));
    found.extend(ready(state));
    found.retain(|need| !need.files.is_empty());
    found.sort_by_key(|need| need.files.floor.map_or(u32::MAX, |floor| floor.0));
    found
}

/// Returns the first segment with facts from `end` on, or the last segment. A segment ends where the next one begins.
fn awaited_from(state: &State, end: Sequence) -> Option<SegmentNumber> {
    let ends = state.segments.iter().skip(1).map(|next| next.position.next_sequence);
    let mut awaited =
        state.segments.iter().zip(ends).filter(|(_, next)| *next > end).map(|(segment, _)| segment.segment);
    awaited.next().or_else(|| state.segments.last().map(|last| last.segment))
}

/// The runs with pending messages, and the files of messages that became pending after the last checkpoint.
fn pending(state: &State) -> Vec<Need> {
    let windows = state.schedule.windows().iter().filter(|window| state.schedule.is_needed(window));
    let mut found: Vec<Need> = windows
        .filter_map(|window| {
            let run = window.run()?;
            let kind = HolderKind::Pending { run: Some(run.number().0) };
            Some(Need { kind, messages: window.pending(), files: Files::of_run(run) })
        })
        .collect();
    let (mut recent, mut messages) = (Files::default(), 0_u64);
    state.schedule.each_in_memory(&mut |entry| {
        messages = messages.saturating_add(1);
        if entry.origin().is_none() {
            recent.add(entry.location().file());
        }
    });
    if messages > 0 {
        found.push(Need { kind: HolderKind::Pending { run: None }, messages, files: recent });
    }
    found
}

/// The files that ready messages of one subject need, by the last number that needs them.
type ByLast = BTreeMap<SubjectNumber, Vec<(ReadyNumber, Rc<Files>)>>;

/// The groups, dead letters, and subjects without a group that have unfinished ready messages.
fn ready(state: &State) -> Vec<Need> {
    let by_last = by_last(state);
    let mut found = Vec::new();
    for (number, subject) in state.subjects.iter() {
        let Some(needed) = by_last.get(&number) else { continue };
        let from = |below: ReadyNumber| {
            let mut files = Files::default();
            needed.iter().filter(|(last, _)| *last >= below).for_each(|(_, these)| files.extend(these));
            files
        };
        let next = state.dispatch.next_number(number);
        if subject.groups.is_empty() {
            let below = state.dispatch.finished_below(number);
            let kind = HolderKind::NoGroup { subject: subject.name.clone() };
            if below < next {
                found.push(Need { kind, messages: next.since(below), files: from(below) });
            }
        }
        for group in subject.groups.iter().filter_map(|group| state.groups.get(group)) {
            let below = ReadyNumber(group.done.below());
            if below < next {
                let messages = crate::store::query::lag::lag_of(state, group);
                found.push(Need { kind: kind_of(&subject.name, group), messages, files: from(below) });
            }
        }
    }
    found
}

fn kind_of(subject: &str, group: &Group) -> HolderKind {
    if let Some((subject, of)) = dead_letters_of(subject).filter(|(_, of)| *of == group.name) {
        return HolderKind::DeadLetters { subject: subject.to_owned(), group: of.to_owned() };
    }
    let consumers = group.consumers.len() as u64;
    let consumer_ended = Some(group.consumer_ended).filter(|ended| ended.0 > 0);
    HolderKind::Group { subject: subject.to_owned(), group: group.name.clone(), consumers, consumer_ended }
}

fn by_last(state: &State) -> ByLast {
    let mut found = ByLast::new();
    for run in state.dispatch.runs().iter().filter(|run| !state.dispatch.is_run_finished(run)) {
        let files = Rc::new(Files::of_run(run.run()));
        let unfinished = run.ranges().iter().filter(|range| range.last >= state.dispatch.listed_from(range.subject));
        for range in unfinished {
            found.entry(range.subject).or_default().push((range.last, Rc::clone(&files)));
        }
    }
    for (number, subject) in state.subjects.iter() {
        let Some(queue) = state.dispatch.queue(number) else { continue };
        let is_dead = dead_letters_of(&subject.name).is_some();
        let mut recent: BTreeMap<LocationFile, ReadyNumber> = BTreeMap::new();
        for (ready, entry) in queue.each_in_memory() {
            recent.insert(entry.location().file(), ready);
            if let Some(segment) = died_in(state, is_dead, entry.sequence()) {
                recent.insert(LocationFile::Segment(segment), ready);
            }
        }
        for (file, last) in recent {
            let mut files = Files::default();
            files.add(file);
            found.entry(number).or_default().push((last, Rc::new(files)));
        }
    }
    found
}

/// Returns the segment that gives the reason of a dead letter. It is held as long as the dead letter.
fn died_in(state: &State, is_dead: bool, sequence: Sequence) -> Option<SegmentNumber> {
    if is_dead { state.segment_of(sequence) } else { None }
}
