//! The reader of ranges: an iterator of record batches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{PieceReader, segment_path};
use delaymq_core::storage::Storage;
use delaymq_core::store::{Owner, state_at};
use delaymq_core::units::Epoch;

use crate::plan::range::{Part, Range};
use crate::plan::range_parts::{KnownLoad, Replay};
use crate::read::action::ActionRows;
use crate::read::deliveries::DeliveriesReader;
use crate::read::loads::LoadReader;
use crate::read::message::MessageRows;
use crate::read::pending::PendingReader;
use crate::read::ready::ReadyReader;
use crate::read::segments::show_file;
use crate::refused;
use crate::rows::row_batches::Gathered;
use crate::schema::choice::Choice;
use crate::schema::table::Table;

/// What to do on damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnDamage {
    /// The reading ends there, with the error.
    Raise,
    /// It is listed, and the reading goes on with what can be read behind it.
    Report,
}

/// What a reading reports in addition to its rows, also to a caller that sees only Arrow's own errors.
#[derive(Clone, Default, Debug)]
pub struct Told {
    /// Why it ended.
    pub error: Option<Error>,
    /// What is damaged, in the order of the log.
    pub damages: Vec<Error>,
}

/// The shared place of the report.
pub type SharedTold = Arc<Mutex<Told>>;

/// See the module.
pub struct Reading {
    storage: Arc<dyn Storage>,
    ranges: Vec<Range>,
    choice: Choice,
    on_damage: OnDamage,
    told: SharedTold,
    next_range: usize,
    next_piece: usize,
    /// With the path of its segment.
    reader: Option<(PieceReader, String)>,
    pending: Option<PendingReader>,
    ready: Option<ReadyReader>,
    deliveries: Option<DeliveriesReader>,
    /// Loaded runs whose facts were read, and the one that is being read.
    loads: VecDeque<(KnownLoad, Option<Epoch>)>,
    load: Option<LoadReader>,
    /// The state at the end of the log, for the next range of the same snapshot.
    state: Option<(Replay, Owner)>,
    /// Some of the range of what is pending was read, or is to be.
    is_in_range: bool,
    gathered: Gathered,
    is_done: bool,
}

/// A reading of ranges of one table in the store whose files these are.
pub fn open_ranges(
    storage: Arc<dyn Storage>,
    table: Table,
    ranges: Vec<Range>,
    choice: Choice,
    on_damage: OnDamage,
) -> Reading {
    let gathered = Gathered::new(table, &choice);
    Reading {
        storage,
        ranges,
        choice,
        on_damage,
        told: SharedTold::default(),
        next_range: 0,
        next_piece: 0,
        reader: None,
        pending: None,
        ready: None,
        deliveries: None,
        loads: VecDeque::new(),
        load: None,
        state: None,
        is_in_range: false,
        gathered,
        is_done: false,
    }
}

impl Reading {
    /// The report, so far and later.
    pub fn told(&self) -> SharedTold {
        Arc::clone(&self.told)
    }

    /// What was damaged so far.
    pub(crate) fn take_damages(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner).damages)
    }

    /// The next record batch; `None` at the end.
    ///
    /// # Errors
    /// `Storage`, `NewerFormat`; `Corrupt`, `MissingFile`, `DamagedPayload` where damage is to be raised.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.read();
        if let Err(error) = &next {
            (self.is_done, self.reader, self.pending) = (true, None, None);
            (self.ready, self.deliveries, self.load) = (None, None, None);
            self.gathered.forget();
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.error.get_or_insert_with(|| error.clone());
        }
        next
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.gathered.next_full() {
                return batch.map(Some).map_err(|error| not_built(&error));
            }
            if self.is_done {
                return Ok(None);
            }
            if !self.read_on()? {
                (self.is_done, self.pending) = (true, None);
                if let Some(batch) = self.gathered.rest() {
                    return batch.map(Some).map_err(|error| not_built(&error));
                }
            }
        }
    }

    /// Reads a little more of the range; false at the end of the last one.
    fn read_on(&mut self) -> Result<bool> {
        let Some(range) = self.ranges.get(self.next_range) else { return Ok(false) };
        match &range.part {
            Part::Log => self.read_log()?,
            Part::Pending(_) => self.read_schedule()?,
            Part::Ready(_) => self.read_ready()?,
            Part::Deliveries(_) => self.read_deliveries()?,
            Part::Files(_) => self.read_file()?,
        }
        self.tell_damage()
    }

    /// Some more of what is pending.
    fn read_schedule(&mut self) -> Result<()> {
        let Self { ranges, choice, gathered, .. } = self;
        let Some(range) = ranges.get(self.next_range) else { return Ok(()) };
        let Part::Pending(part) = &range.part else { return Ok(()) };
        if !std::mem::replace(&mut self.is_in_range, true) {
            // Made anew only for ranges of another snapshot.
            let is_same = self.pending.as_mut().map(|reader| reader.turns_to(range, part)).transpose()?;
            if is_same != Some(true) {
                self.pending = None;
                self.pending = Some(PendingReader::open(&self.storage, range, part)?);
            }
        }
        let Some(reader) = &mut self.pending else { return Ok(()) };
        if !reader.read_next(range, choice, gathered)? {
            self.is_in_range = false;
            self.next_range = self.next_range.saturating_add(1);
        }
        Ok(())
    }

    /// Some more of what became ready.
    fn read_ready(&mut self) -> Result<()> {
        let Self { ranges, choice, gathered, storage, .. } = self;
        let Some(range) = ranges.get(self.next_range) else { return Ok(()) };
        let Part::Ready(part) = &range.part else { return Ok(()) };
        let reader = match &mut self.ready {
            Some(reader) => reader,
            none => {
                let owner = state_for(&mut self.state, storage, range, part.replay)?;
                none.insert(ReadyReader::open(owner, storage, range, part, choice, gathered)?)
            }
        };
        if !reader.read_next(storage, range, part, gathered)? {
            self.state = self.ready.take().map(|reader| (part.replay, reader.into_owner()));
            self.next_range = self.next_range.saturating_add(1);
        }
        Ok(())
    }

    /// Some more of the log for what became of messages, or some of them.
    fn read_deliveries(&mut self) -> Result<()> {
        let Self { ranges, choice, gathered, storage, .. } = self;
        let Some(range) = ranges.get(self.next_range) else { return Ok(()) };
        let Part::Deliveries(part) = &range.part else { return Ok(()) };
        let reader = match &mut self.deliveries {
            Some(reader) => reader,
            none => {
                let owner = state_for(&mut self.state, storage, range, part.replay)?;
                none.insert(DeliveriesReader::open(owner, range, part, choice, gathered)?)
            }
        };
        if !reader.read_next(storage, range, part, gathered)? {
            self.state = self.deliveries.take().map(|reader| (part.replay, reader.into_owner()));
            self.next_range = self.next_range.saturating_add(1);
        }
        Ok(())
    }

    /// One more file.
    fn read_file(&mut self) -> Result<()> {
        let Some(range) = self.ranges.get(self.next_range) else { return Ok(()) };
        let Part::Files(files) = &range.part else { return Ok(()) };
        let Some(file) = files.get(self.next_piece) else {
            (self.next_range, self.next_piece) = (self.next_range.saturating_add(1), 0);
            return Ok(());
        };
        self.next_piece = self.next_piece.saturating_add(1);
        show_file(&self.storage, &range.stream, file, &mut self.gathered)
    }

    /// Some more of what was loaded by the fact that was read last.
    fn read_load(&mut self) -> Result<()> {
        let Self { ranges, choice, gathered, storage, .. } = self;
        let Some(range) = ranges.get(self.next_range) else { return Ok(()) };
        let mut reader = if let Some(reader) = self.load.take() {
            reader
        } else {
            let Some((load, epoch)) = self.loads.pop_front() else { return Ok(()) };
            match LoadReader::open(storage, range, &load, epoch) {
                Ok(reader) => reader,
                Err(error @ (Error::Storage { .. } | Error::NewerFormat { .. })) => return Err(error),
                Err(error) => {
                    gathered.damage(error);
                    return Ok(());
                }
            }
        };
        if reader.read_next(range, choice, gathered)? {
            self.load = Some(reader);
        }
        Ok(())
    }

    /// One more batch of the log.
    fn read_log(&mut self) -> Result<()> {
        if self.load.is_some() || !self.loads.is_empty() {
            return self.read_load();
        }
        let Self { ranges, choice, gathered, .. } = self;
        let Some(range) = ranges.get(self.next_range) else { return Ok(()) };
        let Some(piece) = range.pieces.get(self.next_piece) else {
            (self.next_range, self.next_piece) = (self.next_range.saturating_add(1), 0);
            return Ok(());
        };
        let new = || (PieceReader::new(&self.storage, range.stream, *piece), segment_path(piece.segment));
        let (reader, path) = self.reader.get_or_insert_with(new);
        let is_more = if range.table == Table::Action {
            let rows = ActionRows::new(range, path);
            reader.read_next(&mut |find| rows.take(find, gathered))?
        } else {
            let mut rows = MessageRows::new(&range.filter, &range.names, choice, path);
            let is_more = reader.read_next(&mut |find| rows.take(find, gathered))?;
            let adopted = std::mem::take(&mut rows.adopted);
            for (sequences, epoch) in adopted {
                let its = range.loads.iter().filter(|load| sequences.contains(&load.base));
                self.loads.extend(its.map(|load| (*load, epoch)));
            }
            is_more
        };
        if !is_more {
            self.reader = None;
            self.next_piece = self.next_piece.saturating_add(1);
        }
        Ok(())
    }

    /// Ends the reading at the first damage, or lists it.
    fn tell_damage(&mut self) -> Result<bool> {
        let elsewhere = std::mem::take(&mut self.gathered.elsewhere);
        match self.on_damage {
            OnDamage::Raise => {
                let first = std::mem::take(&mut self.gathered.damages).into_iter().chain(elsewhere).next();
                first.map_or(Ok(true), Err)
            }
            OnDamage::Report if self.gathered.damages.is_empty() => Ok(true),
            OnDamage::Report => {
                let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
                told.damages.append(&mut self.gathered.damages);
                Ok(true)
            }
        }
    }
}

/// The state that a range is judged by: that of the range before, or made again.
fn state_for(
    known: &mut Option<(Replay, Owner)>,
    storage: &Arc<dyn Storage>,
    range: &Range,
    replay: Replay,
) -> Result<Owner> {
    match known.take() {
        Some((of, owner)) if of == replay => Ok(owner),
        _ => state_at(storage, range.stream, replay.checkpoint, replay.end),
    }
}

/// Arrow refuses a batch only by a defect here; it is reported as such.
fn not_built(error: &ArrowError) -> Error {
    refused("columns", "columns that make a record batch", &error.to_string())
}

impl Iterator for Reading {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for Reading {
    fn schema(&self) -> SchemaRef {
        self.gathered.schema()
    }
}
