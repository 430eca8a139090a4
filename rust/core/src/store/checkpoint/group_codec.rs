//! Groups and consumers as bytes; part 5 of a checkpoint's body, see [`super::snapshot`].

use std::collections::BTreeMap;

use super::codec::{FieldReader, FieldWriter};
use crate::error::Result;
use crate::queues::{Consumer, Group, Held, RangeSet};
use crate::store::names::subjects::Subjects;
use crate::units::{ConsumerNumber, GroupNumber, Millis, PullOffset, ReadyNumber, SubjectNumber};

/// Appends one group.
pub(super) fn write_group(out: &mut FieldWriter, group: &Group) {
    out.u32(group.number.0);
    out.u32(group.subject.0);
    out.text(&group.name);
    out.u64(group.start.0);
    out.u64(group.cursor.0);
    out.u64(group.reserved_number.0);
    out.u64(group.marked_below.0);
    out.u64(group.again_below.0);
    out.u64(group.offset_floor.0);
    out.u64(group.consumer_ended.0);
    out.u64(group.done.below());
    out.count(group.done.range_count());
    for (first, end) in group.done.ranges() {
        out.u64(first);
        out.u64(end);
    }
    out.count(group.returned.len());
    for (number, deliveries) in &group.returned {
        out.u64(number.0);
        out.u32(*deliveries);
    }
    out.count(group.consumers.len());
    for consumer in group.consumers.values() {
        out.u32(consumer.number.0);
        out.text(&consumer.name);
        out.u64(consumer.next_offset.0);
        out.u64(consumer.reserved_offset.0);
        out.u32(u32::from(consumer.is_lasting) | u32::from(consumer.is_broadcast) << 1);
        out.u64(consumer.seen.0);
        out.count(consumer.held.len());
        for (offset, held) in consumer.held.iter() {
            out.u64(offset.0);
            out.u64(held.number.0);
            out.u32(held.deliveries);
        }
    }
}

fn read_group(from: &mut FieldReader<'_>) -> Result<Group> {
    let (number, subject, name) = (GroupNumber(from.u32()?), SubjectNumber(from.u32()?), from.text()?);
    let mut group = Group::new(number, subject, &name, ReadyNumber(0), PullOffset(0));
    group.start = ReadyNumber(from.u64()?);
    group.cursor = ReadyNumber(from.u64()?);
    group.reserved_number = ReadyNumber(from.u64()?);
    group.marked_below = ReadyNumber(from.u64()?);
    group.again_below = ReadyNumber(from.u64()?);
    group.offset_floor = PullOffset(from.u64()?);
    group.consumer_ended = Millis(from.u64()?);
    group.done = RangeSet::starting_at(from.u64()?);
    for _ in 0..from.count(16)? {
        let (first, end) = (from.u64()?, from.u64()?);
        group.done.insert_range(first, end);
    }
    for _ in 0..from.count(12)? {
        group.returned.insert(ReadyNumber(from.u64()?), from.u32()?);
    }
    for _ in 0..from.count(44)? {
        group.consumers.add(read_consumer(from)?);
    }
    Ok(group)
}

fn read_consumer(from: &mut FieldReader<'_>) -> Result<Consumer> {
    let (number, name) = (ConsumerNumber(from.u32()?), from.text()?);
    let mut consumer = Consumer::new(number, &name, PullOffset(0));
    consumer.next_offset = PullOffset(from.u64()?);
    consumer.reserved_offset = PullOffset(from.u64()?);
    let bits = from.u32()?;
    (consumer.is_lasting, consumer.is_broadcast) = (bits & 1 != 0, bits & 2 != 0);
    consumer.seen = Millis(from.u64()?);
    for _ in 0..from.count(20)? {
        let offset = PullOffset(from.u64()?);
        let held = Held { number: ReadyNumber(from.u64()?), deliveries: from.u32()? };
        if !consumer.held.append(offset, held, 1) {
            return Err(from.malformed("offsets that ascend"));
        }
    }
    Ok(consumer)
}

/// Reads all groups, and makes each known to its subject.
pub(super) fn read_groups(from: &mut FieldReader<'_>, subjects: &mut Subjects) -> Result<BTreeMap<GroupNumber, Group>> {
    let mut groups = BTreeMap::new();
    for _ in 0..from.count(72)? {
        let group = read_group(from)?;
        let Some(subject) = subjects.get_mut(group.subject) else {
            return Err(from.malformed("a group of a known subject"));
        };
        subject.groups.add(group.number, &group.name);
        groups.insert(group.number, group);
    }
    Ok(groups)
}
