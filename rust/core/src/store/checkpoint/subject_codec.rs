//! Subjects and their queues as bytes; part 4 of a checkpoint's body, see [`super::snapshot`].

use std::collections::BTreeMap;

use super::codec::{FieldReader, FieldWriter};
use crate::dispatch_log::SUBJECT_NUMBER_MAX;
use crate::error::Result;
use crate::queues::RangeSet;
use crate::store::names::subjects::{Subject, Subjects};
use crate::store::state::State;
use crate::units::{Millis, ReadyNumber, Sequence, SubjectNumber};

/// One subject's queue, as of the position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct QueueSnapshot {
    pub(in crate::store) next: ReadyNumber,
    pub(in crate::store) finished_below: ReadyNumber,
    /// Unfinished messages below it are in the log alone.
    pub(in crate::store) listed_from: ReadyNumber,
    /// How many entries are pending.
    pub(in crate::store) pending: u64,
}

impl QueueSnapshot {
    /// The queue as of now.
    pub(in crate::store) fn of(state: &State, subject: SubjectNumber) -> Self {
        let dispatch = &state.dispatch;
        Self {
            next: dispatch.next_number(subject),
            finished_below: dispatch.finished_below(subject),
            listed_from: dispatch.listed_from(subject),
            pending: state.counts.get(subject),
        }
    }
}

/// Appends all subjects.
pub(super) fn write_subjects(
    out: &mut FieldWriter,
    subjects: &Subjects,
    queue_of: impl Fn(SubjectNumber) -> QueueSnapshot,
) {
    out.count(subjects.iter().count());
    for (number, subject) in subjects.iter() {
        let queue = queue_of(number);
        out.u32(number.0);
        out.text(&subject.name);
        out.u64(queue.next.0);
        out.u64(queue.finished_below.0);
        out.u64(queue.listed_from.0);
        out.u64(subject.gone.below());
        out.count(subject.gone.range_count());
        for (first, end) in subject.gone.ranges() {
            out.u64(first);
            out.u64(end);
        }
        out.u64(subject.ended_before.0);
        out.u64(subject.expired);
        out.u64(subject.expired_before.0);
        out.u64(queue.pending);
    }
}

/// Reads all subjects.
pub(super) fn read_subjects(from: &mut FieldReader<'_>) -> Result<(Subjects, BTreeMap<SubjectNumber, QueueSnapshot>)> {
    let mut subjects = Subjects::default();
    let mut queues = BTreeMap::new();
    for _ in 0..from.count(44)? {
        let (number, name) = (SubjectNumber(from.u32()?), from.text()?);
        if number.0 > SUBJECT_NUMBER_MAX || !subjects.add(number, &name) {
            return Err(from.malformed("a subject with a number and name of its own"));
        }
        let (next, finished_below) = (ReadyNumber(from.u64()?), ReadyNumber(from.u64()?));
        let listed_from = ReadyNumber(from.u64()?);
        if listed_from < finished_below || listed_from > next {
            return Err(from.malformed("ready messages that are in runs from a number of their subject on"));
        }
        let Some(subject) = subjects.get_mut(number) else { continue };
        read_what_is_gone(from, subject)?;
        queues.insert(number, QueueSnapshot { next, finished_below, listed_from, pending: from.u64()? });
    }
    Ok((subjects, queues))
}

fn read_what_is_gone(from: &mut FieldReader<'_>, subject: &mut Subject) -> Result<()> {
    subject.gone = RangeSet::starting_at(from.u64()?);
    for _ in 0..from.count(16)? {
        let (first, end) = (from.u64()?, from.u64()?);
        subject.gone.insert_range(first, end);
    }
    subject.ended_before = Sequence(from.u64()?);
    subject.expired = from.u64()?;
    subject.expired_before = Millis(from.u64()?);
    Ok(())
}
