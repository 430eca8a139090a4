//! The table `ready`: every message that became ready, with the number that it got.
//!
//! The log says which entries were to become ready, and not which of them were still pending then. That is judged by
//! what the state at the end knows of each sequence. Numbers are dense in each subject, so they are found by counting
//! back from the end; where something of the log is lost, those before it are not known.

use std::collections::HashMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Find, PieceReader, segment_path};
use delaymq_core::storage::Storage;
use delaymq_core::store::{Owner, state_at};
use delaymq_core::units::{Sequence, SubjectNumber};

use crate::column::Column;
use crate::judge::{Event, Judge, Seen};
use crate::pending::Replay;
use crate::range::Range;
use crate::rows::{Cell, Row, Sink};
use crate::schema::Choice;

/// From what the table is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReadyPart {
    pub(crate) replay: Replay,
    /// No more became ready.
    pub(crate) rows: u64,
}

/// One reading of the table.
pub(crate) struct ReadyReader {
    owner: Owner,
    judge: Judge,
    numbers: Option<Numbers>,
    reads_messages: bool,
    reader: Option<PieceReader>,
    next_piece: usize,
    events: Vec<Event>,
}

impl ReadyReader {
    pub(crate) fn open(storage: &Arc<dyn Storage>, range: &Range, part: ReadyPart, choice: &Choice) -> Result<Self> {
        let owner = state_at(storage, range.stream, part.replay.checkpoint, part.replay.end)?;
        let numbers = if choice.has(Column::Number) { Some(Numbers::counted(storage, range, &owner)?) } else { None };
        Ok(Self {
            judge: Judge::new(owner.state(), range.first_sequence),
            owner,
            numbers,
            reads_messages: choice.has(Column::PublishedSequence),
            reader: None,
            next_piece: 0,
            events: Vec::new(),
        })
    }

    /// Shows some more of it; false at the end.
    pub(crate) fn read_next(&mut self, storage: &Arc<dyn Storage>, range: &Range, sink: &mut dyn Sink) -> Result<bool> {
        let Some(piece) = range.pieces.get(self.next_piece) else { return Ok(false) };
        let path = segment_path(piece.segment);
        let Self { owner, judge, numbers, reader, events, .. } = self;
        let reader = reader.get_or_insert_with(|| PieceReader::new(storage, range.stream, *piece));
        let is_more = reader.read_next(&mut |find| {
            let is_whole = matches!(find, Find::Batch { .. });
            let mut is_damaged = false;
            judge.take(owner.state(), find, &path, &mut |seen| match seen {
                Seen::Ready(event) => events.push(event),
                Seen::Damage(error) => {
                    is_damaged = true;
                    sink.damage(error);
                }
            });
            if let Some(numbers) = numbers {
                numbers.number(events, is_whole && !is_damaged);
            }
        })?;
        for event in std::mem::take(&mut self.events) {
            self.show(range, &path, event, sink)?;
        }
        if !is_more {
            self.reader = None;
            self.next_piece = self.next_piece.saturating_add(1);
        }
        Ok(true)
    }

    fn show(&mut self, range: &Range, path: &str, event: Event, sink: &mut dyn Sink) -> Result<()> {
        let (filter, subject) = (&range.filter, range.names.get(&event.subject).map(String::as_str));
        let is_other = subject.is_none() && filter.only_named;
        if is_other || !filter.takes(event.fact, event.key.due) || !filter.takes_published(event.trusted) {
            return Ok(());
        }
        let mut message = event.message;
        if message.is_none() && self.reads_messages {
            // Its fact is not in the log any more; a run may have its row.
            message = self.owner.entry_at(event.key)?.map(|entry| entry.payload_sequence());
        }
        sink.row(&ReadyRow { subject, message, path, event });
        Ok(())
    }
}

struct ReadyRow<'a> {
    subject: Option<&'a str>,
    message: Option<Sequence>,
    path: &'a str,
    event: Event,
}

impl Row for ReadyRow<'_> {
    fn cell(&self, column: Column, _written: &mut String) -> Cell<'_> {
        let event = &self.event;
        match column {
            Column::Sequence => Cell::Number(event.fact.0),
            Column::Epoch => Cell::number(event.epoch.map(|epoch| u64::from(epoch.0))),
            Column::Subject => Cell::text(self.subject),
            Column::Number => Cell::number(event.number),
            Column::EntrySequence => Cell::Number(event.key.sequence.0),
            Column::PublishedSequence => Cell::number(self.message.map(|sequence| sequence.0)),
            Column::Due => Cell::Time(event.key.due),
            Column::Ready => Cell::time(event.trusted),
            Column::Segment => Cell::Text(self.path),
            Column::Offset => Cell::Number(u64::from(event.location.offset())),
            _ => Cell::Null,
        }
    }
}

/// Which numbers come next, behind the last place where something is lost.
struct Numbers {
    next: HashMap<SubjectNumber, u64>,
    /// So many finds are before that place, or are it.
    known_behind: u64,
    finds: u64,
    /// Something is lost that was there when they were counted.
    is_lost: bool,
}

impl Numbers {
    /// Reads all of the log once, and counts back from the end.
    fn counted(storage: &Arc<dyn Storage>, range: &Range, owner: &Owner) -> Result<Self> {
        let state = owner.state();
        let mut judge = Judge::new(state, range.first_sequence);
        let mut counts: HashMap<SubjectNumber, u64> = HashMap::new();
        let (mut finds, mut known_behind) = (0_u64, 0_u64);
        for piece in &range.pieces {
            let path = segment_path(piece.segment);
            let mut reader = PieceReader::new(storage, range.stream, *piece);
            while reader.read_next(&mut |find| {
                finds = finds.saturating_add(1);
                let mut is_lost = !matches!(find, Find::Batch { .. });
                judge.take(state, find, &path, &mut |seen| match seen {
                    Seen::Ready(event) => {
                        let count = counts.entry(event.subject).or_default();
                        *count = count.saturating_add(1);
                    }
                    Seen::Damage(_) => is_lost = true,
                });
                if is_lost {
                    counts.clear();
                    known_behind = finds;
                }
            })? {}
        }
        let first = |(subject, count): (SubjectNumber, u64)| {
            (subject, state.dispatch.next_number(subject).0.saturating_sub(count))
        };
        Ok(Self { next: counts.into_iter().map(first).collect(), known_behind, finds: 0, is_lost: false })
    }

    /// Gives the events of one find their numbers.
    fn number(&mut self, events: &mut [Event], is_whole: bool) {
        self.finds = self.finds.saturating_add(1);
        if self.finds <= self.known_behind {
            return;
        }
        self.is_lost |= !is_whole;
        if self.is_lost {
            return;
        }
        for event in events.iter_mut().filter(|event| event.number.is_none()) {
            let next = self.next.get_mut(&event.subject);
            event.number = next.map(|next| std::mem::replace(next, next.saturating_add(1)));
        }
    }
}
