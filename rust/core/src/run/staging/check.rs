//! Checks a whole staged run before it is used.

use super::stager::{StagedMessage, check_message};
use super::{StagedRun, StagedTail, header_check_of};
use crate::error::{Error, Result};
use crate::record::header::read_record;
use crate::record::message::{FLAG_DIES, FLAG_EXPIRES, FLAG_OPAQUE, KIND_MESSAGE, Message, decode_message};
use crate::run::{Run, RunHoles, ScheduleRow};
use crate::storage::{Storage, read_upto};
use crate::units::{Millis, Sequence};

/// A staged run whose bytes were all read and checked.
#[derive(Debug)]
pub struct Staged {
    /// The open run.
    pub run: Run,
    /// The due time of its first message.
    pub first_due: Millis,
    /// The due time of its last message.
    pub last_due: Millis,
}

impl Staged {
    /// The names of its subjects. Rows have places in this list, from 1.
    pub fn subjects(&self) -> &[String] {
        self.run.staged_tail().map(|tail| tail.names.as_slice()).unwrap_or_default()
    }
}

/// Checks again that a checked staged run is still there, by its footer alone.
///
/// # Errors
/// `MissingFile`, `Corrupt`, `NewerFormat`, `Storage`.
pub fn check_still_staged(storage: &dyn Storage, named: &StagedRun) -> Result<()> {
    named.check(&Run::open_staged(storage, &named.name)?)
}

/// Checks a staged run that came from another node and has not got its name yet, by its footer alone.
///
/// # Errors
/// `MissingFile`, `Corrupt`, `NewerFormat`, `Storage`.
pub(crate) fn check_received(storage: &dyn Storage, path: &str, named: &StagedRun) -> Result<()> {
    named.check(&Run::open_staged_at(storage, path, &named.name)?)
}

/// Reads every byte of a staged run and checks that it is the named one, that it is whole, and that each row
/// is a message that staging takes. The caller checks the range of due times, since this needs the time.
///
/// # Errors
/// `MissingFile`, `NewerFormat`, `Storage`; `Corrupt` with the first place that is wrong.
pub fn check_staged(storage: &dyn Storage, named: &StagedRun) -> Result<Staged> {
    let run = Run::open_staged(storage, &named.name)?;
    let path = run.file().path();
    named.check(&run)?;
    let no_tail = || Error::corrupt(path, 0, "the footer of a staged run", "another");
    let tail = run.staged_tail().ok_or_else(no_tail)?;
    let mut seen = Seen::new(tail);
    let mut first_error = None;
    let mut report = |error| {
        first_error.get_or_insert(error);
    };
    run.verify_each::<ScheduleRow>(&RunHoles::default(), &mut report, &mut |row, record| {
        seen.check(row, record)
            .map_err(|(expected, found)| Error::corrupt(path, u64::from(row.location.offset()), expected, found))
    });
    if let Some(error) = first_error {
        return Err(error);
    }
    seen.check_all(&run, tail).map_err(|(expected, found)| {
        Error::corrupt(path, run.payload_start().saturating_add(run.payload_bytes()), expected, found)
    })?;
    check_contents(&run, seen.contents, tail.contents)?;
    let (first_due, last_due) = (seen.first_due, seen.last_due);
    Ok(Staged { run, first_due, last_due })
}

/// The expected and the found value.
type Misfit = (String, String);

/// The state after the rows read so far, in their order.
struct Seen<'a> {
    names: &'a [String],
    is_used: Vec<bool>,
    rows: u64,
    contents: crc32fast::Hasher,
    first_due: Millis,
    last_due: Millis,
}

impl<'a> Seen<'a> {
    fn new(tail: &'a StagedTail) -> Self {
        Self {
            names: &tail.names,
            is_used: vec![false; tail.names.len()],
            rows: 0,
            contents: crc32fast::Hasher::new(),
            first_due: Millis(0),
            last_due: Millis(0),
        }
    }

    /// Checks the next row, with its record, which has passed its own checks.
    fn check(&mut self, row: &ScheduleRow, bytes: &[u8]) -> std::result::Result<(), Misfit> {
        let place = Sequence(self.rows);
        let found = (row.key.sequence, row.payload_sequence, row.attempt);
        if found != (place, place, 1) {
            return Err((format!("sequences {place} and attempt 1"), format!("{found:?}")));
        }
        let record = read_record(bytes, place).map_err(|fault| ("a record".to_owned(), format!("{fault:?}")))?;
        if (record.header.kind, record.header.flags & !(FLAG_EXPIRES | FLAG_DIES)) != (KIND_MESSAGE, FLAG_OPAQUE) {
            return Err(("an opaque message".to_owned(), format!("kind {}", record.header.kind)));
        }
        let message = decode_message(&record).ok_or(("a message".to_owned(), "a shorter record".to_owned()))?;
        let at = (row.subject.0 as usize).checked_sub(1);
        let named = at.and_then(|at| Some((self.names.get(at)?, self.is_used.get_mut(at)?)));
        let (subject, is_used) =
            named.ok_or_else(|| (format!("one of {} subjects", self.names.len()), row.subject.to_string()))?;
        *is_used = true;
        let expected = (row.key.due, row.subject, row.size.map(|size| size as usize), Millis(0));
        let found = (message.due, message.subject, Some(message.body.len()), message.published);
        if expected != found {
            let words = |said| format!("due, subject, bytes of body, published {said:?}");
            return Err((words(expected), words(found)));
        }
        let Message { due, meta, body, expiry, .. } = message;
        let message = StagedMessage { due, subject, meta, body, expiry };
        check_message(&message).map_err(|error| ("a message that staging takes".to_owned(), error.to_string()))?;
        self.contents.update(header_check_of(bytes));
        self.first_due = if self.rows == 0 { row.key.due } else { self.first_due };
        self.last_due = row.key.due;
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Checks that every row was shown, and that each name is used by a row and listed once.
    fn check_all(&self, run: &Run, tail: &StagedTail) -> std::result::Result<(), Misfit> {
        if self.rows != run.row_count() {
            return Err((format!("{} rows with their records", run.row_count()), self.rows.to_string()));
        }
        if let Some(place) = self.is_used.iter().position(|is_used| !is_used) {
            return Err(("names that rows have".to_owned(), format!("{:?}", tail.names.get(place))));
        }
        let mut sorted: Vec<&String> = tail.names.iter().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| matches!(pair, [left, right] if left == right)) {
            Some(pair) => Err(("each name once".to_owned(), format!("{:?} again", pair.first()))),
            None => Ok(()),
        }
    }
}

/// Checks the content: the checks of all records were added as they were read, and those of the blocks
/// follow.
fn check_contents(run: &Run, mut contents: crc32fast::Hasher, said: u32) -> Result<()> {
    for block in 0..run.block_count() {
        contents.update(&read_upto(run.file().as_ref(), Run::block_offset(block), 4)?);
    }
    let found = contents.finalize();
    if found == said {
        return Ok(());
    }
    let offset = run.payload_start().saturating_add(run.payload_bytes());
    Err(Error::corrupt(run.file().path(), offset, format!("contents {said:08x}"), format!("{found:08x}")))
}
