//! The numbers of ready messages. They are dense in each subject, so they are counted back from the end of the log.
//! Before a gap in the log they are unknown.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Find, LogPiece, PieceReader, Stream, segment_path};
use delaymq_core::record::adopt::sequences_of;
use delaymq_core::storage::Storage;
use delaymq_core::store::State;
use delaymq_core::units::{Sequence, SubjectNumber};

use crate::read::log_walk::{Walked, each_record, fact_of};
use crate::read::ready_facts::{FirstJudge, Refused, each_named};

/// How many messages became ready in each piece of a log.
pub(crate) struct Counts {
    pieces: Vec<HashMap<SubjectNumber, u64>>,
    /// The piece with the last damage, and how many finds of it go to the damage, which is the last of them.
    known_from: (usize, u64),
    next: BTreeMap<SubjectNumber, u64>,
    pub(crate) refused: Refused,
    /// How often facts name sequences of before the log, by the first of so many.
    pub(crate) older: BTreeMap<Sequence, u64>,
}

/// So many sequences of before the log are counted together.
pub(crate) const OLDER_STEP: u64 = 1 << 16;

/// From where on numbers are known in some pieces that follow each other, and what they are there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbering {
    /// The place of a piece among them, and so many finds of it are passed; `None` if none is known.
    pub(crate) from: Option<(u64, u64)>,
    pub(crate) next: BTreeMap<SubjectNumber, u64>,
}

impl Numbering {
    /// Whether all numbers are known.
    pub(crate) fn is_whole(&self) -> bool {
        self.from == Some((0, 0))
    }

    /// The number that comes first of those of a subject, where it is known from the first piece on.
    pub(crate) fn first_of(&self, subject: SubjectNumber) -> Option<u64> {
        self.next.get(&subject).copied().filter(|_| self.is_whole())
    }
}

impl Counts {
    /// Reads the pieces, which are all of a log, by the state at its end.
    /// Fails with `Storage`, `NewerFormat`.
    pub(crate) fn counted(
        storage: &Arc<dyn Storage>,
        stream: Stream,
        pieces: &[LogPiece],
        state: &State,
        first: Sequence,
    ) -> Result<Self> {
        let next = state.subjects.iter().map(|(number, _)| (number, state.dispatch.next_number(number).0));
        let (next, mut judge) = (next.collect(), FirstJudge::new(state, first));
        let mut counts =
            Self { pieces: Vec::new(), known_from: (0, 0), next, refused: Refused::new(), older: BTreeMap::new() };
        let mut expected = first;
        for (place, piece) in pieces.iter().enumerate() {
            counts.pieces.push(HashMap::new());
            let (path, mut finds) = (segment_path(piece.segment), 0_u64);
            let mut reader = PieceReader::new(storage, stream, *piece);
            while reader.read_next(&mut |find| {
                let before = finds;
                finds = finds.saturating_add(1);
                let is_whole = counts.find(find, &path, &mut judge, (state, first), &mut |fact, end| {
                    // What was between is not there any more.
                    let is_gap = fact > expected;
                    expected = end;
                    is_gap.then_some((place, before))
                });
                if !is_whole {
                    counts.forget((place, finds));
                }
            })? {}
        }
        counts.refused = judge.refused;
        Ok(counts)
    }

    /// Numbers are not known before this place.
    fn forget(&mut self, known_from: (usize, u64)) {
        self.pieces.iter_mut().for_each(HashMap::clear);
        self.known_from = known_from;
    }

    /// Counts what one find made ready; false if something of it is lost. `gap` is told of each fact with the sequence
    /// behind it, and says where something is lost between it and the one before.
    fn find(
        &mut self,
        find: Find<'_>,
        path: &str,
        judge: &mut FirstJudge,
        (state, first): (&State, Sequence),
        gap: &mut dyn FnMut(Sequence, Sequence) -> Option<(usize, u64)>,
    ) -> bool {
        let mut is_whole = matches!(find, Find::Batch { .. });
        each_record(
            find,
            path,
            |_| true,
            |walked| {
                let Walked::Record(record, at) = walked else {
                    is_whole = false;
                    return;
                };
                if let Some(known_from) = gap(at.fact, at.fact.plus(sequences_of(&record))) {
                    self.forget(known_from);
                }
                let Ok(fact) = fact_of(&record, &at, path) else {
                    is_whole = false;
                    return;
                };
                each_named(&fact, &mut |named| {
                    if named < first {
                        note_older(&mut self.older, named);
                    }
                });
                judge.take(state, &fact, at, &mut |event| {
                    if let Some(counted) = self.pieces.last_mut() {
                        let count = counted.entry(event.subject).or_default();
                        *count = count.saturating_add(1);
                    }
                });
            },
        );
        is_whole
    }

    /// No more messages became ready in some of the pieces, which end with a sequence: where something is damaged,
    /// each message may have.
    pub(crate) fn rows_max(&self, pieces: std::ops::Range<usize>, end: Sequence) -> u64 {
        if pieces.start <= self.known_from.0 && self.known_from != (0, 0) {
            return end.0;
        }
        let counted = self.pieces.get(pieces).unwrap_or_default();
        counted.iter().flat_map(HashMap::values).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The numbering of the pieces from a place on up to another.
    pub(crate) fn numbering(&self, pieces: std::ops::Range<usize>) -> Numbering {
        let (piece, finds) = self.known_from;
        let from = if self.pieces.is_empty() {
            (0, 0)
        } else if piece < pieces.start {
            (pieces.start, 0)
        } else if piece < pieces.end {
            (piece, finds)
        } else {
            return Numbering::default();
        };
        let mut next = self.next.clone();
        for (subject, count) in self.pieces.iter().skip(from.0).flatten() {
            if let Some(number) = next.get_mut(subject) {
                *number = number.saturating_sub(*count);
            }
        }
        let place = from.0.saturating_sub(pieces.start) as u64;
        Numbering { from: Some((place, from.1)), next }
    }

    /// Those of the entries that did not become ready whose facts lie between two sequences.
    pub(crate) fn refused_in(&self, first: Sequence, end: Sequence) -> Refused {
        self.refused.range((first, Sequence(0))..(end, Sequence(0))).copied().collect()
    }
}

/// Counts a sequence of before the log.
pub(crate) fn note_older(older: &mut BTreeMap<Sequence, u64>, named: Sequence) {
    let count = older.entry(Sequence(named.0 / OLDER_STEP * OLDER_STEP)).or_default();
    *count = count.saturating_add(1);
}

/// Gives numbers while pieces are read.
pub(crate) struct Numbers {
    numbering: Numbering,
    /// The place of the piece that is read, and how many finds of it were.
    at: (u64, u64),
    /// Something is lost that was there when they were counted.
    is_lost: bool,
}

impl Numbers {
    pub(crate) fn new(numbering: &Numbering) -> Self {
        Self { numbering: numbering.clone(), at: (0, 0), is_lost: false }
    }

    /// The next piece is read.
    pub(crate) fn next_piece(&mut self) {
        self.at = (self.at.0.saturating_add(1), 0);
    }

    /// One find is behind the reader; it was whole, or not.
    pub(crate) fn pass(&mut self, is_whole: bool) {
        self.is_lost |= !is_whole && self.is_known();
        self.at.1 = self.at.1.saturating_add(1);
    }

    /// The number of the next message of a subject in the find that is being read.
    pub(crate) fn take(&mut self, subject: SubjectNumber) -> Option<u64> {
        if !self.is_known() {
            return None;
        }
        let next = self.numbering.next.entry(subject).or_default();
        Some(std::mem::replace(next, next.saturating_add(1)))
    }

    fn is_known(&self) -> bool {
        !self.is_lost && self.numbering.from.is_some_and(|from| self.at >= from)
    }
}
