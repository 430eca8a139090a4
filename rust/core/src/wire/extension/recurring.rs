//! Recurring messages: `RECUR` (216), `END_RECURRING` (217), `RECURRING` (245).
//!
//! `RECUR`:
//!
//! | bytes | field of the request |
//! |---|---|
//! | str | `subject` |
//! | str | `name` |
//! | 8 | `every_ms`: the interval; 0 if there is a pattern |
//! | str | `cron`: the pattern; empty if there is an interval |
//! | str | `zone` |
//! | 8 | `start_ms`; 2^64-1 for none |
//! | 1 | `catch_up`: 0 one, 1 skip, 2 all |
//! | 1 | `if_exists`: 0 replace, 1 keep, 2 refuse |
//! | blob | `meta` of each message, as PUBLISH (202) has it |
//! | blob | `body` of each message |
//! | 1 | `on_expiry`: 0 the messages do not expire, 1 drop, 2 dead letter |
//! | 8 | `expires_after_ms`, only if they expire |
//!
//! The answer is that of `RECURRING`, with the one series.
//!
//! `END_RECURRING` is `subject str | name str`. Its answer is the number of series that ended: `u64`, 1 or 0.
//!
//! `RECURRING` is `subject str` (empty for all) and `after u64`: it lists series with a higher number. The answer:
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `next`: the `after` of the next request; 0 if there are no more series |
//! | 4, then each | `number u64`, `subject str`, `name str`, `rule str`, `zone str`, `catch_up u8`, `on_expiry u8` and, if that is not 0, `expires_after_ms u64`, `is_pending u8` and, if that is 1, the receipt (48 bytes) of the pending message |

use bytes::BufMut;

use super::publish::read_receipt;
use crate::error::Result;
use crate::record::expire::{ExpiresAfter, OnExpiry};
use crate::record::limits::{at_most, check_name};
use crate::record::recurring::CatchUp;
use crate::record::terms::IfExists;
use crate::store::{Receipt, SERIES_BYTES_MAX};
use crate::units::Millis;
use crate::wire::fields::{put_blob, put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The most series in one answer.
pub const SERIES_TOLD_MAX: usize = 1_000;
/// The least bytes of one series.
const SERIES_BYTES: usize = 19;
/// Means that there is no start.
const NO_START: u64 = u64::MAX;

/// A request to begin a series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecurAsked<'a> {
    /// The subject of its messages.
    pub subject: &'a str,
    /// Its name in the subject.
    pub name: &'a str,
    /// The interval in milliseconds; 0 if there is a pattern.
    pub every_ms: u64,
    /// The pattern; empty if there is an interval.
    pub cron: &'a str,
    /// The zone of the pattern.
    pub zone: &'a str,
    /// No occurrence is before this time.
    pub start: Option<Millis>,
    /// The policy for missed occurrences.
    pub catch_up: CatchUp,
    /// The behaviour if the subject has a series of this name.
    pub if_exists: IfExists,
    /// Message id, tags and attributes of each message.
    pub meta: &'a [u8],
    /// The body of each message.
    pub body: &'a [u8],
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
}

impl<'a> RecurAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        let (subject, name, every_ms) = (reader.text("subject")?, reader.text("name")?, reader.u64("every")?);
        let (cron, zone, start) = (reader.text("cron")?, reader.text("zone")?, reader.u64("start")?);
        let catch_up = read_catch_up(reader)?;
        let if_exists = match reader.u8("if_exists")? {
            0 => IfExists::Replace,
            1 => IfExists::Keep,
            2 => IfExists::Refuse,
            found => {
                return Err(Malformed::Value { field: "if_exists", expected: "0, 1 or 2", found: i64::from(found) });
            }
        };
        let start = (start != NO_START).then_some(Millis(start));
        let (meta, body) = (reader.blob("meta", SERIES_BYTES_MAX)?, reader.blob("body", SERIES_BYTES_MAX)?);
        let expires_after = read_expires_after(reader)?;
        Ok(Self { subject, name, every_ms, cron, zone, start, catch_up, if_exists, meta, body, expires_after })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `name`; `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        check_name("subject", self.subject)?;
        check_name("name", self.name)?;
        at_most("body", SERIES_BYTES_MAX, self.meta.len().saturating_add(self.body.len()))?;
        put_text(out, "subject", self.subject)?;
        put_text(out, "name", self.name)?;
        out.put_u64(self.every_ms);
        put_text(out, "cron", self.cron)?;
        put_text(out, "zone", self.zone)?;
        out.put_u64(self.start.map_or(NO_START, |start| start.0));
        out.put_u8(self.catch_up as u8);
        out.put_u8(self.if_exists as u8);
        put_blob(out, "meta", SERIES_BYTES_MAX, self.meta)?;
        put_blob(out, "body", SERIES_BYTES_MAX, self.body)?;
        put_expires_after(out, self.expires_after);
        Ok(())
    }
}

fn read_expires_after(reader: &mut Reader<'_>) -> Read<Option<ExpiresAfter>> {
    let number = reader.u8("on_expiry")?;
    if number == 0 {
        return Ok(None);
    }
    let unknown = || Malformed::Value { field: "on_expiry", expected: "0, 1 or 2", found: i64::from(number) };
    let then = OnExpiry::numbered(number).ok_or_else(unknown)?;
    Ok(Some(ExpiresAfter { after_ms: reader.u64("expires_after")?, then }))
}

fn put_expires_after(out: &mut Vec<u8>, expires_after: Option<ExpiresAfter>) {
    out.put_u8(expires_after.map_or(0, |expires| expires.then.number()));
    if let Some(expires) = expires_after {
        out.put_u64(expires.after_ms);
    }
}

fn read_catch_up(reader: &mut Reader<'_>) -> Read<CatchUp> {
    let number = reader.u8("catch_up")?;
    let unknown = || Malformed::Value { field: "catch_up", expected: "0, 1 or 2", found: i64::from(number) };
    CatchUp::numbered(u32::from(number)).ok_or_else(unknown)
}

/// A series by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeriesName<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The name.
    pub name: &'a str,
}

impl<'a> SeriesName<'a> {
    /// Reads it.
    ///
    /// # Errors
    /// `Malformed` naming `subject` or `name`.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, name: reader.text("name")? })
    }

    /// Appends it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `name`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        check_name("subject", self.subject)?;
        check_name("name", self.name)?;
        put_text(out, "subject", self.subject)?;
        put_text(out, "name", self.name)
    }
}

/// A request for a piece of the list of series.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeriesAsked<'a> {
    /// The subject; empty for all subjects.
    pub subject: &'a str,
    /// The list begins after this number.
    pub after: u64,
}

impl<'a> SeriesAsked<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, after: reader.u64("after")? })
    }

    /// Appends the request.
    ///
    /// # Errors
    /// `TooLarge` naming `subject`.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "subject", self.subject)?;
        out.put_u64(self.after);
        Ok(())
    }
}

/// A series in an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeriesRow<'a> {
    /// Its number.
    pub number: u64,
    /// Its subject.
    pub subject: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its rule.
    pub rule: &'a str,
    /// The zone of the rule.
    pub zone: &'a str,
    /// The policy for missed occurrences.
    pub catch_up: CatchUp,
    /// When each message expires, if it does.
    pub expires_after: Option<ExpiresAfter>,
    /// Its pending message.
    pub pending: Option<Receipt>,
}

/// A piece of the list of series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeriesTold<'a> {
    /// The `after` of the next request; 0 if there are no more series.
    pub next: u64,
    /// The series, by number.
    pub rows: Vec<SeriesRow<'a>>,
}

impl<'a> SeriesTold<'a> {
    /// Reads an answer.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(body: &'a [u8]) -> Read<Self> {
        let reader = &mut Reader::new(body);
        let next = reader.u64("next")?;
        let count = reader.count("series", SERIES_TOLD_MAX, SERIES_BYTES)?;
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let (number, subject, name) = (reader.u64("number")?, reader.text("subject")?, reader.text("name")?);
            let (rule, zone, catch_up) = (reader.text("rule")?, reader.text("zone")?, read_catch_up(reader)?);
            let expires_after = read_expires_after(reader)?;
            let pending = if reader.flag("is_pending")? { Some(read_receipt(reader, "receipt")?) } else { None };
            rows.push(SeriesRow { number, subject, name, rule, zone, catch_up, expires_after, pending });
        }
        reader.finish("series").map(|()| Self { next, rows })
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_u64(self.next);
        put_count(out, "series", SERIES_TOLD_MAX, self.rows.len())?;
        for row in &self.rows {
            out.put_u64(row.number);
            put_text(out, "subject", row.subject)?;
            put_text(out, "name", row.name)?;
            put_text(out, "rule", row.rule)?;
            put_text(out, "zone", row.zone)?;
            out.put_u8(row.catch_up as u8);
            put_expires_after(out, row.expires_after);
            out.put_u8(u8::from(row.pending.is_some()));
            if let Some(receipt) = row.pending {
                out.put_slice(&receipt.to_bytes());
            }
        }
        Ok(())
    }
}
