//! What holds the space of a store: for each file who needs it, for each of them what would come
//! back without it, and how much is kept for each reason.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{FileKind, InspectedFile};
use crate::record::limits::group_subject;
use crate::store::names::subject_names::is_of_users;
use crate::store::retention::holders::{Holder, HolderKind, Need};
use crate::store::state::State;
use crate::units::{LocationFile, Millis, SegmentNumber};

/// Holders that are named of one file, at most; the rest is counted.
const NAMED_MAX: usize = 16;

/// A reason for which space is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SpaceReason {
    /// Groups without a consumer.
    DeadGroup,
    /// Groups that somebody consumes for.
    Group,
    /// Dead letters.
    DeadLetters,
    /// Ready messages that no group consumes.
    NoGroup,
    /// Messages that wait for their time.
    Pending,
    /// The log that an open applies.
    Replay,
    /// Pins of readers.
    Pin,
    /// Archives that have not got it yet.
    Archive,
    /// Nothing unfinished: it goes when it is old enough and the kept checkpoints need it no more.
    Finished,
    /// Checkpoints, prepared segments, the identity: what every store has.
    Upkeep,
    /// Evidence that repairs kept.
    Aside,
}

impl SpaceReason {
    /// Every reason, in the order in which they are reported.
    pub const ALL: [Self; 11] = [
        Self::DeadGroup,
        Self::Group,
        Self::DeadLetters,
        Self::NoGroup,
        Self::Pending,
        Self::Replay,
        Self::Pin,
        Self::Archive,
        Self::Finished,
        Self::Upkeep,
        Self::Aside,
    ];

    /// `None` for a checkpoint: what it names is needed by others, or finished.
    fn of(kind: &HolderKind) -> Option<Self> {
        match kind {
            HolderKind::Group { consumers: 0, .. } => Some(Self::DeadGroup),
            HolderKind::Group { .. } => Some(Self::Group),
            HolderKind::DeadLetters { .. } => Some(Self::DeadLetters),
            HolderKind::NoGroup { .. } => Some(Self::NoGroup),
            HolderKind::Pending { .. } => Some(Self::Pending),
            HolderKind::Replay => Some(Self::Replay),
            HolderKind::Pin { .. } => Some(Self::Pin),
            HolderKind::Archive { .. } => Some(Self::Archive),
            HolderKind::Checkpoint { .. } => None,
        }
    }
}

/// How much is held for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldSpace {
    /// The reason.
    pub reason: SpaceReason,
    /// How many hold it so.
    pub holders: u64,
    /// Bytes; what is held for several reasons counts for each.
    pub bytes: u64,
    /// The bytes that are held for no other reason.
    pub alone: u64,
}

/// Notes who holds each of `files`, and weighs the holders and the reasons.
pub(in crate::store) fn weigh(
    state: &State,
    needs: &[Need],
    files: &mut [InspectedFile],
) -> (Vec<Holder>, Vec<HeldSpace>) {
    let mut holders: Vec<Holder> = needs.iter().map(|need| unweighed(state, need)).collect();
    let mut space: Vec<HeldSpace> =
        SpaceReason::ALL.map(|reason| HeldSpace { reason, holders: 0, bytes: 0, alone: 0 }).to_vec();
    for reason in needs.iter().filter_map(|need| SpaceReason::of(&need.kind)) {
        add(&mut space, reason, |held| held.holders = held.holders.saturating_add(1));
    }
    let heads = heads(needs);
    for file in files {
        let bytes = file.bytes.saturating_sub(file.hole_bytes);
        let mut by: Vec<(usize, &Need)> = file.place.map_or_else(Vec::new, |place| {
            needs.iter().enumerate().filter(|(_, need)| needs_file(need, place)).collect()
        });
        by.sort_by_key(|(_, need)| SpaceReason::of(&need.kind).map_or(usize::MAX, |reason| reason as usize));
        for (at, _) in &by {
            if let Some(holder) = holders.get_mut(*at) {
                holder.bytes = holder.bytes.saturating_add(bytes);
            }
        }
        let deciding = deciding(&by);
        if let [at] = deciding.as_slice()
            && let Some(holder) = holders.get_mut(*at)
        {
            holder.alone = holder.alone.saturating_add(bytes);
        }
        if let Some(holder) = removed_with(&deciding, needs, &heads).and_then(|head| holders.get_mut(head)) {
            holder.alone = holder.alone.saturating_add(bytes);
        }
        let sole = deciding.iter().filter_map(|at| SpaceReason::of(&needs.get(*at)?.kind)).collect::<BTreeSet<_>>();
        let mut reasons: BTreeSet<SpaceReason> =
            by.iter().filter_map(|(_, need)| SpaceReason::of(&need.kind)).collect();
        if deciding.is_empty() {
            reasons.insert(without_holder(file));
        }
        for reason in &reasons {
            let is_alone =
                if sole.is_empty() { *reason != SpaceReason::Pin } else { sole.len() == 1 && sole.contains(reason) };
            add(&mut space, *reason, |held| {
                held.bytes = held.bytes.saturating_add(bytes);
                held.alone = held.alone.saturating_add(if is_alone { bytes } else { 0 });
            });
        }
        file.held_by_count = by.len() as u64;
        file.held_by = by.iter().take(NAMED_MAX).filter_map(|(at, _)| u32::try_from(*at).ok()).collect();
    }
    space.retain(|held| held.bytes > 0);
    (holders, space)
}

fn needs_file(need: &Need, place: LocationFile) -> bool {
    matches!(need.kind, HolderKind::Pin { .. }) || need.files.has(place)
}

/// Returns the holders that decide whether a file stays: those that need it, else pins where no kept checkpoint needs
/// it. With neither the file is finished.
fn deciding(by: &[(usize, &Need)]) -> Vec<usize> {
    let of = |wanted: &dyn Fn(&HolderKind) -> bool| -> Vec<usize> {
        by.iter().filter(|(_, need)| wanted(&need.kind)).map(|(at, _)| *at).collect()
    };
    let is_pin = |kind: &HolderKind| matches!(kind, HolderKind::Pin { .. });
    let is_checkpoint = |kind: &HolderKind| matches!(kind, HolderKind::Checkpoint { .. });
    let needing = of(&|kind| !is_pin(kind) && !is_checkpoint(kind));
    if !needing.is_empty() {
        return needing;
    }
    if of(&is_checkpoint).is_empty() { of(&is_pin) } else { Vec::new() }
}

/// The subject and the group with which this ends: a group ends with what it gave back and its dead letters.
fn family(kind: &HolderKind) -> Option<(&str, &str)> {
    match kind {
        HolderKind::DeadLetters { subject, group } => Some((subject, group)),
        HolderKind::Group { subject, group, .. } => {
            let own = group_subject(subject).filter(|own| own.group == group);
            Some((own.map_or(subject.as_str(), |own| own.subject), group))
        }
        _ => None,
    }
}

/// The groups that others end with, by their families.
fn heads(needs: &[Need]) -> BTreeMap<(&str, &str), usize> {
    let is_head = |kind: &HolderKind| matches!(kind, HolderKind::Group { subject, .. } if is_of_users(subject));
    let heads = needs.iter().enumerate().filter(|(_, need)| is_head(&need.kind));
    heads.filter_map(|(at, need)| Some((family(&need.kind)?, at))).collect()
}

/// Returns the group whose removal ends all deciding holders, where it is not the only one.
fn removed_with(deciding: &[usize], needs: &[Need], heads: &BTreeMap<(&str, &str), usize>) -> Option<usize> {
    let mut families = deciding.iter().map(|at| family(&needs.get(*at)?.kind));
    let first = families.next()??;
    let head = *heads.get(&first)?;
    (deciding != [head] && families.all(|other| other == Some(first))).then_some(head)
}

fn without_holder(file: &InspectedFile) -> SpaceReason {
    match file.kind {
        FileKind::Segment | FileKind::ScheduleRun | FileKind::DispatchRun | FileKind::UnusedRun => {
            SpaceReason::Finished
        }
        FileKind::Aside => SpaceReason::Aside,
        FileKind::Preparing | FileKind::StagedRun | FileKind::Checkpoint | FileKind::Pin | FileKind::Other => {
            SpaceReason::Upkeep
        }
    }
}

fn add(space: &mut [HeldSpace], reason: SpaceReason, change: impl Fn(&mut HeldSpace)) {
    space.iter_mut().filter(|held| held.reason == reason).for_each(change);
}

fn unweighed(state: &State, need: &Need) -> Holder {
    let first = state.segments.first().map(|start| start.segment);
    let segment = need.files.floor.map(|floor| first.map_or(floor, |first| floor.max(first)));
    Holder {
        kind: need.kind.clone(),
        messages: need.messages,
        segment,
        begun: segment.and_then(|segment| begun(state, segment)),
        bytes: 0,
        alone: 0,
    }
}

/// When a segment began, by the store's clock.
fn begun(state: &State, segment: SegmentNumber) -> Option<Millis> {
    let start = state.segments.iter().find(|start| start.segment == segment)?;
    // The time is unknown before the first batch.
    Some(start.position.trusted).filter(|trusted| trusted.0 > 0)
}
