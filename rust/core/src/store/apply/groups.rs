//! Groups and their consumers: how they begin, reserve, receive and acknowledge messages, and end.

use super::effects::{Effects, Outcome};
use crate::planted::{Planted, is_on};
use crate::queues::{Consumer, Group};
use crate::record::attach::Attach;
use crate::record::name::{GroupEnd, GroupStart};
use crate::record::queue::{Acknowledge, Assign, PassOver, Reserve};
use crate::store::names::subject_names::{dead_letter_subject, retry_subject};
use crate::store::state::State;
use crate::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, ReadyNumber, Sequence, SubjectNumber};

pub(super) fn apply_group(state: &mut State, subject: SubjectNumber, start: GroupStart, name: &str) -> Outcome {
    if let Some(there) = state.group_named(subject, name) {
        return Outcome::GroupThere(there);
    }
    let start = place_of(state, subject, start);
    let Some(group) = ensure_group(state, subject, start, name) else { return Outcome::NotFound };
    // The group counts messages below its start as acknowledged.
    state.settle(subject);
    Outcome::Group(group)
}

/// The number that a new group of the subject starts with. Messages below those that the subject remembers as gone are
/// never read again, since it is not known any more which of them were withdrawn.
fn place_of(state: &State, subject: SubjectNumber, start: GroupStart) -> ReadyNumber {
    match start {
        GroupStart::Unfinished if is_on(Planted::StartBelowFloor) => ReadyNumber(0),
        GroupStart::Unfinished => state.dispatch.finished_below(subject),
        GroupStart::Latest => state.dispatch.next_number(subject),
        GroupStart::Number(number) => {
            let from = state.subjects.get(subject).map_or(0, |subject| subject.gone.below());
            number.max(ReadyNumber(from)).min(state.dispatch.next_number(subject))
        }
    }
}

/// Returns the group of this name. If there is none, makes one that starts at `start`, as [`place_of`] returned it.
/// Messages from there on that were finished are unfinished again, for this group.
pub(super) fn ensure_group(
    state: &mut State,
    subject: SubjectNumber,
    start: ReadyNumber,
    name: &str,
) -> Option<GroupNumber> {
    if let Some(there) = state.group_named(subject, name) {
        return Some(there);
    }
    let floor = state.ended_groups.get(&(subject, name.to_owned())).copied().unwrap_or_default();
    let revives = is_on(Planted::StartBelowFloor) || is_on(Planted::GoneReadAgain);
    let entry = state.subjects.get_mut(subject)?;
    let number = state.next_group;
    state.next_group = number.next();
    let mut group = Group::new(number, subject, name, start, floor);
    for (first, end) in entry.gone.all_ranges().filter(|_| !revives) {
        group.done.insert_range(first.max(start.0), end);
    }
    entry.groups.add(number, name);
    state.groups.insert(number, group);
    state.floors.groups_changed(subject);
    state.dispatch.reopen(subject, start);
    Some(number)
}

pub(super) fn apply_group_end(
    state: &mut State,
    effects: &mut Effects,
    sequence: Sequence,
    number: GroupNumber,
    end: GroupEnd,
) -> Outcome {
    let Some(group) = state.groups.get(&number) else { return Outcome::NotFound };
    let derived = match end {
        GroupEnd::Alone => Vec::new(),
        GroupEnd::WithItsRetries => derived_subjects(state, group),
    };
    let name = group.name.clone();
    let mut ending = vec![number];
    ending.extend(derived.iter().filter_map(|subject| state.group_named(*subject, &name)));
    if end == GroupEnd::WithItsRetries
        && let Some(outcome) = refused(state, &ending)
    {
        return outcome;
    }
    for subject in &derived {
        // No group receives the retries and dead letters of the group any more, ready or pending.
        let next = state.dispatch.next_number(*subject);
        if let Some(entry) = state.subjects.get_mut(*subject) {
            entry.gone.insert_range(0, next.0);
            entry.ended_before = sequence;
        }
    }
    for number in ending {
        if let Some(group) = take_group(state, number) {
            state.settle(group.subject);
            effects.woken.insert(number);
        }
    }
    for subject in derived {
        state.settle(subject);
    }
    Outcome::Done
}

/// The subjects of a group's retries and dead letters.
fn derived_subjects(state: &State, group: &Group) -> Vec<SubjectNumber> {
    let Some(subject) = state.subjects.get(group.subject) else { return Vec::new() };
    let names = [retry_subject(&subject.name, &group.name), dead_letter_subject(&subject.name, &group.name)];
    names.iter().filter_map(|name| state.subjects.number(name)).collect()
}

/// Returns the refusal if one of these groups has consumers.
fn refused(state: &State, groups: &[GroupNumber]) -> Option<Outcome> {
    let consumers: usize =
        groups.iter().filter_map(|group| state.groups.get(group)).map(|one| one.consumers.len()).sum();
    (consumers > 0).then(|| Outcome::HasConsumers(u32::try_from(consumers).unwrap_or(u32::MAX)))
}

/// Removes a group from the state. Its offset end is remembered, so that a later group of its name reuses no offset.
fn take_group(state: &mut State, number: GroupNumber) -> Option<Group> {
    let group = state.groups.remove(&number)?;
    state.ended_groups.insert((group.subject, group.name.clone()), group.offset_end());
    if let Some(subject) = state.subjects.get_mut(group.subject) {
        subject.groups.remove(number, &group.name);
    }
    state.floors.groups_changed(group.subject);
    Some(group)
}

/// Resets a group: it is removed and begins again at `start` under its name. Messages that it may have delivered before
/// are marked as redelivered, and their attempts begin at 1.
pub(super) fn apply_group_reset(state: &mut State, number: GroupNumber, start: GroupStart) -> Outcome {
    let Some(group) = state.groups.get(&number) else { return Outcome::NotFound };
    let subject = group.subject;
    if let Some(outcome) = refused(state, &[number]) {
        return outcome;
    }
    // This comes before the removal: the earliest message kept may be kept for this group alone.
    let start = place_of(state, subject, start);
    let Some(before) = take_group(state, number) else { return Outcome::NotFound };
    let Some(again) = ensure_group(state, subject, start, &before.name) else { return Outcome::NotFound };
    if let Some(group) = state.groups.get_mut(&again) {
        group.again_below = before.again_below.max(before.reserved_number);
    }
    state.settle(subject);
    Outcome::Group(again)
}

pub(super) fn apply_consumer(state: &mut State, group: GroupNumber, name: &str) -> Option<ConsumerNumber> {
    let group = state.groups.get_mut(&group)?;
    Some(ensure_consumer(group, &mut state.next_consumer, name, false))
}

/// Returns the consumer of this name. If there is none, adds one.
fn ensure_consumer(group: &mut Group, next: &mut ConsumerNumber, name: &str, is_lasting: bool) -> ConsumerNumber {
    if let Some(there) = group.consumers.named(name, is_lasting) {
        return there;
    }
    let number = *next;
    *next = number.next();
    let first = if is_on(Planted::OffsetsBeginAnew) { PullOffset(0) } else { group.offset_floor };
    group.consumers.add(Consumer { is_lasting, ..Consumer::new(number, name, first) });
    number
}

/// Adds a group, a lasting consumer of it and its first reserve. An existing group or consumer stays as it is. The
/// reserve begins at the consumer's next offset and the group's cursor, as applied.
pub(super) fn apply_attach(state: &mut State, effects: &mut Effects, now: Millis, attach: &Attach<'_>) -> Outcome {
    let found = apply_group(state, attach.subject, attach.start, attach.group);
    let (Outcome::Group(number) | Outcome::GroupThere(number)) = found else { return Outcome::NotFound };
    let Some(group) = state.groups.get_mut(&number) else { return Outcome::NotFound };
    let consumer = ensure_consumer(group, &mut state.next_consumer, attach.consumer, true);
    let next_offset = group.see_consumer(consumer, attach.is_broadcast, now);
    let block = u64::from(attach.block);
    let (offset_end, number_end) = (next_offset.plus(block), group.cursor.plus(block));
    apply_reserve(state, effects, &Reserve { group: number, consumer, offset_end, number_end });
    Outcome::Attached(number, consumer)
}

pub(super) fn apply_reserve(state: &mut State, effects: &mut Effects, reserve: &Reserve) {
    if let Some(group) = state.groups.get_mut(&reserve.group) {
        group.reserve(reserve);
        effects.woken.insert(reserve.group);
    }
}

pub(super) fn apply_assign(state: &mut State, assign: &Assign<'_>) {
    if let Some(group) = state.groups.get_mut(&assign.group) {
        group.assign(assign);
    }
}

pub(super) fn apply_acknowledge(state: &mut State, effects: &mut Effects, acknowledge: &Acknowledge<'_>) {
    let Some(group) = state.groups.get_mut(&acknowledge.group) else { return };
    let subject = group.subject;
    if group.acknowledge(acknowledge) {
        state.settle(subject);
    }
    // The consumer may be below its limit again, so a parked pull may go on.
    effects.woken.insert(acknowledge.group);
}

pub(super) fn apply_pass_over(state: &mut State, pass_over: &PassOver<'_>) {
    let Some(group) = state.groups.get_mut(&pass_over.group) else { return };
    let subject = group.subject;
    if group.consumers.contains_key(&pass_over.consumer)
        && group.pass_over(pass_over.numbers.iter(), state.dispatch.next_number(subject))
    {
        state.settle(subject);
    }
}
