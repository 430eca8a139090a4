//! The certain part of a damaged store: one of its checkpoints, and the facts after it up to the first that cannot be
//! read. After that fact the numbers of ready messages can no longer be counted, so facts with such numbers are not
//! trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::late_facts::Late;
use crate::error::{Error, Result};
use crate::message_log::{Find, Holes, Stream, sift};
use crate::record::Records;
use crate::record::adopt::sequences_of;
use crate::run::{RunKind, list_runs};
use crate::storage::Storage;
use crate::store::checkpoint::file::ReadCheckpoint;
use crate::store::options::OwnerOptions;
use crate::store::owner::{Owner, VisibleBatch};
use crate::store::recovery::newest::Behind;
use crate::store::recovery::restoration::{feed_from, first_position, open_run, state_of};
use crate::store::state::State;
use crate::units::{Location, Millis, RunNumber, Sequence};

/// Sequences whose facts cannot be read. A message among them is still saved if a run has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gap {
    /// The first sequence.
    pub first: Sequence,
    /// The number of sequences.
    pub count: u64,
}

/// The certain state, and what is known beyond it.
pub(in crate::store) struct Base {
    pub(in crate::store) owner: Owner,
    pub(in crate::store) late: Late,
    pub(in crate::store) gaps: Vec<Gap>,
    pub(in crate::store) damage: Vec<Error>,
    /// True if neither a checkpoint nor the first fact of the log exists.
    pub(in crate::store) is_blind: bool,
    /// The facts that were applied after the checkpoint, and their bytes in the log.
    pub(in crate::store) applied: Behind,
    /// The number of readable facts after the first unreadable one.
    pub(in crate::store) late_facts: u64,
    /// The sequence after the last known fact, from the checkpoint or from the log.
    pub(in crate::store) end: Sequence,
}

impl Base {
    /// The sequence after the last fact whose effect is certain.
    pub(super) fn certain_to(&self) -> Sequence {
        self.owner.applied()
    }

    /// Adds a gap for the facts from the end of what was read to `known`: these facts existed and are lost.
    pub(super) fn miss_below(&mut self, known: Sequence) {
        if self.end < known {
            self.gaps.push(Gap { first: self.end, count: known.since(self.end) });
            self.end = known;
        }
    }
}

/// Starts from a checkpoint, or from the first fact, and reads the whole log. Facts behind `visible` are readable, but are
/// not certain.
///
/// # Errors
/// `Storage`, `NewerFormat`.
pub(in crate::store) fn base(
    storage: &Arc<dyn Storage>,
    stream: Stream,
    from: Option<&ReadCheckpoint>,
    visible: Option<Location>,
) -> Result<Base> {
    let (owner, damage) = lenient(storage, stream, from)?;
    let next = owner.applied();
    let mut reading = Reading {
        base: Base {
            owner,
            late: Late::default(),
            gaps: Vec::new(),
            damage,
            is_blind: false,
            applied: Behind::default(),
            late_facts: 0,
            end: next,
        },
        exact: true,
        next,
        from_start: from.is_none(),
        visible,
    };
    let holes = reading.base.owner.state().holes.clone();
    sift(storage, stream, &holes, &mut |find| reading.take(find))?;
    // Nothing of the log is left, so only runs may still have messages.
    let is_nothing_read = from.is_none() && reading.next == next;
    let is_blind = reading.base.is_blind || (is_nothing_read && !list_runs(storage.as_ref())?.is_empty());
    Ok(Base { is_blind, end: reading.next, ..reading.base })
}

/// The furthest position that a readable batch calls committed.
///
/// # Errors
/// `Storage`, `NewerFormat`.
pub(in crate::store) fn committed_end(storage: &Arc<dyn Storage>, stream: Stream) -> Result<Location> {
    let mut committed = Location(0);
    sift(storage, stream, &Holes::default(), &mut |find| {
        if let Find::Batch { header, .. } = find {
            committed = committed.max(Location(header.committed.get()));
        }
    })?;
    Ok(committed)
}

/// Restores the state of a checkpoint with those of its runs that can be opened.
fn lenient(storage: &Arc<dyn Storage>, stream: Stream, from: Option<&ReadCheckpoint>) -> Result<(Owner, Vec<Error>)> {
    let mut damage = Vec::new();
    let mut runs = BTreeMap::new();
    let mut state = match from {
        None => State::new(stream, first_position()),
        Some(used) => {
            let schedule = used.files.schedule_runs.iter().map(|named| (named, RunKind::Schedule));
            let dispatch = used.files.dispatch_runs.iter().map(|named| (named, RunKind::Dispatch));
            for (named, kind) in schedule.chain(dispatch) {
                match open_run(storage, stream, kind, named, used) {
                    Ok(run) => drop(runs.insert(named.number, run)),
                    Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
                    Err(error) => damage.push(error),
                }
            }
            state_of(stream, &used.snapshot, &used.files, &runs)?
        }
    };
    // Salvage also reads runs that no checkpoint names, so loads after this checkpoint must not get their numbers.
    let above = list_runs(storage.as_ref())?.last().map_or(RunNumber(1), |last| last.next());
    state.next_run = state.next_run.max(above);
    state.counts.forget();
    Ok((Owner::with_state(storage, state, OwnerOptions::default(), Vec::new(), 1, feed_from(from)), damage))
}

struct Reading {
    base: Base,
    /// True until the first fact that cannot be read.
    exact: bool,
    /// The next expected sequence.
    next: Sequence,
    from_start: bool,
    visible: Option<Location>,
}

impl Reading {
    fn take(&mut self, find: Find<'_>) {
        let position = self.base.owner.state().position;
        match find {
            Find::Damage(error) => self.base.damage.push(error),
            Find::Batch { header, start, records } => {
                if start < position.end && header.base_sequence.get() < position.next_sequence.0 {
                    return;
                }
                let base = Sequence(header.base_sequence.get());
                self.pass(base);
                let follows = base == position.next_sequence && header.chain_before.get() == position.chain;
                let end = Location(start.0.saturating_add(u64::from(header.length.get())));
                let is_visible = self.visible.is_none_or(|visible| end <= visible);
                if self.exact && follows && start >= position.end && is_visible {
                    let applied = self.base.owner.apply_facts(&VisibleBatch { header, start, records });
                    self.base.owner.take_outcomes();
                    self.base.owner.take_woken();
                    if applied.is_ok() {
                        self.base.applied.add(&header);
                        self.next = self.base.owner.applied();
                        return;
                    }
                    self.base.damage.extend(applied.err());
                }
                self.exact = self.exact && header.record_count.get() == 0;
                self.take_late(start, records, base, Millis(header.trusted_ms.get()));
            }
            Find::Record { record, location, trusted } => {
                if location < position.end && record.sequence < position.next_sequence {
                    return;
                }
                self.exact = false;
                self.pass(record.sequence);
                self.base.late.take(&record, location, trusted);
                self.base.late_facts = self.base.late_facts.saturating_add(1);
                self.next = record.sequence.plus(sequences_of(&record));
            }
        }
    }

    fn take_late(&mut self, start: Location, records: &[u8], base: Sequence, trusted: Millis) {
        let known = self.base.owner.state().schedule.next_sequence();
        let first = start.0.saturating_add(crate::record::batch::BATCH_HEADER_BYTES as u64);
        for (at, record) in Records::new(records, base).flatten() {
            if record.sequence >= known {
                let location = Location(first.saturating_add(at as u64));
                self.base.late.take(&record, location, Some(trusted));
                self.base.late_facts = self.base.late_facts.saturating_add(1);
            }
            self.next = self.next.max(record.sequence.plus(sequences_of(&record)));
        }
    }

    /// Notes a gap between the facts read before and `sequence`.
    fn pass(&mut self, sequence: Sequence) {
        if sequence <= self.next {
            return;
        }
        self.exact = false;
        let is_first = self.from_start && self.next == first_position().next_sequence;
        if is_first {
            // Facts that retention removed are no gap, and their number is unknown.
            self.base.is_blind = true;
        } else {
            self.base.gaps.push(Gap { first: self.next, count: sequence.since(self.next) });
        }
        self.next = sequence;
    }
}
