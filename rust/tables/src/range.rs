//! A part of a table that one reader reads: which files, from where to where, and what of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, Stream, segment_path};
use delaymq_core::run::run_path;
use delaymq_core::units::{DueKey, Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber};

use crate::filter::{Filter, Names};
use crate::pending::{PendingPart, Replay};
use crate::stretches::DuePart;
use crate::token::{TokenReader, TokenWriter, malformed};

/// A table of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every message in the log.
    Message,
    /// What is scheduled and neither dispatched nor cancelled.
    Pending,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 2] = [Self::Message, Self::Pending];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Pending => "pending",
        }
    }

    /// The table of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}

/// See the module. It holds all that reading takes but for the folder, so that another process can do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// Of which table.
    pub table: Table,
    /// The history that the files are of.
    pub stream: Stream,
    /// Bytes that are read, or few more.
    pub bytes: u64,
    /// The first sequence in it.
    pub first_sequence: Sequence,
    /// The sequence behind the last one.
    pub end_sequence: Sequence,
    pub(crate) pieces: Vec<LogPiece>,
    pub(crate) pending: Option<PendingPart>,
    pub(crate) filter: Filter,
    pub(crate) names: Arc<Names>,
}

/// Rises with the layout of a token.
const TOKEN_VERSION: u64 = 2;
const MESSAGE: u64 = 0;
const PENDING: u64 = 1;

impl Range {
    /// No more rows than this come of it.
    pub fn rows_max(&self) -> u64 {
        let pending = self.pending.as_ref().map_or(0, |part| part.due.rows);
        self.pieces.iter().map(|piece| piece.end.since(piece.first)).fold(pending, u64::saturating_add)
    }

    /// Every file with the offsets between which it is read; where the end is not known, it is the seal's.
    pub fn files(&self) -> impl Iterator<Item = (String, u32, Option<u32>)> + '_ {
        let pieces = self.pieces.iter().map(|piece| (segment_path(piece.segment), piece.from, piece.to));
        let runs = self.pending.iter().flat_map(|part| &part.due.runs);
        pieces.chain(runs.map(|run| (run_path(*run), 0, None)))
    }

    /// Checks that it is of this store.
    ///
    /// # Errors
    /// `InvalidArgument` where it is of another one.
    pub fn check_stream(&self, stream: &Stream) -> Result<()> {
        if self.stream.id == stream.id { Ok(()) } else { Err(malformed("one of another store")) }
    }

    /// All of it as bytes.
    pub fn to_token(&self) -> Vec<u8> {
        let mut out = TokenWriter::default();
        out.number(TOKEN_VERSION);
        out.number(if self.pending.is_some() { PENDING } else { MESSAGE });
        out.bytes(&self.stream.id);
        out.number(u64::from(self.stream.timeline));
        for number in [self.bytes, self.first_sequence.0, self.end_sequence.0] {
            out.number(number);
        }
        let filter = &self.filter;
        out.number(u64::from(filter.only_named));
        let sequences = [filter.first_sequence, filter.end_sequence].map(|bound| bound.map(|sequence| sequence.0));
        let times = [filter.published_from, filter.published_before, filter.due_from, filter.due_before];
        for bound in sequences.into_iter().chain(times.map(|bound| bound.map(|time| time.0))) {
            out.optional(bound);
        }
        out.number(self.pieces.len() as u64);
        for piece in &self.pieces {
            out.number(u64::from(piece.segment.0));
            out.number(u64::from(piece.from));
            out.optional(piece.to.map(u64::from));
            let times = [piece.trusted_from.0, piece.trusted_to.0];
            for number in [piece.first.0, piece.end.0, u64::from(piece.chain)].into_iter().chain(times) {
                out.number(number);
            }
        }
        if let Some(part) = &self.pending {
            let (replay, due) = (part.replay, &part.due);
            out.optional(replay.checkpoint.map(u64::from));
            let keys = [due.after.due.0, due.after.sequence.0, due.to.due.0, due.to.sequence.0];
            for number in [replay.end.0].into_iter().chain(keys).chain([due.rows, due.bytes, due.runs.len() as u64]) {
                out.number(number);
            }
            due.runs.iter().for_each(|run| out.number(u64::from(run.0)));
        }
        out.number(self.names.len() as u64);
        for (number, name) in self.names.iter() {
            out.number(u64::from(number.0));
            out.bytes(name.as_bytes());
        }
        out.finish()
    }

    /// Reads what [`Self::to_token`] made.
    ///
    /// # Errors
    /// `InvalidArgument` where it is something else, or of another release.
    pub fn from_token(token: &[u8]) -> Result<Self> {
        let mut from = TokenReader::new(token)?;
        let table = match (from.number()?, from.number()?) {
            (TOKEN_VERSION, MESSAGE) => Table::Message,
            (TOKEN_VERSION, PENDING) => Table::Pending,
            _ => return Err(malformed("one of another release")),
        };
        let id = from.bytes()?.try_into().map_err(|_| malformed("a stream of another length"))?;
        let stream = Stream { id, timeline: from.narrow()? };
        let (bytes, first_sequence, end_sequence) = (from.number()?, from.number()?, from.number()?);
        let filter = Filter {
            only_named: from.number()? != 0,
            first_sequence: from.optional()?.map(Sequence),
            end_sequence: from.optional()?.map(Sequence),
            published_from: from.optional()?.map(Millis),
            published_before: from.optional()?.map(Millis),
            due_from: from.optional()?.map(Millis),
            due_before: from.optional()?.map(Millis),
        };
        let mut pieces = Vec::new();
        for _ in 0..from.number()? {
            pieces.push(piece(&mut from)?);
        }
        let pending = if table == Table::Pending { Some(pending_part(&mut from)?) } else { None };
        let mut names = BTreeMap::new();
        for _ in 0..from.number()? {
            names.insert(SubjectNumber(from.narrow()?), from.text()?);
        }
        from.finish()?;
        let (first_sequence, end_sequence) = (Sequence(first_sequence), Sequence(end_sequence));
        let names = Arc::new(names);
        Ok(Self { table, stream, bytes, first_sequence, end_sequence, pieces, pending, filter, names })
    }
}

fn pending_part(from: &mut TokenReader<'_>) -> Result<PendingPart> {
    let checkpoint = from.optional()?.map(u32::try_from).transpose();
    let checkpoint = checkpoint.map_err(|_| malformed("a checkpoint beyond every number"))?;
    let replay = Replay { checkpoint, end: Location(from.number()?) };
    let (after, to) = (due_key(from)?, due_key(from)?);
    let (rows, bytes) = (from.number()?, from.number()?);
    let mut runs = Vec::new();
    for _ in 0..from.number()? {
        runs.push(RunNumber(from.narrow()?));
    }
    Ok(PendingPart { replay, due: DuePart { after, to, rows, bytes, runs } })
}

fn due_key(from: &mut TokenReader<'_>) -> Result<DueKey> {
    Ok(DueKey { due: Millis(from.number()?), sequence: Sequence(from.number()?) })
}

fn piece(from: &mut TokenReader<'_>) -> Result<LogPiece> {
    let (segment, start) = (SegmentNumber(from.narrow()?), from.narrow()?);
    let to =
        from.optional()?.map(u32::try_from).transpose().map_err(|_| malformed("an offset beyond every segment"))?;
    let (first, end) = (Sequence(from.number()?), Sequence(from.number()?));
    let chain = from.narrow()?;
    let (trusted_from, trusted_to) = (Millis(from.number()?), Millis(from.number()?));
    Ok(LogPiece { segment, from: start, to, first, end, chain, trusted_from, trusted_to })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Range {
        let piece = LogPiece {
            segment: SegmentNumber(3),
            from: 4096,
            to: Some(8192),
            first: Sequence(7),
            end: Sequence(9),
            chain: 0xFFFF_FFFF,
            trusted_from: Millis(5),
            trusted_to: Millis(6),
        };
        let filter = Filter { only_named: true, due_before: Some(Millis(0)), ..Filter::default() };
        Range {
            table: Table::Message,
            stream: Stream { id: [9; 16], timeline: 2 },
            bytes: u64::MAX,
            first_sequence: Sequence(7),
            end_sequence: Sequence(11),
            pieces: vec![piece, LogPiece { to: None, first: Sequence(9), end: Sequence(11), ..piece }],
            pending: None,
            filter,
            names: Arc::new(BTreeMap::from([(SubjectNumber(1), "täglich".to_owned())])),
        }
    }

    #[test]
    fn a_token_reads_back() {
        assert_eq!(Range::from_token(&range().to_token()).unwrap(), range());
        assert_eq!(range().rows_max(), 4);
        let key = |due, sequence| DueKey { due: Millis(due), sequence: Sequence(sequence) };
        let runs = vec![RunNumber(3), RunNumber(5)];
        let due = DuePart { after: key(1, 2), to: key(3, u64::MAX), rows: 6, bytes: 7, runs };
        let part = PendingPart { replay: Replay { checkpoint: Some(4), end: Location(77) }, due };
        let pending = Range { table: Table::Pending, pieces: vec![], pending: Some(part), ..range() };
        assert_eq!(Range::from_token(&pending.to_token()).unwrap(), pending);
        assert_eq!(pending.rows_max(), 6);
    }

    #[test]
    fn every_cut_and_every_changed_byte_of_a_token_is_refused() {
        let token = range().to_token();
        for at in 0..token.len() {
            assert!(Range::from_token(&token[..at]).is_err(), "{at}");
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert!(Range::from_token(&changed).is_err(), "{at}");
        }
    }
}
