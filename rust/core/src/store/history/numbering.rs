//! The owner gives the messages of a piece their ready numbers: the state says which facts counted, and each segment
//! says which number its first message has.

use std::ops::Range;
use std::sync::Arc;

use super::payload_places::PayloadPlaces;
use super::reading::{HistoryPiece, HistoryRequest, PieceBatch};
use crate::dispatch_log::{Posting, ReadPostings};
use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::schedule_log::{Entry, EntryState};
use crate::storage::Storage;
use crate::store::recovery::rescue::KeptFacts;
use crate::store::state::State;
use crate::units::{Location, ReadyNumber, SubjectNumber};

/// Where a reader goes on behind its last piece.
#[derive(Debug)]
pub(in crate::store) struct Continuation {
    /// The number of the next message.
    pub(in crate::store) number: ReadyNumber,
    from: Location,
    places: PayloadPlaces,
}

impl HistoryRequest {
    /// The request for `count` messages of a subject from `first` on, which are in the log alone. It begins at
    /// `before`, where that is not behind `first`. The index of payloads is kept in any case: another reader of
    /// the group may be farther.
    pub(in crate::store) fn of(
        storage: &Arc<dyn Storage>,
        state: &State,
        (subject, first, count): (SubjectNumber, ReadyNumber, u64),
        before: Option<Continuation>,
    ) -> Self {
        let known = nearest(state, subject, first);
        let (before, places) = match before {
            Some(Continuation { number, from, places }) => (Some((number, from)), places),
            None => (None, PayloadPlaces::default()),
        };
        let before = before.filter(|(number, _)| *number <= first);
        let nearest = before.into_iter().chain(known).max_by_key(|(_, place)| *place);
        let start = || state.segments.first().map_or(Location::NOWHERE, |start| start.position.end);
        let (number, from) = nearest.unwrap_or_else(|| (first, start()));
        let is_known = nearest.is_some();
        Self { kept: KeptFacts::of(storage, state), subject, from, number, is_known, first, count, places }
    }
}

/// The last place in the log that is known to come before the message of a ready number, and the number of the
/// subject's next message there. `None` if every segment that says a number of the subject says a higher one.
fn nearest(state: &State, subject: SubjectNumber, number: ReadyNumber) -> Option<(ReadyNumber, Location)> {
    let segment = state.segment_with(subject, number);
    let segment = segment.and_then(|start| Some((start.ready.first(subject)?, start.position.end)));
    let known = state.history_places.before(subject, number);
    known.into_iter().chain(segment).max_by_key(|(_, place)| *place)
}

impl HistoryPiece {
    /// Gives the messages their numbers. Returns those that were asked for, and where the reader goes on. Numbers whose
    /// facts cannot be read are returned as damaged.
    pub(in crate::store) fn numbered(self, state: &mut State) -> (ReadPostings, Continuation) {
        let (error, listed_from) = (self.log.error.clone(), state.dispatch.listed_from(self.subject));
        // A piece ends behind a batch. Messages beyond the count are not read a second time.
        let mut numbering = Numbering::of(&self, self.first..listed_from);
        numbering.lost_below = self.first.plus(self.count).min(listed_from);
        numbering.found.error = error;
        for (batch, entries) in self.log.batches() {
            numbering.batch(state, batch, entries);
        }
        let mut from = self.log.end;
        if self.log.is_last || self.log.ends_in_gap || !numbering.is_known {
            from = numbering.go_on_at_segment(state, self.log.end);
        }
        let number = numbering.number;
        state.history_places.note(self.subject, number, from);
        (numbering.found, Continuation { number, from, places: self.places })
    }
}

/// Numbers the messages of a piece, batch by batch.
struct Numbering {
    subject: SubjectNumber,
    /// The numbers whose messages are returned.
    wanted: Range<ReadyNumber>,
    /// Lost numbers are returned as damaged up to here.
    lost_below: ReadyNumber,
    /// The number of the next message, or a lower one if `is_known` is false.
    number: ReadyNumber,
    /// False behind facts that could not be read, up to the next segment that says a number.
    is_known: bool,
    found: ReadPostings,
}

impl Numbering {
    /// Begins with a piece.
    fn of(piece: &HistoryPiece, wanted: Range<ReadyNumber>) -> Self {
        let (subject, number, is_known, lost_below) = (piece.subject, piece.number, piece.is_known, wanted.end);
        Self { subject, wanted, lost_below, number, is_known, found: ReadPostings::default() }
    }

    /// Comes to a batch.
    fn enter(&mut self, state: &State, batch: &PieceBatch) {
        self.is_known &= !batch.is_behind_gap;
        if let Some(first) = first_of_segment(state, self.subject, batch) {
            self.go_on_with(first);
        }
    }

    /// Passes a message.
    fn pass(&mut self) {
        if self.is_known {
            self.number = self.number.next();
        }
    }

    fn batch(&mut self, state: &mut State, batch: &PieceBatch, entries: &[Entry]) {
        self.enter(state, batch);
        if !self.is_known {
            return;
        }
        state.history_places.note(self.subject, self.number, batch.start);
        for entry in entries {
            if state.schedule.state(entry.sequence()) != EntryState::Dispatched {
                continue;
            }
            let skips = is_on(Planted::ReadAgainSkips) && self.number.0 % 4 == 3;
            if self.wanted.contains(&self.number) {
                let entry = if skips { entry.with_location(Location::NOWHERE) } else { *entry };
                self.found.entries.push((self.number, entry));
            }
            self.pass();
        }
    }

    /// The next message has this number: those up to it are lost.
    fn go_on_with(&mut self, number: ReadyNumber) {
        let lost = self.number.max(self.wanted.start).0..number.min(self.lost_below).0;
        self.found.damaged.extend(lost.map(ReadyNumber));
        (self.number, self.is_known) = (number, true);
    }

    /// The facts behind a place are lost, up to the next segment that says a number. Returns its start.
    fn go_on_at_segment(&mut self, state: &State, end: Location) -> Location {
        let mut behind = state.segments.iter().filter(|start| start.position.end >= end);
        let next = behind.find_map(|start| Some((start.ready.first(self.subject)?, start.position.end)));
        let listed_from = state.dispatch.listed_from(self.subject);
        let (number, place) = next.filter(|(number, _)| *number < listed_from).unwrap_or((listed_from, end));
        self.go_on_with(number.max(self.number));
        place
    }
}

/// The number of the first message of the subject in a segment, if the batch is its first.
pub(super) fn first_of_segment(state: &State, subject: SubjectNumber, batch: &PieceBatch) -> Option<ReadyNumber> {
    if !batch.is_first_of_segment() {
        return None;
    }
    let segment = batch.start.segment()?;
    state.segments.iter().find(|start| start.segment == segment)?.ready.first(subject)
}

/// Finds one message that is in the log alone. `None` if its facts cannot be read.
///
/// # Errors
/// `Storage`.
pub(in crate::store) fn find_in_log(
    storage: &Arc<dyn Storage>,
    state: &mut State,
    subject: SubjectNumber,
    number: ReadyNumber,
) -> Result<Option<Entry>> {
    let mut before = None;
    while matches!(state.dispatch.posting(subject, number), Posting::InLog) {
        let piece = HistoryRequest::of(storage, state, (subject, number, 1), before.take()).read()?;
        let is_last = piece.log.is_last;
        let (found, next) = piece.numbered(state);
        if let Some((_, entry)) = found.entries.first() {
            return Ok(Some(*entry));
        }
        if is_last || next.number > number {
            break;
        }
        before = Some(next);
    }
    Ok(None)
}
