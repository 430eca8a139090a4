//! Searches the log for the messages that groups start with: the first one since a time, or a certain one.
//!
//! Each segment says the time before it and the number of its first message of each subject, so the search reads one
//! segment in most cases, once for all subjects. It returns the number of the message of each subject, or a lower one
//! if facts before it cannot be read.

use std::collections::BTreeMap;
use std::mem::take;

use super::numbering::first_of_segment;
use super::reading::{LogPiece, PieceBatch};
use super::start_from_end::SegmentEnd;
use crate::error::{Error, Result};
use crate::record::name::GroupStart;
use crate::schedule_log::{Entry, EntryState};
use crate::store::owner::Owner;
use crate::store::recovery::rescue::KeptFacts;
use crate::store::state::{SegmentStart, State};
use crate::units::{DueKey, Location, Millis, ReadyNumber, Sequence, SubjectNumber};

/// A piece ends behind so many messages.
const PIECE_MESSAGES: u64 = 1 << 12;

/// The message that is wanted of each subject.
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

/// The starts of groups, by their subjects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupStarts(BTreeMap<SubjectNumber, GroupStart>);

impl GroupStarts {
    /// The start of the group of a subject. One that was not asked for begins with what is not finished.
    pub fn of(&self, subject: SubjectNumber) -> GroupStart {
        self.0.get(&subject).copied().unwrap_or(GroupStart::Unfinished)
    }
}

impl FromIterator<(SubjectNumber, GroupStart)> for GroupStarts {
    fn from_iter<T: IntoIterator<Item = (SubjectNumber, GroupStart)>>(starts: T) -> Self {
        Self(starts.into_iter().collect())
    }
}

/// The starts of groups, or what must be read to find them.
#[derive(Debug)]
pub enum StartPlan {
    /// The starts.
    Found(GroupStarts),
    /// A piece of the log that must be read first.
    Read(Box<StartSearch>),
}

/// A subject whose message is not found yet.
#[derive(Clone, Copy, Debug, Default)]
struct Sought {
    /// Nothing of it comes before this place.
    from: Location,
    /// The number of its next message there, or a lower one if that is not known.
    number: ReadyNumber,
    is_known: bool,
    /// The number of the next message that becomes ready behind the log that is read now.
    next_number: ReadyNumber,
}

/// The subjects whose messages are sought, and the numbers that were found.
#[derive(Debug)]
struct Seeking {
    wanted: Wanted,
    left: BTreeMap<SubjectNumber, Sought>,
    /// Numbers that were found in the log. They are compared with what is kept at the end: a search may take long.
    found: BTreeMap<SubjectNumber, ReadyNumber>,
    /// The messages up to there are counted, from the place of the time on.
    counted: Option<SegmentEnd>,
}

/// A search that has a piece of the log to read.
#[derive(Debug)]
pub struct StartSearch {
    seeking: Seeking,
    kept: KeptFacts,
    /// Where the piece begins.
    from: Location,
    /// The end of the segment, if the messages may be counted from there.
    end: Option<SegmentEnd>,
}

/// A search that has read a piece of the log.
#[derive(Debug)]
pub struct StartPiece {
    seeking: Seeking,
    piece: LogPiece,
}

impl StartSearch {
    /// Reads the piece. This is slow, so hold no lock.
    ///
    /// # Errors
    /// `Storage`. The search may be begun again.
    pub fn read(self) -> Result<StartPiece> {
        let Self { mut seeking, mut kept, mut from, end } = self;
        if let (Wanted::Ready(since), Some(end)) = (seeking.wanted, end)
            && let Some(place) = end.nearer_place(&kept.log, from, since)?
        {
            (from, seeking.counted) = (place, Some(end));
        }
        if let Some(end) = &seeking.counted {
            kept.log.end = end.place;
        }
        let is_left = |subject| seeking.left.contains_key(&subject);
        let piece = LogPiece::read((&kept, from), PIECE_MESSAGES, is_left, |_| (), &mut Vec::new())?;
        Ok(StartPiece { seeking, piece })
    }
}

impl Seeking {
    /// Goes through the piece. Returns the subjects whose message was found, with its number.
    fn pass(&mut self, piece: &LogPiece, state: &State) -> Vec<(SubjectNumber, ReadyNumber)> {
        let mut reached = Vec::new();
        for (batch, entries) in piece.batches() {
            self.enter(state, batch);
            if self.wanted.is_reached(batch) {
                let all = take(&mut self.left).into_iter();
                reached.extend(all.map(|(subject, sought)| (subject, sought.number)));
                break;
            }
            for entry in entries {
                if state.schedule.state(entry.sequence()) != EntryState::Dispatched {
                    continue;
                }
                let Some(sought) = self.left.get_mut(&entry.subject()) else { continue };
                if batch.start < sought.from {
                    continue;
                }
                if self.wanted.is(entry) {
                    reached.push((entry.subject(), sought.number));
                    self.left.remove(&entry.subject());
                } else if sought.is_known {
                    sought.number = sought.number.next();
                }
            }
        }
        for sought in self.left.values_mut().filter(|sought| sought.from < piece.end) {
            sought.from = piece.end;
            sought.is_known &= !piece.ends_in_gap;
        }
        reached
    }

    /// Comes to a batch.
    fn enter(&mut self, state: &State, batch: &PieceBatch) {
        if !batch.is_behind_gap && !batch.is_first_of_segment() {
            return;
        }
        for (subject, sought) in self.left.iter_mut().filter(|(_, sought)| sought.from <= batch.start) {
            // Damage before the place where a subject begins concerns only the others.
            sought.is_known &= !batch.is_behind_gap || sought.from == batch.start;
            if let Some(first) = first_of_segment(state, *subject, batch) {
                (sought.number, sought.is_known) = (first, true);
            }
        }
    }
}

impl Owner {
    /// Looks for the starts of groups in a piece of the log.
    ///
    /// # Errors
    /// `InvalidArgument` naming `start` if the message of a receipt is not in the log any more.
    pub fn go_on_with_start(&self, found: StartPiece) -> Result<StartPlan> {
        let StartPiece { mut seeking, piece } = found;
        if let Some(end) = seeking.counted.take() {
            return self.count_on(seeking, end, &piece);
        }
        for (subject, number) in seeking.pass(&piece, &self.state) {
            if matches!(seeking.wanted, Wanted::Message(_)) {
                let is_gone = self.state.subjects.get(subject).is_some_and(|known| known.gone.contains(number.0));
                if is_gone || self.bounded([(subject, number)]).of(subject) != GroupStart::Number(number) {
                    return Err(no_start("one that is not kept"));
                }
            }
            seeking.found.insert(subject, number);
        }
        for (subject, sought) in take(&mut seeking.left) {
            if piece.is_last {
                // Where facts before the end cannot be read, the start is too early rather than too late.
                let next = if sought.is_known { sought.next_number } else { sought.number };
                seeking.found.insert(subject, number_behind(seeking.wanted, next)?);
            } else {
                self.search_on(&mut seeking, subject, sought)?;
            }
        }
        Ok(self.planned(seeking, None))
    }

    /// The end of a segment, if all messages of the subjects in it can be counted from there.
    fn segment_end(&self, seeking: &Seeking, segment: usize) -> Option<SegmentEnd> {
        let segments = &self.state.segments;
        let (begin, behind) = (segments.get(segment)?.position.end, segment.saturating_add(1));
        if !matches!(seeking.wanted, Wanted::Ready(_)) || seeking.left.values().any(|sought| sought.from != begin) {
            return None;
        }
        let place = segments.get(behind).map_or(self.state.position.end, |next| next.position.end);
        let number = |subject: &SubjectNumber| Some((*subject, self.number_at(*subject, behind)?));
        let numbers = seeking.left.keys().map(number).collect::<Option<_>>()?;
        Some(SegmentEnd { place, numbers })
    }

    /// Counts the messages of a piece that is nearer to the end of the segment.
    fn count_on(&self, mut seeking: Seeking, mut end: SegmentEnd, piece: &LogPiece) -> Result<StartPlan> {
        if !end.count(piece, &self.state) {
            let subjects: Vec<_> = seeking.left.keys().chain(seeking.found.keys()).copied().collect();
            return Ok(self.planned(self.begun(&subjects, seeking.wanted)?.0, None));
        }
        if piece.is_last {
            seeking.left.clear();
            seeking.found.extend(end.numbers);
        } else {
            seeking.left.values_mut().for_each(|sought| sought.from = piece.end);
            seeking.counted = Some(end);
        }
        Ok(self.planned(seeking, None))
    }

    /// Begins a search in the last segment that begins before the wanted messages became ready.
    pub(super) fn search(&self, subjects: &[SubjectNumber], wanted: Wanted) -> Result<StartPlan> {
        let (seeking, first) = self.begun(subjects, wanted)?;
        let end = self.segment_end(&seeking, first);
        Ok(self.planned(seeking, end))
    }

    /// The search as it begins, and the segment of the time.
    fn begun(&self, subjects: &[SubjectNumber], wanted: Wanted) -> Result<(Seeking, usize)> {
        let segments = &self.state.segments;
        let mut behind = segments.partition_point(|start| start.position.trusted < wanted.not_before());
        if let Wanted::Message(key) = wanted {
            behind = behind.max(segments.partition_point(|start| start.position.next_sequence <= key.sequence));
        }
        let first = behind.saturating_sub(1);
        let is_future = self.state.position.trusted < wanted.not_before();
        let segment = segments.get(first).filter(|_| !is_future);
        let wanted = match (wanted, segment) {
            // Messages whose facts are not in the log any more may have been published since then.
            (Wanted::Published { since, .. }, Some(segment)) if behind > 0 => {
                Wanted::Published { since, from: segment.position.next_sequence }
            }
            (other, _) => other,
        };
        let mut seeking = Seeking { wanted, left: BTreeMap::new(), found: BTreeMap::new(), counted: None };
        for subject in subjects.iter().copied() {
            let Some(segment) = segment else {
                let next = self.state.dispatch.next_number(subject);
                seeking.found.insert(subject, number_behind(wanted, next)?);
                continue;
            };
            let place = (self.number_at(subject, first), segment.position.end);
            let (number, from) = if place.0.is_some() { place } else { self.before(subject, first).unwrap_or(place) };
            let (number, is_known) = (number.unwrap_or_default(), number.is_some());
            self.search_on(&mut seeking, subject, Sought { from, number, is_known, ..Sought::default() })?;
        }
        Ok((seeking, first))
    }

    /// The number of the subject's first message in the last segment before this one that says it, and the place.
    fn before(&self, subject: SubjectNumber, segment: usize) -> Option<(Option<ReadyNumber>, Location)> {
        let mut earlier = self.state.segments.get(..segment).unwrap_or_default().iter().rev();
        earlier.find_map(|start| Some((Some(start.ready.first(subject)?), start.position.end)))
    }

    /// Goes on with a subject. Segments that made no message of it ready are not read for it, unless the time of the
    /// search is in them.
    fn search_on(&self, seeking: &mut Seeking, subject: SubjectNumber, sought: Sought) -> Result<()> {
        let (segments, wanted) = (&self.state.segments, seeking.wanted);
        let here = segments.partition_point(|start| start.position.end <= sought.from).saturating_sub(1);
        let may_have = |start: &SegmentStart| start.ready.first(subject).is_some() || !start.ready.is_known();
        let is_read = |place: usize, start: &SegmentStart| {
            let next_begins = segments.get(place.saturating_add(1)).map(|next| next.position.trusted);
            let has_time = matches!(wanted, Wanted::Published { since, .. } if next_begins.is_none_or(|next| next >= since)
                && start.position.trusted < since);
            may_have(start) || has_time
        };
        let mut left = segments.iter().enumerate().skip(here);
        let number = match left.find(|(place, start)| is_read(*place, start)) {
            Some((place, _)) if place == here => {
                seeking.left.insert(subject, sought);
                return Ok(());
            }
            Some(_) if sought.is_known && matches!(wanted, Wanted::Ready(_)) => sought.number,
            Some((_, start)) => {
                seeking.left.insert(subject, Sought { from: start.position.end, ..sought });
                return Ok(());
            }
            None => number_behind(wanted, self.state.dispatch.next_number(subject))?,
        };
        seeking.found.insert(subject, number);
        Ok(())
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

    /// The plan of what is left: the next piece begins where the first of these subjects goes on.
    fn planned(&self, mut seeking: Seeking, end: Option<SegmentEnd>) -> StartPlan {
        let Some(from) = seeking.left.values().map(|sought| sought.from).min() else {
            return StartPlan::Found(self.bounded(seeking.found));
        };
        for (subject, sought) in &mut seeking.left {
            sought.next_number = self.state.dispatch.next_number(*subject);
        }
        let kept = KeptFacts::of(&self.effects.storage, &self.state);
        StartPlan::Read(Box::new(StartSearch { seeking, kept, from, end }))
    }
}

/// The wanted message is not in the log: the group starts with the next one, of this number.
fn number_behind(wanted: Wanted, next: ReadyNumber) -> Result<ReadyNumber> {
    match wanted {
        Wanted::Message(_) => Err(no_start("one that is not kept")),
        _ => Ok(next),
    }
}

/// The error for a receipt at whose message no group can start.
pub(super) fn no_start(found: &str) -> Error {
    let expected = "the receipt of a message of the subject that is pending, or was dispatched and is kept";
    Error::InvalidArgument { argument: "start", expected: expected.to_owned(), found: found.to_owned() }
}
