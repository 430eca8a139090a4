//! The token of a range.

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, Stream};
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::units::{
    ConsumerNumber, DueKey, GroupNumber, Location, Millis, RunNumber, SegmentNumber, Sequence, SubjectNumber,
};

use crate::plan::due_stretches::DuePart;
use crate::plan::range::{Part, Range};
use crate::plan::range_parts::{DeliveriesPart, KnownFile, KnownLoad, KnownSegment, PendingPart, ReadyPart, Replay};
use crate::plan::token_codec::{Coded, TokenReader, TokenWriter, coded, malformed};
use crate::read::ready_numbers::Numbering;
use crate::schema::filter::Filter;
use crate::schema::table::Table;
use crate::snapshot::parties::Parties;

/// Rises with the layout of a token.
const TOKEN_VERSION: u64 = 5;

impl Range {
    /// All of it as bytes.
    pub fn to_token(&self) -> Vec<u8> {
        let mut out = TokenWriter::default();
        let table = Table::ALL.iter().position(|table| *table == self.table).unwrap_or_default();
        (TOKEN_VERSION, table as u64).put(&mut out);
        self.stream.put(&mut out);
        (self.bytes, (self.first_sequence, self.end_sequence)).put(&mut out);
        self.filter.put(&mut out);
        self.pieces.put(&mut out);
        self.loads.put(&mut out);
        match &self.part {
            Part::Log => {}
            Part::Pending(part) => part.put(&mut out),
            Part::Ready(part) => part.put(&mut out),
            Part::Deliveries(part) => part.put(&mut out),
            Part::Files(files) => files.put(&mut out),
        }
        self.names.put(&mut out);
        self.parties.put(&mut out);
        out.finish()
    }

    /// Reads what [`Self::to_token`] made.
    ///
    /// # Errors
    /// `InvalidArgument` if it is something else, or of another release.
    pub fn from_token(token: &[u8]) -> Result<Self> {
        let mut reader = TokenReader::new(token)?;
        let from = &mut reader;
        let (version, table) = <(u64, u64)>::take(from)?;
        let table = Table::ALL.into_iter().zip(0..).find(|(_, number)| version == TOKEN_VERSION && *number == table);
        let (table, _) = table.ok_or_else(|| malformed("one of another release"))?;
        let stream = Coded::take(from)?;
        let (bytes, (first_sequence, end_sequence)) = Coded::take(from)?;
        let (filter, pieces, loads) = (Coded::take(from)?, Coded::take(from)?, Coded::take(from)?);
        let part = match table {
            Table::Message | Table::Action => Part::Log,
            Table::Pending => Part::Pending(Coded::take(from)?),
            Table::Ready => Part::Ready(Coded::take(from)?),
            Table::Deliveries => Part::Deliveries(Coded::take(from)?),
            Table::Segments => Part::Files(Coded::take(from)?),
        };
        let (names, parties) = (Coded::take(from)?, Coded::take(from)?);
        reader.finish()?;
        Ok(Self { table, stream, bytes, first_sequence, end_sequence, pieces, loads, part, filter, names, parties })
    }
}

coded! {
    ConsumerNumber { 0 }
    GroupNumber { 0 }
    Location { 0 }
    Millis { 0 }
    RunNumber { 0 }
    SegmentNumber { 0 }
    Sequence { 0 }
    SubjectNumber { 0 }
    DueKey { due, sequence }
    Stream { id, timeline }
    LogPiece { segment, from, to, first, end, chain, trusted_from, trusted_to }
    LoadName { staged, nonce }
    StagedRun { name, length, digest, rows }
    Filter { only_named, first_sequence, end_sequence, published_from, published_before, due_from, due_before }
    Parties { subjects, groups, consumers }
    Replay { checkpoint, end }
    DuePart { after, to, rows, bytes, runs }
    PendingPart { replay, due }
    Numbering { from, next }
    ReadyPart { replay, before, has_older, rows, numbering, refused }
    DeliveriesPart { replay, log_first, rows, numbering, refused }
    KnownSegment { number, first, end, trusted_to, is_sealed, begins_hollow }
    KnownLoad { number, run, base, published }
}

const SEGMENT: u64 = 0;
const RUN: u64 = 1;
const LOAD: u64 = 2;

impl Coded for KnownFile {
    fn put(&self, out: &mut TokenWriter) {
        match self {
            Self::Segment(segment) => {
                SEGMENT.put(out);
                segment.put(out);
            }
            Self::Run(number) => {
                RUN.put(out);
                number.put(out);
            }
            Self::Load(load) => {
                LOAD.put(out);
                load.put(out);
            }
        }
    }

    fn take(from: &mut TokenReader<'_>) -> Result<Self> {
        Ok(match from.number()? {
            SEGMENT => Self::Segment(Coded::take(from)?),
            RUN => Self::Run(Coded::take(from)?),
            LOAD => Self::Load(Coded::take(from)?),
            _ => return Err(malformed("a file of another kind")),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::read::ready_facts::Refused;

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
            loads: Vec::new(),
            part: Part::Log,
            filter,
            names: Arc::new(BTreeMap::from([(SubjectNumber(1), "täglich".to_owned())])),
            parties: Arc::default(),
        }
    }

    fn of_every_table() -> Vec<(Range, u64)> {
        let key = |due, sequence| DueKey { due: Millis(due), sequence: Sequence(sequence) };
        let runs = vec![RunNumber(3), RunNumber(5)];
        let due = DuePart { after: key(1, 2), to: key(3, u64::MAX), rows: 6, bytes: 7, runs };
        let replay = Replay { checkpoint: Some(4), end: Location(77) };
        let (number, trusted_to) = (SegmentNumber(3), Millis(9));
        let segment = KnownSegment {
            number,
            first: Sequence(1),
            end: Sequence(4),
            trusted_to,
            is_sealed: true,
            begins_hollow: true,
        };
        let files = vec![KnownFile::Segment(segment), KnownFile::Run(RunNumber(8))];
        let parties = Parties {
            subjects: BTreeMap::from([(SubjectNumber(2), "other".to_owned())]),
            groups: BTreeMap::from([(GroupNumber(7), (SubjectNumber(2), "g".to_owned()))]),
            consumers: BTreeMap::from([(ConsumerNumber(8), "host@1".to_owned())]),
        };
        let numbering = Numbering { from: None, next: BTreeMap::new() };
        let refused = Refused::new();
        let part = DeliveriesPart { replay, log_first: Sequence(5), rows: 3, numbering, refused };
        let deliveries = Part::Deliveries(part);
        let ready = Part::Ready(ReadyPart {
            replay: Replay { checkpoint: None, ..replay },
            before: range().pieces,
            has_older: true,
            rows: 5,
            numbering: Numbering { from: Some((1, 2)), next: BTreeMap::from([(SubjectNumber(2), 9)]) },
            refused: Refused::from([(Sequence(3), Sequence(1))]),
        });
        vec![
            (range(), 4),
            (Range { table: Table::Pending, part: Part::Pending(PendingPart { replay, due }), ..range() }, 6),
            (Range { table: Table::Ready, part: ready, ..range() }, 5),
            (Range { table: Table::Deliveries, part: deliveries, ..range() }, 3),
            (Range { table: Table::Action, parties: Arc::new(parties), ..range() }, 4),
            (Range { table: Table::Segments, pieces: vec![], part: Part::Files(files), ..range() }, 2),
        ]
    }

    #[test]
    fn a_token_reads_back() {
        for (range, rows) in of_every_table() {
            assert_eq!(Range::from_token(&range.to_token()).unwrap(), range);
            assert_eq!(range.rows_max(), rows);
        }
    }

    #[test]
    fn every_cut_and_every_changed_byte_of_a_token_is_refused() {
        for (range, _) in of_every_table() {
            let token = range.to_token();
            for at in 0..token.len() {
                assert!(Range::from_token(&token[..at]).is_err(), "{at}");
                let mut changed = token.clone();
                changed[at] ^= 1;
                assert!(Range::from_token(&changed).is_err(), "{at}");
            }
        }
    }
}
