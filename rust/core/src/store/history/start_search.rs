//! Searches the log for the message that a group starts with: the first one since a time, or a certain one.
//!
//! Each segment says the time before it and the number of its first message of the subject, so the search reads one
//! segment in most cases. It returns the number of the message, or a lower one if facts before it cannot be read.

use super::numbering::{Numbering, from_place};
use super::reading::{HistoryPiece, HistoryRequest, PieceBatch};
use crate::error::{Error, Result};
use crate::record::name::GroupStart;
use crate::schedule_log::{Entry, EntryState};
use crate::store::owner::Owner;
use crate::store::state::{SegmentStart, State};
use crate::units::{DueKey, Location, Millis, ReadyNumber, Sequence, SubjectNumber};

/// A piece ends behind so many messages.
const PIECE_MESSAGES: u64 = 1 << 12;

/// The message that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// The first one that became ready at this time or later.
    Ready(Millis),
    /// The first one to become ready among those that were published at this time or later: all with lower sequences
    /// than `from` were published before.
    Published { since: Millis, from: Sequence },
    /// The one with this key.
    Message(DueKey),
}

impl Wanted {
    /// True if the wanted message is the next one, because a batch of this time comes.
    fn is_reached(&mut self, batch: &PieceBatch) -> bool {
        match self {
            Self::Ready(since) => batch.trusted >= *since,
            Self::Published { since, from } => {
                if batch.trusted < *since {
                    *from = batch.end_sequence.max(*from);
                }
                false
            }
            Self::Message(_) => false,
        }
    }

    fn is(&self, entry: &Entry) -> bool {
        match self {
            Self::Ready(_) => false,
            Self::Published { from, .. } => entry.sequence() >= *from,
            Self::Message(key) => entry.sequence() == key.sequence,
        }
    }

    /// The message became ready at this time or later.
    fn not_before(&self) -> Millis {
        match self {
            Self::Ready(since) | Self::Published { since, .. } => *since,
            Self::Message(key) => key.due,
        }
    }
}

/// The start of a group, or what must be read to find it.
#[derive(Debug)]
pub enum StartPlan {
    /// The start.
    Found(GroupStart),
    /// A piece of the log that must be read first.
    Read(Box<StartSearch>),
}

/// A search that has a piece of the log to read.
#[derive(Debug)]
pub struct StartSearch {
    request: HistoryRequest,
    wanted: Wanted,
    /// The number of the next message that becomes ready behind the log that the search reads.
    next_number: ReadyNumber,
}

/// A search that has read a piece of the log.
#[derive(Debug)]
pub struct StartPiece {
    piece: HistoryPiece,
    wanted: Wanted,
    next_number: ReadyNumber,
}

impl StartSearch {
    /// Reads the piece. This is slow, so hold no lock.
    ///
    /// # Errors
    /// `Storage`. The search may be begun again.
    pub fn read(self) -> Result<StartPiece> {
        let Self { request, wanted, next_number } = self;
        Ok(StartPiece { piece: request.scanned()?.0, wanted, next_number })
    }
}

impl Owner {
    /// Looks for the start of a group in a piece of the log.
    ///
    /// # Errors
    /// `InvalidArgument` naming `start` if the message of a receipt is not in the log any more.
    pub fn go_on_with_start(&self, found: StartPiece) -> Result<StartPlan> {
        let StartPiece { piece, mut wanted, next_number } = found;
        let (subject, is_last) = (piece.subject, piece.is_last);
        let number = match piece.search(&self.state, &mut wanted) {
            Found::Number(number) => number,
            Found::GoesOn(number, from) if !is_last => return self.search_on(subject, wanted, (number, from)),
            Found::GoesOn(Some(_), _) => return self.search_ends(subject, wanted, next_number),
            // Facts before the end cannot be read.
            Found::GoesOn(None, _) => return self.search_ends(subject, wanted, ReadyNumber(0)),
        };
        let start = self.bounded(subject, number);
        let is_gone = self.state.subjects.get(subject).is_some_and(|known| known.gone.contains(number.0));
        let is_kept = !is_gone && start == GroupStart::Number(number);
        match wanted {
            Wanted::Message(_) if !is_kept => Err(no_start("one that is not kept")),
            _ => Ok(StartPlan::Found(start)),
        }
    }

    /// Begins a search in the last segment that begins before the wanted message became ready.
    pub(super) fn search(&self, subject: SubjectNumber, wanted: Wanted) -> Result<StartPlan> {
        let segments = &self.state.segments;
        let mut behind = segments.partition_point(|start| start.position.trusted < wanted.not_before());
        if let Wanted::Message(key) = wanted {
            behind = behind.max(segments.partition_point(|start| start.position.next_sequence <= key.sequence));
        }
        let first = behind.saturating_sub(1);
        let is_future = self.state.position.trusted < wanted.not_before();
        let Some(segment) = segments.get(first).filter(|_| !is_future) else {
            return self.search_ends(subject, wanted, self.state.dispatch.next_number(subject));
        };
        let wanted = match wanted {
            // Messages whose facts are not in the log any more may have been published since then.
            Wanted::Published { since, .. } if behind > 0 => {
                Wanted::Published { since, from: segment.position.next_sequence }
            }
            other => other,
        };
        let number = self.number_at(subject, first);
        if number.is_some() {
            return self.search_on(subject, wanted, (number, segment.position.end));
        }
        let mut earlier = segments.get(..first).unwrap_or_default().iter().rev();
        let known = earlier.find_map(|start| Some((Some(start.ready.first(subject)?), start.position.end)));
        Ok(self.read_from(subject, wanted, known.unwrap_or((None, segment.position.end))))
    }

    /// Goes on at a place, where the subject's next message has this number. Segments that made no message of the
    /// subject ready are not read, unless the time of the search is in them.
    fn search_on(
        &self,
        subject: SubjectNumber,
        wanted: Wanted,
        (number, from): (Option<ReadyNumber>, Location),
    ) -> Result<StartPlan> {
        let segments = &self.state.segments;
        let here = segments.partition_point(|start| start.position.end <= from).saturating_sub(1);
        let may_have = |start: &SegmentStart| start.ready.first(subject).is_some() || !start.ready.is_known();
        let is_read = |place: usize, start: &SegmentStart| {
            let next_begins = segments.get(place.saturating_add(1)).map(|next| next.position.trusted);
            let has_time = matches!(wanted, Wanted::Published { since, .. } if next_begins.is_none_or(|next| next >= since)
                && start.position.trusted < since);
            may_have(start) || has_time
        };
        let mut left = segments.iter().enumerate().skip(here);
        match left.find(|(place, start)| is_read(*place, start)) {
            Some((place, _)) if place == here => Ok(self.read_from(subject, wanted, (number, from))),
            Some((_, start)) => match (number, wanted) {
                (Some(number), Wanted::Ready(_)) => Ok(StartPlan::Found(self.bounded(subject, number))),
                _ => Ok(self.read_from(subject, wanted, (number, start.position.end))),
            },
            None => self.search_ends(subject, wanted, self.state.dispatch.next_number(subject)),
        }
    }

    /// The wanted message is not in the log: the group starts with the next one, of this number.
    fn search_ends(&self, subject: SubjectNumber, wanted: Wanted, next: ReadyNumber) -> Result<StartPlan> {
        match wanted {
            Wanted::Message(_) => Err(no_start("one that is not kept")),
            _ => Ok(StartPlan::Found(self.bounded(subject, next))),
        }
    }

    /// The number of the subject's next message at the start of a segment: that of the next segment which made one ready.
    /// `None` if a segment before that one does not say whether it did.
    fn number_at(&self, subject: SubjectNumber, segment: usize) -> Option<ReadyNumber> {
        for start in self.state.segments.get(segment..).unwrap_or_default() {
            match start.ready.first(subject) {
                Some(number) => return Some(number),
                None if !start.ready.is_known() => return None,
                None => {}
            }
        }
        Some(self.state.dispatch.next_number(subject))
    }

    fn read_from(&self, subject: SubjectNumber, wanted: Wanted, place: (Option<ReadyNumber>, Location)) -> StartPlan {
        let next_number = self.state.dispatch.next_number(subject);
        let request = from_place(&self.effects.storage, &self.state, (subject, PIECE_MESSAGES), place);
        StartPlan::Read(Box::new(StartSearch { request, wanted, next_number }))
    }
}

/// The result of looking at a piece.
enum Found {
    /// The number of the wanted message.
    Number(ReadyNumber),
    /// The message is not in the piece: the number of the next message if it is known, and where the next piece begins.
    GoesOn(Option<ReadyNumber>, Location),
}

impl HistoryPiece {
    fn search(self, state: &State, wanted: &mut Wanted) -> Found {
        let mut numbering = Numbering::of(&self, ReadyNumber(u64::MAX)..ReadyNumber(u64::MAX));
        for (batch, entries) in self.batches() {
            numbering.enter(state, batch);
            if wanted.is_reached(batch) {
                return Found::Number(numbering.number);
            }
            let dispatched = |entry: &&Entry| state.schedule.state(entry.sequence()) == EntryState::Dispatched;
            for entry in entries.iter().filter(dispatched) {
                if wanted.is(entry) {
                    return Found::Number(numbering.number);
                }
                numbering.pass();
            }
        }
        let is_known = numbering.is_known && !self.ends_in_gap;
        Found::GoesOn(is_known.then_some(numbering.number), self.end)
    }
}

/// The error for a receipt at whose message no group can start.
pub(super) fn no_start(found: &str) -> Error {
    let expected = "the receipt of a message of the subject that is pending, or was dispatched and is kept";
    Error::InvalidArgument { argument: "start", expected: expected.to_owned(), found: found.to_owned() }
}
