//! The table `deliveries`: what became of each message for each group.
//!
//! A range has the messages of some sequences. Its reader walks the log from the segment in which they begin, and keeps
//! what concerns them. It skips bodies, and checks a body if it reads an id from it.

use std::collections::HashMap;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Find, LogPiece, PieceReader, segment_path};
use delaymq_core::record::Fact;
use delaymq_core::record::command::{Cancel, Void};
use delaymq_core::record::expire::ExpiredBy;
use delaymq_core::record::header::read_record;
use delaymq_core::record::message::{Message, decode_message};
use delaymq_core::record::name::GroupEnd;
use delaymq_core::record::terms::{ByKey, KeyCommand};
use delaymq_core::run::{BLOCK_ROWS, RowScan, Run, ScanBuffer, ScheduleRow};
use delaymq_core::schedule_log::Entry;
use delaymq_core::storage::Storage;
use delaymq_core::store::Owner;
use delaymq_core::units::Sequence;

use crate::ledger::delivery_ledger::{Ending, Ledger};
use crate::ledger::gaps::subjects_of_groups;
use crate::ledger::rows::show_slot;
use crate::ledger::slots::Gone;
use crate::plan::range::Range;
use crate::plan::range_parts::DeliveriesPart;
use crate::read::log_walk::{At, each_fact};
use crate::read::message::check_payload;
use crate::read::ready_facts::{Judge, known_from};
use crate::read::ready_numbers::{Numbering, Numbers};
use crate::read::state_rows::{each_older_ready, each_pending_below, each_unfinished};
use crate::rows::content::Content;
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::column::Column;
use crate::snapshot::parties::Parties;

/// Messages whose rows are made at once.
const PORTION: usize = 10_000;

/// One reading of a range.
pub(crate) struct DeliveriesReader {
    owner: Owner,
    ledger: Ledger,
    numbers: Numbers,
    reads_ids: bool,
    reader: Option<PieceReader>,
    next_piece: usize,
    next_slot: usize,
    /// The log is read to its end.
    is_walked: bool,
    /// Where the log does not say all: entries that are ready and not finished, and that the message did not make, with
    /// their numbers.
    moved: Vec<(Entry, u64)>,
}

impl DeliveriesReader {
    /// Opens a range, by the state at the end of the log.
    pub(crate) fn open(
        owner: Owner,
        range: &Range,
        part: &DeliveriesPart,
        choice: &Choice,
        sink: &mut Gathered,
    ) -> Result<Self> {
        let known_from = known_from(owner.state(), part.log_first);
        let mut ledger = Ledger::new(range.first_sequence, range.end_sequence, part.log_first, known_from);
        if range.end_sequence <= part.log_first {
            add_older_ready(&owner, &mut ledger, range, &part.numbering, sink)?;
        }
        let (numbers, reads_ids) = (Numbers::new(&part.numbering), choice.has(Column::MessageId));
        let (reader, next_piece, next_slot, is_walked, moved) = (None, 0, 0, false, Vec::new());
        let mut opened = Self { owner, ledger, numbers, reads_ids, reader, next_piece, next_slot, is_walked, moved };
        if range.end_sequence > part.log_first && !part.numbering.is_whole() {
            opened.note_unfinished(sink)?;
        }
        Ok(opened)
    }

    /// The log does not have everything that became ready, but the state has what of it is unfinished.
    fn note_unfinished(&mut self, sink: &mut Gathered) -> Result<()> {
        let (damages, mut numbered) = (sink.damages.len(), HashMap::new());
        let Self { owner, ledger, moved, .. } = self;
        for subject in owner.state().subjects.iter().map(|(number, _)| number) {
            let end = owner.state().dispatch.next_number(subject);
            each_unfinished(owner, (subject, end), sink, &mut |_, number, entry| {
                if ledger.has(entry.payload_sequence()) {
                    numbered.insert(entry.sequence(), number);
                    if entry.sequence() != entry.payload_sequence() {
                        moved.push((entry, number));
                    }
                }
            })?;
        }
        ledger.is_doubtful = sink.damages.len() > damages;
        ledger.numbered = Some(numbered);
        Ok(())
    }

    /// Fills gaps: what the state says about messages that missing facts have moved, retried or made ready.
    fn fill_gaps(&mut self, range: &Range, sink: &mut Gathered) {
        let Self { owner, ledger, moved, .. } = self;
        let state = owner.state();
        for (entry, number) in moved.drain(..) {
            ledger.find_entry(state, &range.parties, &entry, Some(number));
        }
        each_pending_below(owner, Sequence(u64::MAX), sink, &mut |entry| {
            if ledger.has(entry.payload_sequence()) {
                ledger.find_entry(state, &range.parties, entry, None);
            }
        });
        ledger.find_ready(state);
    }

    /// The state that it was opened with.
    pub(crate) fn into_owner(self) -> Owner {
        self.owner
    }

    /// Reads some more of the log, or shows some rows; false at the end.
    pub(crate) fn read_next(
        &mut self,
        storage: &Arc<dyn Storage>,
        range: &Range,
        part: &DeliveriesPart,
        sink: &mut Gathered,
    ) -> Result<bool> {
        if let Some(piece) = range.pieces.get(self.next_piece) {
            self.walk(storage, range, part, piece, sink)?;
            return Ok(true);
        }
        if !std::mem::replace(&mut self.is_walked, true) {
            if range.end_sequence <= part.log_first {
                self.add_older_pending(&range.parties, sink);
            } else if self.ledger.numbered.is_some() {
                self.fill_gaps(range, sink);
            }
        }
        let portion = self.ledger.slots.get(self.next_slot..).unwrap_or_default();
        for slot in portion.iter().take(PORTION) {
            show_slot(&self.ledger, slot, self.owner.state(), range, sink);
        }
        self.next_slot = self.next_slot.saturating_add(PORTION);
        Ok(self.next_slot < self.ledger.slots.len())
    }

    fn walk(
        &mut self,
        storage: &Arc<dyn Storage>,
        range: &Range,
        part: &DeliveriesPart,
        piece: &LogPiece,
        sink: &mut Gathered,
    ) -> Result<()> {
        let path = segment_path(piece.segment);
        let Self { owner, ledger, numbers, reader, reads_ids, .. } = self;
        let mut walk = Walk { owner, ledger, numbers, range, part, path: &path, reads_ids: *reads_ids };
        // One of the ranges that read the damage reports it.
        let is_own = range.verifies(piece);
        let reader = reader.get_or_insert_with(|| PieceReader::new(storage, range.stream, *piece));
        let is_more = reader.read_next(&mut |find| walk.take(find, is_own, sink))?;
        if !is_more {
            self.reader = None;
            self.next_piece = self.next_piece.saturating_add(1);
            self.numbers.next_piece();
        }
        Ok(())
    }

    /// Pending messages, or retries of messages, from before the beginning of the log.
    fn add_older_pending(&mut self, parties: &Parties, sink: &mut Gathered) {
        let Self { owner, ledger, .. } = self;
        let (state, log_first) = (owner.state(), ledger.log_first);
        let of_groups = subjects_of_groups(state, parties);
        each_pending_below(owner, Sequence(u64::MAX), sink, &mut |entry| match of_groups.get(&entry.subject()) {
            Some(subject) => ledger.add_older_given_back((state, parties), *subject, entry, None),
            None if entry.sequence() < log_first && ledger.has(entry.sequence()) => {
                ledger.add_older(entry.sequence(), entry.payload_sequence(), entry.key(), entry.subject());
            }
            None => {}
        });
        self.ledger.slots.sort_by_key(|slot| slot.sequence.unwrap_or(slot.entry));
    }
}

/// Ready and unfinished messages, or retries of messages, from before the beginning of the log.
fn add_older_ready(
    owner: &Owner,
    ledger: &mut Ledger,
    range: &Range,
    numbering: &Numbering,
    sink: &mut Gathered,
) -> Result<()> {
    let state = owner.state();
    let of_groups = subjects_of_groups(state, &range.parties);
    each_older_ready(owner, numbering, sink, &mut |subject, number, entry| {
        if ledger.has(entry.payload_sequence()) && !of_groups.contains_key(&subject) {
            ledger.add_older_ready(entry.payload_sequence(), entry.key(), subject, number);
        }
    })?;
    for (own, subject) in of_groups {
        let end = state.dispatch.next_number(own);
        each_unfinished(owner, (own, end), sink, &mut |_, number, entry| {
            ledger.add_older_given_back((state, &range.parties), subject, &entry, Some(number));
        })?;
    }
    Ok(())
}

struct Walk<'a> {
    owner: &'a Owner,
    ledger: &'a mut Ledger,
    numbers: &'a mut Numbers,
    range: &'a Range,
    part: &'a DeliveriesPart,
    path: &'a str,
    reads_ids: bool,
}

impl Walk<'_> {
    fn take(&mut self, find: Find<'_>, is_own: bool, sink: &mut Gathered) {
        let is_whole = each_fact(find, self.path, |found| match found {
            Ok((fact, record, at)) => {
                self.fact(&fact, at);
                if let Fact::Adopt(adopt) = &fact {
                    let end = at.fact.plus(u64::from(adopt.rows));
                    self.loaded(at.fact..end, at, sink);
                }
                if let Fact::Message(message) = &fact {
                    let check = || check_payload(&record, self.path, at.location.offset());
                    if let Err(error) = self.message(message, at, check) {
                        sink.damage(error);
                    }
                }
                self.readies(&fact, at);
            }
            Err(error) if is_own => sink.damage(error),
            Err(error) => sink.damage_elsewhere(error),
        });
        self.numbers.pass(is_whole);
    }

    /// A message of the range is published; its id is read if the request wants ids.
    fn message(&mut self, message: &Message<'_>, at: At, check: impl FnOnce() -> Result<()>) -> Result<()> {
        let filter = &self.range.filter;
        let is_other = filter.only_named && !self.range.names.contains_key(&message.subject);
        if !self.ledger.has(at.fact) || is_other || !filter.takes_published(at.trusted) {
            return Ok(());
        }
        let content = if self.reads_ids { Some(check().map(|()| Content::of(message))) } else { None };
        let id = match &content {
            Some(Ok(Some(content))) => content.message_id,
            _ => "",
        };
        self.ledger.publish(message, at, id);
        match content {
            Some(Err(error)) => Err(error),
            Some(Ok(None)) => {
                let offset = u64::from(at.location.offset());
                Err(Error::corrupt(self.path, offset, "id, tags and attributes", "other bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Messages of the range that a fact has loaded come to be. What became of the others is not asked for.
    fn loaded(&mut self, sequences: std::ops::Range<Sequence>, at: At, sink: &mut Gathered) {
        let runs = self.owner.state().loaded_runs();
        let is_its = |run: &&Arc<Run>| {
            let is_adopted = run.relation().is_some_and(|relation| sequences.contains(&relation.base));
            is_adopted
                && run.first_sequence() < self.range.end_sequence
                && run.last_sequence() >= self.range.first_sequence
        };
        let runs: Vec<Arc<Run>> = runs.iter().filter(is_its).cloned().collect();
        for run in runs {
            let mut buffer = ScanBuffer::default();
            let skipped = self.range.first_sequence.0.saturating_sub(run.first_sequence().0);
            let block = u32::try_from(skipped / BLOCK_ROWS as u64).unwrap_or(u32::MAX);
            let mut scan = RowScan::<ScheduleRow>::from_block(&run, block, None, &mut buffer);
            loop {
                match scan.next_row() {
                    Ok(None) => break,
                    Ok(Some(row)) if row.key.sequence >= self.range.end_sequence => break,
                    Ok(Some(row)) => {
                        if let Err(error) = self.loaded_row(&run, &row, at) {
                            sink.damage(error);
                        }
                    }
                    Err(damage) => {
                        let is_gone = matches!(damage.error, Error::Storage { .. });
                        sink.damage(damage.error);
                        if is_gone {
                            break;
                        }
                        scan.skip_block();
                    }
                }
            }
        }
    }

    fn loaded_row(&mut self, run: &Run, row: &ScheduleRow, at: At) -> Result<()> {
        let at = At { fact: row.key.sequence, ..at };
        if !self.ledger.has(at.fact) {
            return Ok(());
        }
        let (mut bytes, offset) = (Vec::new(), u64::from(row.location.offset()));
        let bare = Message {
            due: row.key.due,
            published: at.trusted.unwrap_or_default(),
            subject: row.subject,
            opaque: true,
            expiry: None,
            meta: &[],
            body: &[],
        };
        if !self.reads_ids {
            return self.message(&bare, at, || Ok(()));
        }
        if let Err(error) = run.read_payload(offset, row.payload_sequence, Some(row.length), &mut bytes) {
            return self.message(&bare, at, || Err(error));
        }
        let record = read_record(&bytes, row.payload_sequence).ok();
        let message = record.as_ref().and_then(decode_message).unwrap_or(bare);
        self.message(&message, at, || Ok(()))
    }

    fn readies(&mut self, fact: &Fact<'_>, at: At) {
        let judge = Judge::new(self.owner.state(), self.part.log_first, &self.part.refused);
        judge.take(self.owner.state(), fact, at, &mut |event| {
            let number = self.numbers.take(event.subject);
            self.ledger.ready(&event, number);
        });
    }

    fn fact(&mut self, fact: &Fact<'_>, at: At) {
        let (state, ledger, parties) = (self.owner.state(), &mut *self.ledger, self.range.parties.as_ref());
        if let Some(moving) = fact.as_move() {
            ledger.moved(state, moving.target, moving.due, moving.subject, at);
            return;
        }
        match fact {
            Fact::Cancel(Cancel { target, subject, .. })
            | Fact::ByKey(ByKey { target: Some(target), subject, command: KeyCommand::Cancel, .. }) => {
                let (entry, due) = (target.sequence, Some(target.due));
                ledger.cancelled(state, Ending { entry, due, subject: *subject, is_void: false }, at);
            }
            Fact::Void(Void::Pending { subject, sequence }) => {
                let ending = Ending { entry: *sequence, due: None, subject: *subject, is_void: true };
                ledger.cancelled(state, ending, at);
            }
            Fact::Void(Void::Ready { subject, number }) => {
                let numbers = (number.0, number.0.saturating_add(1));
                ledger.finish(*subject, numbers, (Gone::Voided, None), at);
            }
            Fact::Expire(expire) => {
                let own = match expire.by {
                    ExpiredBy::Operator { .. } => None,
                    ExpiredBy::Themselves { group, received } => Some((group, received)),
                };
                for range in expire.numbers.iter() {
                    let numbers = (range.first, range.first.saturating_add(range.count));
                    ledger.finish(expire.subject, numbers, (Gone::Expired, own), at);
                }
            }
            Fact::Assign(assign) => ledger.assign(parties, assign, at),
            Fact::PassOver(passed_over) => ledger.pass_over(parties, passed_over, at),
            Fact::Acknowledge(acknowledge) => ledger.acknowledge(acknowledge, at),
            Fact::Retry(retry) => {
                let subject = parties.groups.get(&retry.group).map(|(subject, _)| *subject);
                let base = subject.and_then(|subject| self.part.numbering.first_of(subject));
                ledger.retry(parties, retry, at, base.is_some_and(|base| retry.number.0 < base));
            }
            Fact::Redrive(redrive) => ledger.redrive(state, parties, redrive, at),
            Fact::ConsumerEnd { consumer, .. } => ledger.consumer_ended(*consumer),
            Fact::GroupEnd { group, end } => ledger.group_ended(state, *group, at, *end == GroupEnd::Alone),
            Fact::GroupReset { group, .. } => ledger.group_ended(state, *group, at, false),
            _ => {}
        }
    }
}
