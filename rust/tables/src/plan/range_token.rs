//! The token of a range.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::Stream;
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis, Sequence, SubjectNumber};

use crate::plan::log_piece_codec::{pieces, put_pieces};
use crate::plan::range::{Part, Range};
use crate::plan::range_parts::{
    deliveries_part, files, pending_part, put_deliveries, put_file, put_pending, put_ready, ready_part,
};
use crate::plan::token_codec::{TokenReader, TokenWriter, malformed};
use crate::read::loads::{load, put_load};
use crate::schema::filter::{Filter, Names};
use crate::schema::table::Table;
use crate::snapshot::parties::Parties;

/// Rises with the layout of a token.
const TOKEN_VERSION: u64 = 4;

impl Range {
    /// All of it as bytes.
    pub fn to_token(&self) -> Vec<u8> {
        let mut out = TokenWriter::default();
        out.number(TOKEN_VERSION);
        out.number(table_number(self.table));
        out.bytes(&self.stream.id);
        out.number(u64::from(self.stream.timeline));
        for number in [self.bytes, self.first_sequence.0, self.end_sequence.0] {
            out.number(number);
        }
        put_filter(&mut out, &self.filter);
        put_pieces(&mut out, &self.pieces);
        out.number(self.loads.len() as u64);
        self.loads.iter().for_each(|load| put_load(&mut out, load));
        match &self.part {
            Part::Log => {}
            Part::Pending(part) => put_pending(&mut out, part),
            Part::Ready(part) => put_ready(&mut out, part),
            Part::Deliveries(part) => put_deliveries(&mut out, part),
            Part::Files(files) => {
                out.number(files.len() as u64);
                for file in files {
                    put_file(&mut out, file);
                }
            }
        }
        put_names(&mut out, &self.names);
        put_names(&mut out, &self.parties.subjects);
        out.number(self.parties.groups.len() as u64);
        for (number, (subject, name)) in &self.parties.groups {
            out.number(u64::from(number.0));
            out.number(u64::from(subject.0));
            out.bytes(name.as_bytes());
        }
        out.number(self.parties.consumers.len() as u64);
        for (number, name) in &self.parties.consumers {
            out.number(u64::from(number.0));
            out.bytes(name.as_bytes());
        }
        out.finish()
    }

    /// Reads what [`Self::to_token`] made.
    ///
    /// # Errors
    /// `InvalidArgument` if it is something else, or of another release.
    pub fn from_token(token: &[u8]) -> Result<Self> {
        let mut from = TokenReader::new(token)?;
        let (version, table) = (from.number()?, from.number()?);
        let table = Table::ALL.into_iter().find(|one| version == TOKEN_VERSION && table_number(*one) == table);
        let table = table.ok_or_else(|| malformed("one of another release"))?;
        let id = from.bytes()?.try_into().map_err(|_| malformed("a stream of another length"))?;
        let stream = Stream { id, timeline: from.narrow()? };
        let (bytes, first_sequence, end_sequence) = (from.number()?, from.number()?, from.number()?);
        let filter = filter(&mut from)?;
        let pieces = pieces(&mut from)?;
        let mut loads = Vec::new();
        for _ in 0..from.number()? {
            loads.push(load(&mut from)?);
        }
        let part = match table {
            Table::Message | Table::Action => Part::Log,
            Table::Pending => Part::Pending(pending_part(&mut from)?),
            Table::Ready => Part::Ready(ready_part(&mut from)?),
            Table::Deliveries => Part::Deliveries(deliveries_part(&mut from)?),
            Table::Segments => Part::Files(files(&mut from)?),
        };
        let (names, parties) = (Arc::new(names(&mut from)?), Arc::new(parties(&mut from)?));
        from.finish()?;
        let (first_sequence, end_sequence) = (Sequence(first_sequence), Sequence(end_sequence));
        Ok(Self { table, stream, bytes, first_sequence, end_sequence, pieces, loads, part, filter, names, parties })
    }
}

fn table_number(table: Table) -> u64 {
    match table {
        Table::Message => 0,
        Table::Pending => 1,
        Table::Ready => 2,
        Table::Action => 3,
        Table::Segments => 4,
        Table::Deliveries => 5,
    }
}

fn put_filter(out: &mut TokenWriter, filter: &Filter) {
    out.number(u64::from(filter.only_named));
    let sequences = [filter.first_sequence, filter.end_sequence].map(|bound| bound.map(|sequence| sequence.0));
    let times = [filter.published_from, filter.published_before, filter.due_from, filter.due_before];
    for bound in sequences.into_iter().chain(times.map(|bound| bound.map(|time| time.0))) {
        out.optional(bound);
    }
}

fn filter(from: &mut TokenReader<'_>) -> Result<Filter> {
    Ok(Filter {
        only_named: from.number()? != 0,
        first_sequence: from.optional()?.map(Sequence),
        end_sequence: from.optional()?.map(Sequence),
        published_from: from.optional()?.map(Millis),
        published_before: from.optional()?.map(Millis),
        due_from: from.optional()?.map(Millis),
        due_before: from.optional()?.map(Millis),
    })
}

fn put_names(out: &mut TokenWriter, names: &Names) {
    out.number(names.len() as u64);
    for (number, name) in names {
        out.number(u64::from(number.0));
        out.bytes(name.as_bytes());
    }
}

fn names(from: &mut TokenReader<'_>) -> Result<Names> {
    let mut names = BTreeMap::new();
    for _ in 0..from.number()? {
        names.insert(SubjectNumber(from.narrow()?), from.text()?);
    }
    Ok(names)
}

fn parties(from: &mut TokenReader<'_>) -> Result<Parties> {
    let mut parties = Parties { subjects: names(from)?, ..Parties::default() };
    for _ in 0..from.number()? {
        let (number, subject) = (GroupNumber(from.narrow()?), SubjectNumber(from.narrow()?));
        parties.groups.insert(number, (subject, from.text()?));
    }
    for _ in 0..from.number()? {
        parties.consumers.insert(ConsumerNumber(from.narrow()?), from.text()?);
    }
    Ok(parties)
}

#[cfg(test)]
mod tests {
    use delaymq_core::message_log::LogPiece;

    use super::*;
    use crate::plan::due_stretches::DuePart;
    use crate::read::deliveries::DeliveriesPart;
    use crate::read::pending::{PendingPart, Replay};
    use crate::read::ready::ReadyPart;
    use crate::read::ready_facts::Refused;
    use crate::read::ready_numbers::Numbering;
    use crate::read::segments::{KnownFile, KnownSegment};
    use delaymq_core::units::{DueKey, Location, RunNumber, SegmentNumber};

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
