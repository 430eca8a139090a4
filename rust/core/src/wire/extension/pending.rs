//! The pending messages: `LOOK_UP` (240), PENDING (241), `PENDING_COUNTS` (242).
//!
//! | command | its body | its answer |
//! |---|---|---|
//! | `LOOK_UP` | receipts, as CANCEL | `count u32 | (fate u8 | str subject)*` |
//! | PENDING | subjects, `due_from_ms u64 | due_before_ms u64 | str after | count_max u32` | a page |
//! | `PENDING_COUNTS` | subjects, `str after | count_max u32` | `str next | count u32 | (str subject | pending u64)*` |
//!
//! The subjects are `kind u8 | str text`: kind 0 all subjects of users, 1 the subject of this name, 2 the subjects
//! whose names begin with the text. A `due_before_ms` of 2^64-1 means no limit. `after` is the cursor at the end of
//! the last page, or the `next` of the last piece of the counts, and empty for the beginning; an empty `next` means
//! that there are no more counts. A fate is 0 pending, 1 dispatched, 2 cancelled, 3 not found.
//!
//! | bytes | field of a page |
//! |---|---|
//! | str | `after`: the cursor at its end |
//! | 1 | `is_done`: 1 at the end of the list; with 0 more may follow, even after a page without rows |
//! | 4, then str each | subjects of the rows |
//! | 4, then each | rows: `subject u16` (place among those, from 0), `attempt u16`, `published u64`, receipt of 48 bytes |
//! | 4, then each | damaged blocks: `str path`, `block u32`, `rows u64`, `blob reason` |

use std::collections::HashMap;

use bytes::BufMut;

use super::administration::ROWS_MAX;
use crate::error::Result;
use crate::record::limits::at_most;
use crate::store::{PendingOf, RECEIPT_BYTES, Receipt};
use crate::units::{Millis, Sequence};
use crate::wire::fields::{put_blob, put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::{Reader, utf8};

/// Bytes of a row of a page.
const ROW_BYTES: usize = 12 + RECEIPT_BYTES;
/// Bytes of a damaged block without its texts.
const BLOCK_BYTES: usize = 18;
/// The most bytes of a reason.
const REASON_BYTES_MAX: usize = 4_096;
/// The most damaged blocks that one page names.
pub const HIDDEN_MAX: usize = 1_000;
/// Means that there is no limit.
const NO_BOUND: u64 = u64::MAX;

fn put_of(out: &mut Vec<u8>, of: &PendingOf) -> Result<()> {
    let (kind, text) = match of {
        PendingOf::Users => (0, ""),
        PendingOf::Subject(subject) => (1, subject.as_str()),
        PendingOf::Prefix(prefix) => (2, prefix.as_str()),
    };
    out.put_u8(kind);
    put_text(out, "subject", text)
}

fn read_of(reader: &mut Reader<'_>) -> Read<PendingOf> {
    let (kind, text) = (reader.u8("kind")?, reader.text("subject")?);
    match kind {
        0 if text.is_empty() => Ok(PendingOf::Users),
        1 => Ok(PendingOf::Subject(text.to_owned())),
        2 => Ok(PendingOf::Prefix(text.to_owned())),
        found => {
            let expected = "0 without a text, 1 or 2";
            Err(Malformed::Value { field: "kind", expected, found: i64::from(found) })
        }
    }
}

fn read_count_max(reader: &mut Reader<'_>) -> Read<u32> {
    let count_max = reader.u32("count_max")?;
    if (1..=ROWS_MAX).contains(&(count_max as usize)) {
        return Ok(count_max);
    }
    Err(Malformed::Value { field: "count_max", expected: "1 to 10000", found: i64::from(count_max) })
}

/// A request for a page of the pending messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingAsked<'a> {
    /// The subjects.
    pub of: PendingOf,
    /// Due at this time or later.
    pub due_from: Millis,
    /// Due before this time.
    pub due_before: Option<Millis>,
    /// The text of the cursor after which the page begins; empty for the first page.
    pub after: &'a str,
    /// The most rows to return.
    pub count_max: u32,
}

impl<'a> PendingAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let of = read_of(reader)?;
        let (due_from, due_before) = (Millis(reader.u64("due_from")?), reader.u64("due_before")?);
        let due_before = (due_before != NO_BOUND).then_some(Millis(due_before));
        Ok(Self { of, due_from, due_before, after: reader.text("after")?, count_max: read_count_max(reader)? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_of(out, &self.of)?;
        out.put_u64(self.due_from.0);
        out.put_u64(self.due_before.map_or(NO_BOUND, |due| due.0));
        put_text(out, "after", self.after)?;
        out.put_u32(self.count_max);
        Ok(())
    }
}

/// A request for a piece of the counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountsAsked<'a> {
    /// The subjects.
    pub of: PendingOf,
    /// The subject after which the piece begins; empty for the first piece.
    pub after: &'a str,
    /// The most rows to return.
    pub count_max: u32,
}

impl<'a> CountsAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { of: read_of(reader)?, after: reader.text("after")?, count_max: read_count_max(reader)? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_of(out, &self.of)?;
        put_text(out, "after", self.after)?;
        out.put_u32(self.count_max);
        Ok(())
    }
}

/// A pending message on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingRow<'a> {
    /// Its subject.
    pub subject: &'a str,
    /// The number of its next delivery.
    pub attempt: u16,
    /// The sequence that the message was published under.
    pub published: Sequence,
    /// Its receipt.
    pub receipt: Receipt,
}

/// An unreadable block of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HiddenRow<'a> {
    /// The file, in the folder of the store.
    pub path: &'a str,
    /// The block's number in it.
    pub block: u32,
    /// Its number of entries.
    pub rows: u64,
    /// The reason.
    pub reason: &'a str,
}

/// A page of the pending messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingTold<'a> {
    /// The text of the cursor at its end.
    pub after: &'a str,
    /// True at the end of the list.
    pub is_done: bool,
    /// The rows, in the order of due time and sequence.
    pub rows: Vec<PendingRow<'a>>,
    /// The unreadable blocks; a page names at most [`HIDDEN_MAX`].
    pub hidden: Vec<HiddenRow<'a>>,
}

impl<'a> PendingTold<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let (after, is_done) = (reader.text("after")?, reader.flag("is_done")?);
        let count = reader.count("subjects", ROWS_MAX, 2)?;
        let subjects = (0..count).map(|_| reader.text("subjects")).collect::<Read<Vec<&str>>>()?;
        let count = reader.count("rows", ROWS_MAX, ROW_BYTES)?;
        let rows = (0..count).map(|_| read_row(&mut reader, &subjects)).collect::<Read<Vec<_>>>()?;
        let count = reader.count("hidden", HIDDEN_MAX, BLOCK_BYTES)?;
        let mut hidden = Vec::with_capacity(count);
        for _ in 0..count {
            hidden.push(HiddenRow {
                path: reader.text("path")?,
                block: reader.u32("block")?,
                rows: reader.u64("rows")?,
                reason: utf8("reason", reader.blob("reason", REASON_BYTES_MAX)?)?,
            });
        }
        reader.finish("hidden").map(|()| Self { after, is_done, rows, hidden })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "after", self.after)?;
        out.put_u8(u8::from(self.is_done));
        at_most("rows", ROWS_MAX, self.rows.len())?;
        let mut places: HashMap<&str, u16> = HashMap::new();
        let mut subjects: Vec<&str> = Vec::new();
        for row in &self.rows {
            // At most one for each row, and a page has at most 10,000 rows.
            places.entry(row.subject).or_insert_with(|| {
                subjects.push(row.subject);
                (subjects.len() - 1) as u16
            });
        }
        put_count(out, "subjects", ROWS_MAX, subjects.len())?;
        subjects.iter().try_for_each(|subject| put_text(out, "subjects", subject))?;
        put_count(out, "rows", ROWS_MAX, self.rows.len())?;
        for row in &self.rows {
            out.put_u16(places.get(row.subject).copied().unwrap_or_default());
            out.put_u16(row.attempt);
            out.put_u64(row.published.0);
            out.put_slice(&row.receipt.to_bytes());
        }
        put_count(out, "hidden", HIDDEN_MAX, self.hidden.len())?;
        for one in &self.hidden {
            put_text(out, "path", one.path)?;
            out.put_u32(one.block);
            out.put_u64(one.rows);
            put_blob(out, "reason", REASON_BYTES_MAX, one.reason.as_bytes())?;
        }
        Ok(())
    }
}

fn read_row<'a>(reader: &mut Reader<'a>, subjects: &[&'a str]) -> Read<PendingRow<'a>> {
    let place = reader.u16("subject")?;
    let (attempt, published) = (reader.u16("attempt")?, Sequence(reader.u64("published")?));
    let bytes = reader.bytes("receipt", RECEIPT_BYTES)?;
    let version = bytes.first().copied().map_or(0, i64::from);
    let expected = "a receipt of version 1";
    let wrong = Malformed::Value { field: "receipt", expected, found: version };
    let unknown = Malformed::Value { field: "subject", expected: "a place among the subjects", found: place.into() };
    Ok(PendingRow {
        subject: subjects.get(usize::from(place)).copied().ok_or(unknown)?,
        attempt,
        published,
        receipt: Receipt::from_bytes(bytes).ok_or(wrong)?,
    })
}

/// A piece of the counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountsTold<'a> {
    /// The start of the next piece; empty if there is none.
    pub next: &'a str,
    /// Subjects and their numbers of pending messages, by name.
    pub rows: Vec<(&'a str, u64)>,
}

impl<'a> CountsTold<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &'a [u8]) -> Read<Self> {
        let mut reader = Reader::new(body);
        let next = reader.text("next")?;
        let count = reader.count("rows", ROWS_MAX, 10)?;
        let rows =
            (0..count).map(|_| Ok((reader.text("subject")?, reader.u64("pending")?))).collect::<Read<Vec<_>>>()?;
        reader.finish("rows").map(|()| Self { next, rows })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "next", self.next)?;
        put_count(out, "rows", ROWS_MAX, self.rows.len())?;
        for (subject, pending) in &self.rows {
            put_text(out, "subject", subject)?;
            out.put_u64(*pending);
        }
        Ok(())
    }
}

/// The state of a message, as a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FateTold {
    /// It is not due yet.
    Pending,
    /// It became ready.
    Dispatched,
    /// It was cancelled.
    Cancelled,
    /// It is unknown, or was removed.
    NotFound,
}

/// Appends the answer to a look-up: fates and subjects, in the order of the receipts.
///
/// # Errors
/// `TooLarge` naming the field.
pub fn put_fates(out: &mut Vec<u8>, fates: &[(FateTold, &str)]) -> Result<()> {
    put_count(out, "fates", ROWS_MAX, fates.len())?;
    for (fate, subject) in fates {
        out.put_u8(match fate {
            FateTold::Pending => 0,
            FateTold::Dispatched => 1,
            FateTold::Cancelled => 2,
            FateTold::NotFound => 3,
        });
        put_text(out, "subject", subject)?;
    }
    Ok(())
}

/// Reads the answer to a look-up.
///
/// # Errors
/// `Malformed`, naming the field.
pub fn read_fates(body: &[u8]) -> Read<Vec<(FateTold, &str)>> {
    let mut reader = Reader::new(body);
    let count = reader.count("fates", ROWS_MAX, 3)?;
    let mut fates = Vec::with_capacity(count);
    for _ in 0..count {
        let fate = match reader.u8("fate")? {
            0 => FateTold::Pending,
            1 => FateTold::Dispatched,
            2 => FateTold::Cancelled,
            3 => FateTold::NotFound,
            found => return Err(Malformed::Value { field: "fate", expected: "0 to 3", found: i64::from(found) }),
        };
        fates.push((fate, reader.text("subject")?));
    }
    reader.finish("fates").map(|()| fates)
}
