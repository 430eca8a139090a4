//! A range: the part of a table that one reader reads.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, Stream, segment_path};
use delaymq_core::run::run_path;
use delaymq_core::units::{RunNumber, Sequence};

use crate::plan::range_parts::{DeliveriesPart, KnownFile, KnownLoad, PendingPart, ReadyPart};
use crate::plan::token_codec::malformed;
use crate::schema::filter::{Filter, Names};
use crate::schema::table::Table;
use crate::snapshot::parties::Parties;

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
    /// Loaded runs that it has messages of.
    pub(crate) loads: Vec<KnownLoad>,
    pub(crate) part: Part,
    pub(crate) filter: Filter,
    pub(crate) names: Arc<Names>,
    pub(crate) parties: Arc<Parties>,
}

/// The part of a range that is not pieces of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Nothing: each piece is read by itself.
    Log,
    Pending(PendingPart),
    Ready(ReadyPart),
    Deliveries(DeliveriesPart),
    Files(Vec<KnownFile>),
}

impl Range {
    /// No more rows than this come of it.
    pub fn rows_max(&self) -> u64 {
        match &self.part {
            Part::Log => self.pieces.iter().map(|piece| piece.end.since(piece.first)).fold(0, u64::saturating_add),
            Part::Pending(part) => part.due.rows,
            Part::Ready(part) => part.rows,
            Part::Deliveries(part) => part.rows,
            Part::Files(files) => files.len() as u64,
        }
    }

    /// Every file with the offsets between which it is read; where the end is not known, it is the seal's.
    pub fn files(&self) -> Vec<(String, u32, Option<u32>)> {
        let pieces = self.pieces.iter().map(|piece| (segment_path(piece.segment), piece.from, piece.to));
        let others: Vec<String> = match &self.part {
            Part::Log => self.loads.iter().map(KnownLoad::path).collect(),
            Part::Ready(_) | Part::Deliveries(_) => Vec::new(),
            Part::Pending(part) => part.due.runs.iter().map(|run| self.path_of(*run)).collect(),
            Part::Files(files) => files.iter().map(KnownFile::path).collect(),
        };
        pieces.chain(others.into_iter().map(|path| (path, 0, None))).collect()
    }

    fn path_of(&self, run: RunNumber) -> String {
        let loaded = self.loads.iter().find(|load| load.number == run);
        loaded.map_or_else(|| run_path(run), KnownLoad::path)
    }

    /// Whether a piece is one that this range has to verify: of what became of messages each piece is read for many
    /// ranges, and verified by the one that has its first fact.
    pub(crate) fn verifies(&self, piece: &LogPiece) -> bool {
        let is_shared = matches!(self.part, Part::Deliveries(_));
        !is_shared || (self.first_sequence..self.end_sequence).contains(&piece.first)
    }

    /// Checks that it is of this store.
    ///
    /// # Errors
    /// `InvalidArgument` if it is of another one.
    pub fn check_stream(&self, stream: &Stream) -> Result<()> {
        if self.stream.id == stream.id { Ok(()) } else { Err(malformed("one of another store")) }
    }
}
