//! Lists pending messages in the order of due time and sequence, a piece at a time.
//!
//! A scan is a place in that order and a choice of subjects. Each piece covers the keys from that place up to
//! another one, as of one moment. Pieces do not overlap, so an entry that stays pending is shown exactly once, in
//! the piece that covers its key, even if entries come, go or move into a run meanwhile. The owner is held for
//! a bounded time; runs are read without it.

use super::pending_cursor::PendingCursor;
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::run::{ScanBuffer, ScheduleRow};
use crate::schedule_log::{DUE_MAX, Entry, HiddenBlock, PendingView, ViewedPiece};
use crate::store::names::subject_names::is_of_users;
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{DueKey, Millis, Sequence, SubjectNumber, Utc};

/// Entries in memory that one look copies, at most.
const LOOK_ENTRIES: usize = 4_096;
/// Entries that one piece shows, at most.
const PIECE_ENTRIES: usize = 32_768;
/// Subjects that one look goes through, at most.
const LOOK_SUBJECTS: usize = 4_096;

/// Which subjects are listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PendingOf {
    /// All subjects that users publish to; no retry and no dead-letter subjects.
    #[default]
    Users,
    /// This subject, also a retry or dead-letter subject.
    Subject(String),
    /// All subjects whose names begin so, also retry and dead-letter subjects.
    Prefix(String),
}

impl PendingOf {
    /// Refuses a subject name that cannot exist.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` if it is empty.
    pub fn check(&self) -> Result<()> {
        if matches!(self, Self::Subject(name) if name.is_empty()) {
            let expected = "the name of a subject".to_owned();
            return Err(Error::InvalidArgument { argument: "subject", expected, found: "an empty text".to_owned() });
        }
        Ok(())
    }

    fn takes(&self, name: &str) -> bool {
        match self {
            Self::Users => is_of_users(name),
            Self::Subject(subject) => name == subject,
            Self::Prefix(prefix) => name.starts_with(prefix.as_str()),
        }
    }
}

/// The choice of messages that are listed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PendingQuery {
    /// The subjects. An unknown subject has nothing pending.
    pub of: PendingOf,
    /// Only messages due at this time or later.
    pub due_from: Option<Millis>,
    /// Only messages due before this time.
    pub due_before: Option<Millis>,
    /// Only messages after those that an earlier list has shown.
    pub after: Option<PendingCursor>,
}

/// The subjects that are listed, by number.
#[derive(Clone, Debug, Default)]
struct Chosen {
    words: Vec<u64>,
    /// Subjects from this number on were not looked at yet.
    next: SubjectNumber,
    /// Subjects from this number on are new: their messages arrived after the scan began.
    end: SubjectNumber,
}

impl Chosen {
    fn add(&mut self, number: SubjectNumber) {
        let word = number.0 as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word.saturating_add(1), 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (number.0 % 64);
        }
    }

    fn has(&self, number: SubjectNumber) -> bool {
        self.words.get(number.0 as usize / 64).is_some_and(|word| word >> (number.0 % 64) & 1 == 1)
    }
}

/// A scan of pending messages. The module describes it.
#[derive(Debug)]
pub struct PendingScan {
    stream: [u8; 16],
    of: PendingOf,
    chosen: Chosen,
    /// All messages up to this key were shown.
    from: DueKey,
    to: DueKey,
    /// How far ahead the next piece looks, so that it finds about as many entries as it may show.
    span_ms: u64,
    is_done: bool,
    buffer: ScanBuffer<ScheduleRow>,
}

/// The result of [`Owner::look_at_pending`].
#[derive(Debug)]
pub enum PendingLook {
    /// Look again: the subjects are not all known yet.
    Again,
    /// Read this without the owner: [`PendingScan::read`].
    View(PendingView),
    /// Everything was shown.
    End,
}

/// A piece of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PendingPiece {
    /// The entries, in the order of due time and sequence.
    pub entries: Vec<Entry>,
    /// Blocks of runs whose entries are not shown because they cannot be read. A block that spans two pieces is in
    /// both.
    pub hidden: Vec<HiddenBlock>,
}

impl PendingScan {
    /// A scan of this stream from its beginning, or from the query's cursor on.
    ///
    /// # Errors
    /// `InvalidArgument` naming `due_before` if it is before `due_from`, `after` if the cursor belongs to another
    /// store, `subject` if it is empty.
    pub fn new(stream: [u8; 16], query: &PendingQuery) -> Result<Self> {
        if let (Some(from), Some(before)) = (query.due_from, query.due_before)
            && from > before
        {
            return Err(Error::InvalidArgument {
                argument: "due_before",
                expected: format!("a time not before {}", Utc(from)),
                found: Utc(before).to_string(),
            });
        }
        query.of.check()?;
        if let Some(cursor) = &query.after {
            cursor.check_stream(&stream)?;
        }
        let (first, to) = keys_between(query.due_from, query.due_before);
        let from = query.after.map_or(first, |cursor| cursor.key.max(first));
        Ok(Self {
            stream,
            of: query.of.clone(),
            chosen: Chosen::default(),
            from,
            to,
            span_ms: u64::MAX,
            is_done: from >= to,
            buffer: ScanBuffer::default(),
        })
    }

    /// Ends the scan at this key: another scan shows the keys behind it.
    #[must_use]
    pub fn up_to(mut self, last: DueKey) -> Self {
        self.to = self.to.min(last);
        self.is_done = self.from >= self.to;
        self
    }

    /// Returns the place of the scan, from which a later scan can continue.
    pub fn cursor(&self) -> PendingCursor {
        PendingCursor { stream: self.stream, key: self.from }
    }

    /// True if everything was shown.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Reads at most `limit` entries of a view, and moves behind them. An empty piece does not mean the end: later
    /// pieces may have entries.
    ///
    /// # Errors
    /// `Storage` if a run could not be read now. The scan then stays where it was.
    pub fn read(&mut self, view: PendingView, limit: usize) -> Result<PendingPiece> {
        let limit = limit.clamp(1, PIECE_ENTRIES);
        let chosen = &self.chosen;
        let piece = view.read(&|subject| chosen.has(subject), limit, &mut self.buffer)?;
        self.goes_on(&piece, limit);
        Ok(PendingPiece { entries: piece.entries, hidden: piece.hidden })
    }

    fn goes_on(&mut self, piece: &ViewedPiece, limit: usize) {
        let covered_ms = piece.to.due.0.saturating_sub(self.from.due.0);
        self.span_ms = if piece.cut {
            covered_ms.saturating_add(1)
        } else if piece.entries.len() < limit / 2 {
            self.span_ms.saturating_mul(2)
        } else {
            self.span_ms
        };
        let to = if is_on(Planted::ListGoesOnByTime) { DueKey::end_of(piece.to.due) } else { piece.to };
        self.from = to;
        self.is_done = self.from >= self.to;
    }

    /// Checks the next subjects; true once all were checked.
    fn choose(&mut self, state: &State) -> bool {
        let subjects = &state.subjects;
        if self.chosen.end == SubjectNumber(0) {
            self.chosen.end = subjects.next_number();
            if let PendingOf::Subject(name) = &self.of {
                subjects.number(name).into_iter().for_each(|number| self.chosen.add(number));
                self.chosen.next = self.chosen.end;
            }
        }
        let end = self.chosen.end.0.min(self.chosen.next.0.saturating_add(LOOK_SUBJECTS as u32));
        for number in (self.chosen.next.0..end).map(SubjectNumber) {
            if subjects.get(number).is_some_and(|subject| self.of.takes(&subject.name)) {
                self.chosen.add(number);
            }
        }
        self.chosen.next = SubjectNumber(end);
        end == self.chosen.end.0
    }
}

/// Returns the keys of messages due between two times: above the first key, up to and including the second. If the
/// first is not below the second, there are none.
pub fn keys_between(due_from: Option<Millis>, due_before: Option<Millis>) -> (DueKey, DueKey) {
    let first = due_from.and_then(last_before).unwrap_or(DueKey::START);
    let last = due_before.map_or(Some(DueKey::end_of(DUE_MAX)), last_before);
    (first, last.unwrap_or(DueKey::START).min(DueKey::end_of(DUE_MAX)))
}

/// The last key before this time; `None` before the first.
fn last_before(due: Millis) -> Option<DueKey> {
    due.0.checked_sub(1).map(|due| DueKey { due: Millis(due), sequence: Sequence(u64::MAX) })
}

impl Owner {
    /// Returns what a scan reads next. It goes through a few thousand entries in memory at most, and the pages of the
    /// windows.
    pub fn look_at_pending(&mut self, scan: &mut PendingScan) -> PendingLook {
        if scan.is_done {
            return PendingLook::End;
        }
        if !scan.choose(&self.state) {
            return PendingLook::Again;
        }
        let near = DueKey::end_of(scan.from.due.plus(scan.span_ms).min(DUE_MAX));
        PendingLook::View(self.state.schedule.view(scan.from, scan.to.min(near), LOOK_ENTRIES))
    }
}

impl Owner {
    /// Returns the entry of this key in any state, if its row is still kept and can be read.
    ///
    /// # Errors
    /// `Storage`.
    pub fn entry_at(&mut self, key: DueKey) -> Result<Option<Entry>> {
        match self.state.schedule.row(key) {
            Ok(entry) => Ok(entry),
            Err(damage) if matches!(damage.error, Error::Storage { .. }) => Err(damage.error),
            Err(_) => Ok(None),
        }
    }
}

impl State {
    /// Returns the number of pending messages of each chosen subject, by name, including subjects with 0. It reads the
    /// counts of the subjects, and no entries.
    pub fn list_pending_counts(&self, of: &PendingOf) -> Vec<(String, u64)> {
        let listed = |(number, name): (SubjectNumber, &str)| (name.to_owned(), self.pending_of(number));
        if let PendingOf::Subject(name) = of {
            return self.subjects.number(name).map(|number| listed((number, name))).into_iter().collect();
        }
        let all = self.subjects.iter().map(|(number, subject)| (number, subject.name.as_str()));
        let mut counts: Vec<(String, u64)> = all.filter(|(_, name)| of.takes(name)).map(listed).collect();
        counts.sort_unstable();
        counts
    }
}
