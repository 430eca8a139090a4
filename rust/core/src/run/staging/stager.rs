//! Writes staged runs: rows come in any order, and each file is sorted.

use std::collections::HashMap;
use std::sync::Arc;

use super::{LoadName, STAGED_NAMES_MAX, STAGED_RECORD_BYTES_MAX, STAGED_ROWS_MAX, StagedRun};
use crate::error::{Error, Result};
use crate::planted::{Planted, is_on};
use crate::record::expire::Expiry;
use crate::record::limits::{check_body, check_meta, check_name};
use crate::record::message::{Message, encode_message};
use crate::record::seal_record;
use crate::run::footer::Footer;
use crate::run::{Run, RunWriter, ScheduleRow};
use crate::storage::Storage;
use crate::units::{DueKey, Location, Millis, RunNumber, Sequence, SubjectNumber, padded};

/// A message to be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedMessage<'a> {
    /// Its due time.
    pub due: Millis,
    /// Its subject.
    pub subject: &'a str,
    /// Its id, tags and attributes, encoded as in an opaque message. Empty if it has none.
    pub meta: &'a [u8],
    /// Its body.
    pub body: &'a [u8],
    /// When it expires, if it does.
    pub expiry: Option<Expiry>,
}

/// The limits of a row and of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagingLimits {
    /// The latest due time of a message.
    pub due_max: Millis,
    /// The most rows of a file.
    pub rows_max: u32,
    /// The most subject names of a file.
    pub names_max: u32,
    /// The most bytes of the records of a file.
    pub record_bytes_max: u32,
}

impl StagingLimits {
    /// The greatest limits of a file.
    pub fn until(due_max: Millis) -> Self {
        Self {
            due_max,
            rows_max: STAGED_ROWS_MAX,
            names_max: STAGED_NAMES_MAX,
            record_bytes_max: STAGED_RECORD_BYTES_MAX,
        }
    }
}

/// A row that is not a valid message and was not taken. The caller may continue without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowRefused {
    /// The number of rows given before it, refused ones included.
    pub row: u64,
    /// `InvalidArgument` or `TooLarge`, with the column as the argument.
    pub error: Error,
}

/// A row in memory.
#[derive(Clone, Copy)]
struct Held {
    due: Millis,
    /// The offset of its record among the records of the file.
    offset: u32,
    length: u32,
    subject: SubjectNumber,
    size: u32,
}

/// The storage for the files: borrowed to stage a few rows, or shared with a stager that is kept for long.
enum Place<'a> {
    Lent(&'a dyn Storage),
    Shared(Arc<dyn Storage>),
}

impl Place<'_> {
    fn storage(&self) -> &dyn Storage {
        match self {
            Self::Lent(storage) => *storage,
            Self::Shared(storage) => storage.as_ref(),
        }
    }
}

/// Takes rows in any order and writes them as staged runs.
///
/// Written files are whole and durable. Rows that are held in memory are lost without [`Self::finish`].
pub struct Stager<'a> {
    place: Place<'a>,
    next_name: Box<dyn FnMut() -> LoadName + Send + 'a>,
    limits: StagingLimits,
    records: Vec<u8>,
    rows: Vec<Held>,
    names: Vec<String>,
    places: HashMap<String, SubjectNumber>,
    /// The subject of the last row: neighbouring rows are mostly of one subject.
    last: SubjectNumber,
    written: Vec<StagedRun>,
    given: u64,
}

impl Stager<'static> {
    /// Like [`Self::new`], with a shared storage.
    pub fn sharing(
        storage: Arc<dyn Storage>,
        limits: StagingLimits,
        next_name: impl FnMut() -> LoadName + Send + 'static,
    ) -> Self {
        Self::at(Place::Shared(storage), limits, Box::new(next_name))
    }
}

impl<'a> Stager<'a> {
    /// Makes a stager that has written nothing. `next_name` gives each file a unique name. Limits above those
    /// of [`StagingLimits::until`] are lowered to them.
    pub fn new(
        storage: &'a dyn Storage,
        limits: StagingLimits,
        next_name: impl FnMut() -> LoadName + Send + 'a,
    ) -> Self {
        Self::at(Place::Lent(storage), limits, Box::new(next_name))
    }

    fn at(place: Place<'a>, limits: StagingLimits, next_name: Box<dyn FnMut() -> LoadName + Send + 'a>) -> Self {
        let limits = StagingLimits {
            due_max: limits.due_max,
            rows_max: limits.rows_max.clamp(1, STAGED_ROWS_MAX),
            names_max: limits.names_max.clamp(1, STAGED_NAMES_MAX),
            record_bytes_max: limits.record_bytes_max.min(STAGED_RECORD_BYTES_MAX),
        };
        Self {
            place,
            next_name,
            limits,
            records: Vec::new(),
            rows: Vec::new(),
            names: Vec::new(),
            places: HashMap::new(),
            last: SubjectNumber(0),
            written: Vec::new(),
            given: 0,
        }
    }

    /// Takes a row, or returns why it is refused.
    ///
    /// # Errors
    /// Those of the storage, if a file had to be written first. Then the row was not taken, no row taken
    /// before is lost, and the row may be given again.
    pub fn push(&mut self, message: &StagedMessage<'_>) -> Result<std::result::Result<(), RowRefused>> {
        if let Err(error) = check_message(message).and_then(|()| check_due(message.due, self.limits.due_max)) {
            let row = self.given;
            self.given = row.saturating_add(1);
            return Ok(Err(RowRefused { row, error }));
        }
        if !self.has_room_for(message) {
            self.write()?;
        }
        self.given = self.given.saturating_add(1);
        self.take(message);
        Ok(Ok(()))
    }

    /// Writes the rows in memory, and returns all files that were written.
    ///
    /// # Errors
    /// Those of the storage. The call may be repeated.
    pub fn finish(&mut self) -> Result<Vec<StagedRun>> {
        self.write()?;
        Ok(std::mem::take(&mut self.written))
    }

    /// Removes the written files, and drops all rows.
    ///
    /// # Errors
    /// Those of the storage. Files that are left are garbage, and are removed by their age.
    pub fn abandon(mut self) -> Result<()> {
        for run in std::mem::take(&mut self.written) {
            self.place.storage().remove(&run.name.path())?;
        }
        Ok(())
    }

    fn has_room_for(&self, message: &StagedMessage<'_>) -> bool {
        // Every record is shorter than this, whatever its kind.
        let longest = message.meta.len().saturating_add(message.body.len()).saturating_add(64);
        let is_known = self.is_last(message.subject) || self.places.contains_key(message.subject);
        self.rows.is_empty()
            || (self.rows.len() < self.limits.rows_max as usize
                && (is_known || self.names.len() < self.limits.names_max as usize)
                && self.records.len().saturating_add(longest) <= self.limits.record_bytes_max as usize)
    }

    fn is_last(&self, subject: &str) -> bool {
        let place = (self.last.0 as usize).checked_sub(1);
        place.and_then(|place| self.names.get(place)).is_some_and(|name| name == subject)
    }

    fn place_of(&mut self, subject: &str) -> SubjectNumber {
        if self.is_last(subject) {
            return self.last;
        }
        let next = SubjectNumber(u32::try_from(self.names.len()).unwrap_or(u32::MAX)).next();
        self.last = if let Some(place) = self.places.get(subject) {
            *place
        } else {
            self.names.push(subject.to_owned());
            self.places.insert(subject.to_owned(), next);
            next
        };
        self.last
    }

    fn take(&mut self, message: &StagedMessage<'_>) {
        let subject = self.place_of(message.subject);
        let offset = self.records.len();
        encode_message(
            &mut self.records,
            &Message {
                due: message.due,
                published: Millis(0),
                subject,
                opaque: true,
                expiry: message.expiry,
                meta: message.meta,
                body: message.body,
            },
        );
        // The limits of a file and of a record keep all of these below 2^32.
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let length = self.records.get(offset..).and_then(|record| record.first_chunk::<4>());
        self.rows.push(Held {
            due: message.due,
            offset: number(offset),
            length: length.map_or(0, |bytes| u32::from_le_bytes(*bytes)),
            subject,
            size: number(message.body.len()),
        });
    }

    /// Writes the rows in memory as one staged run, if there are any.
    fn write(&mut self) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        // Records are in the order in which rows came.
        self.rows.sort_unstable_by_key(|held| (held.due, held.offset));
        let name = (self.next_name)();
        let run = self.write_as(&name).inspect_err(|_| {
            // It is tried again under another name. If the removal also fails, the files are removed by their
            // age.
            for path in [format!("{}.tmp", name.path()), name.path()] {
                drop(self.place.storage().remove(&path));
            }
        })?;
        self.written.push(StagedRun { name, length: run.length(), digest: run.digest(), rows: run.row_count() });
        self.records.clear();
        self.rows.clear();
        self.names.clear();
        self.places.clear();
        self.last = SubjectNumber(0);
        Ok(())
    }

    fn write_as(&self, name: &LoadName) -> Result<Run> {
        let mut writer = RunWriter::create_staged(self.place.storage(), name, self.rows.len() as u64)?;
        self.write_into(&mut writer)?;
        writer.finish_staged(self.place.storage(), name, self.names.clone())
    }

    fn write_into(&self, writer: &mut RunWriter<ScheduleRow>) -> Result<()> {
        let mut record = Vec::new();
        for (held, sequence) in self.rows.iter().zip(0..) {
            let start = held.offset as usize;
            let end = start.saturating_add(padded(held.length as usize));
            record.clear();
            record.extend_from_slice(self.records.get(start..end).unwrap_or_default());
            seal_record(&mut record, Sequence(sequence));
            writer.push_payload(&record)?.ok_or_else(|| too_far(held))?;
        }
        let mut offset = Footer::payload_start_of(self.rows.len() as u64);
        for (held, sequence) in self.rows.iter().zip(0..) {
            writer.push_row(&ScheduleRow {
                key: DueKey { due: held.due, sequence: Sequence(sequence) },
                payload_sequence: Sequence(sequence),
                location: Location::in_run(RunNumber(0), u32::try_from(offset).map_err(|_| too_far(held))?),
                subject: held.subject,
                attempt: 1,
                length: held.length,
                size: Some(held.size),
            })?;
            offset = offset.saturating_add(padded(held.length as usize) as u64);
        }
        if is_on(Planted::StagedUnsynced) { Ok(()) } else { writer.sync() }
    }
}

fn too_far(held: &Held) -> Error {
    Error::TooLarge { argument: "records", limit: u64::from(u32::MAX), found: u64::from(held.offset) }
}

/// Checks a message to be loaded. Staging and verification use the same check.
pub(super) fn check_message(message: &StagedMessage<'_>) -> Result<()> {
    check_name("subject", message.subject)?;
    check_body(message.body.len())?;
    check_meta(message.meta)?;
    message.expiry.map_or(Ok(()), |expiry| expiry.check(message.due))
}

/// Checks that a message is not due later than `due_max`.
fn check_due(due: Millis, due_max: Millis) -> Result<()> {
    if due <= due_max {
        return Ok(());
    }
    let (expected, found) = (format!("at most {due_max} ms since 1970"), due.to_string());
    Err(Error::InvalidArgument { argument: "due", expected, found })
}
