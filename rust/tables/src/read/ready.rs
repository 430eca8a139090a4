//! The table `ready`: every message that became ready, with its ready number.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{LogPiece, PieceReader, segment_path};
use delaymq_core::storage::Storage;
use delaymq_core::store::Owner;
use delaymq_core::units::{Millis, Sequence};

use crate::plan::range::Range;
use crate::plan::range_parts::ReadyPart;
use crate::read::log_walk::{At, each_fact};
use crate::read::ready_facts::{Event, Judge, Messages};
use crate::read::ready_numbers::Numbers;
use crate::read::state_rows::each_older_ready;
use crate::rows::cells::Cell;
use crate::rows::row_batches::{Gathered, Row};
use crate::schema::choice::Choice;
use crate::schema::column::Column;

/// One reading of a range.
pub(crate) struct ReadyReader {
    owner: Owner,
    first: Sequence,
    numbers: Numbers,
    /// Where somebody asks for messages of entries.
    messages: Option<Messages>,
    reader: Option<PieceReader>,
    next_piece: usize,
}

impl ReadyReader {
    /// Opens a range, by the state at the end of the log, and shows its part that is older than the log.
    pub(crate) fn open(
        owner: Owner,
        storage: &Arc<dyn Storage>,
        range: &Range,
        part: &ReadyPart,
        choice: &Choice,
        sink: &mut Gathered,
    ) -> Result<Self> {
        let first = part.before.iter().chain(&range.pieces).map(|piece| piece.first).next().unwrap_or_default();
        let mut reader = Self {
            owner,
            first,
            numbers: Numbers::new(&part.numbering),
            messages: choice.has(Column::PublishedSequence).then(|| Messages::new(first)),
            reader: None,
            next_piece: 0,
        };
        if let Some(messages) = &mut reader.messages {
            note_all(storage, range, &part.before, messages)?;
        }
        if part.has_older {
            reader.show_older(range, part, sink)?;
        }
        Ok(reader)
    }

    /// The state that it was opened with.
    pub(crate) fn into_owner(self) -> Owner {
        self.owner
    }

    /// Ready and unfinished messages whose ready facts are not in the log, by subject and number.
    fn show_older(&self, range: &Range, part: &ReadyPart, sink: &mut Gathered) -> Result<()> {
        let mut rows = Vec::new();
        each_older_ready(&self.owner, &part.numbering, sink, &mut |subject, number, entry| {
            rows.push(ReadyRow {
                subject: range.names.get(&subject).map(String::as_str),
                number: Some(number),
                sequence: entry.sequence(),
                message: Some(entry.payload_sequence()),
                due: entry.due(),
                fact: None,
            });
        })?;
        for row in rows {
            row.show(range, sink);
        }
        Ok(())
    }

    /// Shows some more of it; false at the end.
    pub(crate) fn read_next(
        &mut self,
        storage: &Arc<dyn Storage>,
        range: &Range,
        part: &ReadyPart,
        sink: &mut Gathered,
    ) -> Result<bool> {
        let Some(piece) = range.pieces.get(self.next_piece) else { return Ok(false) };
        let path = segment_path(piece.segment);
        let Self { owner, numbers, messages, reader, first, .. } = self;
        let judge = Judge::new(owner.state(), *first, &part.refused);
        let mut found: Vec<(Event, Option<u64>)> = Vec::new();
        let reader = reader.get_or_insert_with(|| PieceReader::new(storage, range.stream, *piece));
        let is_more = reader.read_next(&mut |find| {
            let is_whole = each_fact(find, &path, |read| match read {
                Ok((fact, _, at)) => {
                    if let Some(messages) = messages {
                        messages.note(&fact, at);
                    }
                    judge.take(owner.state(), &fact, at, &mut |event| {
                        found.push((event, numbers.take(event.subject)));
                    });
                }
                Err(error) => sink.damage(error),
            });
            numbers.pass(is_whole);
        })?;
        for (event, number) in found {
            let message = self.message_of(&event)?;
            ReadyRow::of(range, event, number, message, &path).show(range, sink);
        }
        if !is_more {
            self.reader = None;
            self.next_piece = self.next_piece.saturating_add(1);
            self.numbers.next_piece();
        }
        Ok(true)
    }

    /// The message of an entry, where somebody asks for it.
    fn message_of(&mut self, event: &Event) -> Result<Option<Sequence>> {
        let Some(messages) = &mut self.messages else { return Ok(None) };
        match messages.take(event.key.sequence) {
            Some(message) => Ok(Some(message)),
            // Its fact is not in the log any more; a run may have its row.
            None => Ok(self.owner.entry_at(event.key)?.map(|entry| entry.payload_sequence())),
        }
    }
}

/// Takes in which entries the log before a range has made.
fn note_all(storage: &Arc<dyn Storage>, range: &Range, pieces: &[LogPiece], messages: &mut Messages) -> Result<()> {
    for piece in pieces {
        let (path, mut reader) = (segment_path(piece.segment), PieceReader::new(storage, range.stream, *piece));
        while reader.read_next(&mut |find| {
            each_fact(find, &path, |read| {
                // The range that has the damage reports it.
                if let Ok((fact, _, at)) = read {
                    messages.note(&fact, at);
                }
            });
        })? {}
    }
    Ok(())
}

struct ReadyRow<'a> {
    subject: Option<&'a str>,
    number: Option<u64>,
    sequence: Sequence,
    message: Option<Sequence>,
    due: Millis,
    /// The fact that made it ready, if that is in the log.
    fact: Option<(At, &'a str)>,
}

impl<'a> ReadyRow<'a> {
    fn of(range: &'a Range, event: Event, number: Option<u64>, message: Option<Sequence>, path: &'a str) -> Self {
        let subject = range.names.get(&event.subject).map(String::as_str);
        let (sequence, due) = (event.key.sequence, event.key.due);
        Self { subject, number, sequence, message, due, fact: Some((event.at, path)) }
    }

    fn show(&self, range: &Range, sink: &mut Gathered) {
        let filter = &range.filter;
        let is_other = self.subject.is_none() && filter.only_named;
        let ready = self.fact.and_then(|(at, _)| at.trusted);
        if !is_other && filter.takes(self.sequence, self.due) && filter.takes_published(ready) {
            sink.row(self);
        }
    }
}

impl Row for ReadyRow<'_> {
    fn cell(&self, column: Column, _written: &mut String) -> Cell<'_> {
        let at = self.fact.map(|(at, _)| at);
        match column {
            Column::Sequence => Cell::Number(self.sequence.0),
            Column::Subject => Cell::text(self.subject),
            Column::Number => Cell::number(self.number),
            Column::PublishedSequence => Cell::number(self.message.map(|sequence| sequence.0)),
            Column::Due => Cell::Time(self.due),
            Column::Ready => Cell::time(at.and_then(|at| at.trusted)),
            Column::ReadySequence => Cell::number(at.map(|at| at.fact.0)),
            Column::Epoch => Cell::number(at.and_then(|at| at.epoch).map(|epoch| u64::from(epoch.0))),
            Column::Segment => Cell::text(self.fact.map(|(_, path)| path)),
            Column::Offset => Cell::number(at.map(|at| u64::from(at.location.offset()))),
            _ => Cell::Null,
        }
    }
}
