//! Commands for operators: GROUPS (221), SUBJECTS (222), `START_GROUP` (223), `RESET_GROUP` (224), `REMOVE_GROUP`
//! (225), REDRIVE (227), EXPIRE (228).
//!
//! | command | its body | its answer |
//! |---|---|---|
//! | GROUPS, SUBJECTS | `after u64 | count_max u32` | `next u64 | count u32 | row*` |
//! | `START_GROUP`, `RESET_GROUP` | `str subject | str group | start u8` | nothing |
//! | `REMOVE_GROUP` | `str subject | str group` | nothing |
//! | REDRIVE | `str subject | str group | count_max u64` | `moved u64` |
//! | EXPIRE | `str subject | older_than_ms u64` | `expired u64` |
//!
//! Lists come in pieces. The first request has `after` 0, each further one has the `next` of the last answer. A
//! `next` of 0 means that there are no more pieces. A `start` is as in [`super::start`].
//!
//! | bytes | field of a group |
//! |---|---|
//! | 4 | `number` |
//! | str each | `name`, `subject` |
//! | 8 each | `start`, `cursor`, `next_number`, `lag`, `in_flight`, `consumers`, `dead_letters` |
//!
//! | bytes | field of a subject |
//! |---|---|
//! | 4 | `number` |
//! | str | `name` |
//! | 8 each | `ready`, `next_number`, `expired`, `expired_before_ms` (0 for never) |
//! | 4, then str each | names of its groups |

use bytes::BufMut;

use super::start::{put_start, read_start};
use crate::error::Result;
use crate::store::StartAt;
use crate::store::{GroupListed, SubjectListed};
use crate::units::{GroupNumber, Millis, ReadyNumber, SubjectNumber};
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The most rows of one piece of a list.
pub const ROWS_MAX: usize = 10_000;
/// Bytes of a group without its names.
const GROUP_BYTES: usize = 64;
/// Bytes of a subject without its names.
const SUBJECT_BYTES: usize = 42;
/// The most groups that the row of a subject names.
const NAMES_MAX: usize = 1 << 20;

/// A request for a piece of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The end of the piece before; 0 for the first piece.
    pub after: u64,
    /// The most rows to return.
    pub count_max: u32,
}

impl Listing {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'_>) -> Read<Self> {
        let (after, count_max) = (reader.u64("after")?, reader.u32("count_max")?);
        let expected = "1 to 10000";
        if !(1..=ROWS_MAX).contains(&(count_max as usize)) {
            return Err(Malformed::Value { field: "count_max", expected, found: i64::from(count_max) });
        }
        Ok(Self { after, count_max })
    }

    /// Appends the request.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.after);
        out.put_u32(self.count_max);
    }
}

/// A piece of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed<T> {
    /// The start of the next piece; 0 if there is none.
    pub next: u64,
    /// The rows.
    pub rows: Vec<T>,
}

impl<T> Listed<T> {
    pub(super) fn read_with(body: &[u8], bytes_each: usize, read: impl Fn(&mut Reader<'_>) -> Read<T>) -> Read<Self> {
        let mut reader = Reader::new(body);
        let next = reader.u64("next")?;
        let count = reader.count("rows", ROWS_MAX, bytes_each)?;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            rows.push(read(&mut reader)?);
        }
        reader.finish("rows").map(|()| Self { next, rows })
    }

    pub(super) fn put_with(&self, out: &mut Vec<u8>, put: impl Fn(&mut Vec<u8>, &T) -> Result<()>) -> Result<()> {
        out.put_u64(self.next);
        put_count(out, "rows", ROWS_MAX, self.rows.len())?;
        self.rows.iter().try_for_each(|row| put(out, row))
    }
}

impl Listed<GroupListed> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        Self::read_with(body, GROUP_BYTES, |reader| {
            Ok(GroupListed {
                number: GroupNumber(reader.u32("number")?),
                name: reader.text("name")?.to_owned(),
                subject: reader.text("subject")?.to_owned(),
                start: ReadyNumber(reader.u64("start")?),
                cursor: ReadyNumber(reader.u64("cursor")?),
                next_number: ReadyNumber(reader.u64("next_number")?),
                lag: reader.u64("lag")?,
                in_flight: reader.u64("in_flight")?,
                consumers: reader.u64("consumers")?,
                dead_letters: reader.u64("dead_letters")?,
            })
        })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.put_with(out, |out, group| {
            out.put_u32(group.number.0);
            put_text(out, "name", &group.name)?;
            put_text(out, "subject", &group.subject)?;
            let places = [group.start, group.cursor, group.next_number].map(|number| number.0);
            let counts = [group.lag, group.in_flight, group.consumers, group.dead_letters];
            for number in places.into_iter().chain(counts) {
                out.put_u64(number);
            }
            Ok(())
        })
    }
}

impl Listed<SubjectListed> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &[u8]) -> Read<Self> {
        Self::read_with(body, SUBJECT_BYTES, |reader| {
            let mut subject = SubjectListed {
                number: SubjectNumber(reader.u32("number")?),
                name: reader.text("name")?.to_owned(),
                ready: reader.u64("ready")?,
                next_number: ReadyNumber(reader.u64("next_number")?),
                groups: Vec::new(),
                expired: reader.u64("expired")?,
                expired_before: Millis(reader.u64("expired_before_ms")?),
            };
            let count = reader.count("groups", NAMES_MAX, 2)?;
            for _ in 0..count {
                subject.groups.push(reader.text("groups")?.to_owned());
            }
            Ok(subject)
        })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.put_with(out, |out, subject| {
            out.put_u32(subject.number.0);
            put_text(out, "name", &subject.name)?;
            out.put_u64(subject.ready);
            out.put_u64(subject.next_number.0);
            out.put_u64(subject.expired);
            out.put_u64(subject.expired_before.0);
            put_count(out, "groups", NAMES_MAX, subject.groups.len())?;
            subject.groups.iter().try_for_each(|group| put_text(out, "groups", group))
        })
    }
}

/// A group of a subject, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupName<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
}

impl<'a> GroupName<'a> {
    /// Reads the two names.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, group: reader.text("group")? })
    }

    /// Appends the two names.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "subject", self.subject)?;
        put_text(out, "group", self.group)
    }
}

/// A group, and its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupAt<'a> {
    /// The group.
    pub name: GroupName<'a>,
    /// Its start.
    pub start: StartAt,
}

impl<'a> GroupAt<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { name: GroupName::read(reader)?, start: read_start(reader)? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.name.put(out)?;
        put_start(out, self.start);
        Ok(())
    }
}

/// A request to redrive dead letters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redrive<'a> {
    /// The group.
    pub name: GroupName<'a>,
    /// The most dead letters to redrive.
    pub count_max: u64,
}

impl<'a> Redrive<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { name: GroupName::read(reader)?, count_max: reader.u64("count_max")? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        self.name.put(out)?;
        out.put_u64(self.count_max);
        Ok(())
    }
}

/// A request to expire ready messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expire<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The shortest time since they were due, in milliseconds.
    pub older_than_ms: u64,
}

impl<'a> Expire<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, older_than_ms: reader.u64("older_than_ms")? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `subject`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "subject", self.subject)?;
        out.put_u64(self.older_than_ms);
        Ok(())
    }
}

/// Reads the answer to REDRIVE, EXPIRE, `END_CONSUMER` or `ACCEPT_CLOCK`.
///
/// # Errors
/// `Malformed` naming `count`.
pub fn read_number(body: &[u8]) -> Read<u64> {
    let mut reader = Reader::new(body);
    let number = reader.u64("count")?;
    reader.finish("count").map(|()| number)
}
