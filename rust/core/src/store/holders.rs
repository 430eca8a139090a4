//! Who needs the log from where on: what an operator asks when space does not come back.

use super::inspection::{FileKind, InspectedFile};
use super::retention::KeptFiles;
use super::state::State;
use crate::message_log::segment_path;
use crate::units::{LocationFile, ReadyNumber, SegmentNumber, SubjectNumber};

/// Why a part of the log is needed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HolderKind {
    /// A group has not finished messages that lie there.
    Group {
        /// The subject.
        subject: String,
        /// The group.
        group: String,
    },
    /// Ready messages of a subject that no group consumes.
    NoGroup {
        /// The subject.
        subject: String,
    },
    /// Messages that wait for their time, and whose payloads were not copied into the run.
    Pending {
        /// The run's number.
        run: u32,
    },
    /// A checkpoint, which an open may start from.
    Checkpoint {
        /// Its number.
        number: u32,
    },
    /// The log behind the newest checkpoint, which an open applies.
    Replay,
}

/// Someone who needs the log from a segment on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Who, and why.
    pub kind: HolderKind,
    /// How many messages; 0 where that is no matter of messages.
    pub messages: u64,
    /// The oldest segment that is needed.
    pub segment: SegmentNumber,
    /// Bytes of the log from there on.
    pub bytes: u64,
}

/// All who need some of the log, who needs the oldest first.
pub(super) fn holders(state: &State, kept: &[KeptFiles], files: &[InspectedFile]) -> Vec<Holder> {
    let mut found = Vec::new();
    let mut add = |kind: HolderKind, messages: u64, segment: SegmentNumber| {
        let first = segment_path(segment);
        let segments = files.iter().filter(|file| file.kind == FileKind::Segment && file.path >= first);
        let bytes = segments.map(|file| file.bytes).fold(0, u64::saturating_add);
        found.push(Holder { kind, messages, segment, bytes });
    };
    if let Some(segment) = state.position.end.segment().filter(|_| kept.is_empty()) {
        let first = state.segments.first().map_or(segment, |start| start.segment);
        add(HolderKind::Replay, 0, first);
    }
    for files in kept {
        add(HolderKind::Checkpoint { number: files.checkpoint }, 0, files.floor);
    }
    for window in state.schedule.windows().iter().filter(|window| window.pending() > 0) {
        let Some(run) = window.run() else { continue };
        let segments = run.references().iter().filter_map(|reference| match reference.file {
            LocationFile::Segment(segment) => Some(segment),
            LocationFile::Run(_) => None,
        });
        if let Some(segment) = segments.min() {
            add(HolderKind::Pending { run: run.number().0 }, window.pending(), segment);
        }
    }
    for (number, subject) in state.subjects.iter() {
        let next = state.dispatch.next_number(number);
        let name = subject.name.clone();
        let below = state.dispatch.finished_below(number);
        if subject.groups.is_empty()
            && let Some(segment) = oldest(state, number, below)
        {
            add(HolderKind::NoGroup { subject: name.clone() }, next.since(below), segment);
        }
        for group in subject.groups.iter().filter_map(|group| state.groups.get(group)) {
            let below = ReadyNumber(group.done.below());
            if let Some(segment) = oldest(state, number, below) {
                let kind = HolderKind::Group { subject: name.clone(), group: group.name.clone() };
                add(kind, next.since(below), segment);
            }
        }
    }
    found.sort_by_key(|holder| holder.segment);
    found
}

/// The segment in which the payload of a ready message lies; `None` where there is no such message,
/// or it lies in a run.
fn oldest(state: &State, subject: SubjectNumber, number: ReadyNumber) -> Option<SegmentNumber> {
    let entry = state.dispatch.find(subject, number).ok().flatten()?;
    entry.location().segment().filter(|segment| segment.0 > 0)
}
