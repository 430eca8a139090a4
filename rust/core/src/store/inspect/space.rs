//! Reports what holds the space of a store: the holders of each file, the space that would be freed without each
//! holder, and the space held for each reason.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{FileKind, InspectedFile};
use crate::record::limits::group_subject;
use crate::store::names::subject_names::is_of_users;
use crate::store::retention::holders::{Holder, HolderKind, Need};
use crate::store::state::State;
use crate::units::{LocationFile, Millis, SegmentNumber};

/// The maximum number of holders named for one file; the rest is counted.
const NAMED_MAX: usize = 16;

/// A reason for which space is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SpaceReason {
    /// Groups without a consumer.
    DeadGroup,
    /// Groups with at least one consumer.
    Group,
    /// Dead letters.
    DeadLetters,
    /// Ready messages that no group consumes.
    NoGroup,
    /// Messages that are not yet due.
    Pending,
    /// The log that an open applies.
    Replay,
    /// Pins of readers.
    Pin,
    /// Archives that have not read the file yet.
    Archive,
    /// No holder: the file is removed once it is old enough and no kept checkpoint needs it.
    Finished,
    /// Checkpoints, prepared segments and the identity, which every store has.
    Upkeep,
    /// Bytes that repairs set aside as evidence.
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

    /// Returns `None` for a checkpoint: the files that it names are finished, or other holders need them.
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

/// The space held for one reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldSpace {
    /// The reason.
    pub reason: SpaceReason,
    /// The number of holders with this reason.
    pub holders: u64,
    /// Bytes held; a file that is held for several reasons counts for each.
    pub bytes: u64,
    /// Bytes that are held for no other reason.
    pub alone: u64,
}

/// Notes the holders of each file in `files`, and adds up the bytes of each holder and each reason.
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

/// Returns the holders that decide whether a file stays: those that need the file. Without any, pins decide, unless a
/// kept checkpoint names the file. An empty result means that the file is finished.
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

/// Returns the subject and the group that a holder ends with: removing a group also ends its retries and dead
/// letters.
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

/// The groups on the subjects of users, by family: removing one ends all holders of its family.
fn heads(needs: &[Need]) -> BTreeMap<(&str, &str), usize> {
    let is_head = |kind: &HolderKind| matches!(kind, HolderKind::Group { subject, .. } if is_of_users(subject));
    let heads = needs.iter().enumerate().filter(|(_, need)| is_head(&need.kind));
    heads.filter_map(|(at, need)| Some((family(&need.kind)?, at))).collect()
}

/// Returns the group whose removal ends all deciding holders, unless that group is the only deciding holder.
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
