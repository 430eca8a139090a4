//! The columns of a batch, and its rows.

use arrow_array::{Array, RecordBatch};
use delaymq_core::error::Result;
use delaymq_core::record::expire::{Expiry, OnExpiry};
use delaymq_core::units::Millis;

use super::meta::{Attributes, MetaColumns, Tags};
use super::texts::{Bodies, Texts};
use super::times::Times;
use crate::refused;

/// The columns of a load, and their possible types.
const SUBJECT: (&str, &str) = ("subject", "string");
const DUE: (&str, &str) = ("due", "a timestamp with a zone, or a string");
const BODY: (&str, &str) = ("body", "binary or string");
const MESSAGE_ID: (&str, &str) = ("message_id", "string");
const TAGS: (&str, &str) = ("tags", "a list of strings, or a string with a JSON list");
const ATTRIBUTES: (&str, &str) = ("attributes", "a map of strings, or a string with a JSON object");
const EXPIRES: (&str, &str) = ("expires", "a timestamp with a zone, or a string");
const ON_EXPIRY: (&str, &str) = ("on_expiry", "string");
const ALL: [(&str, &str); 8] = [SUBJECT, DUE, BODY, MESSAGE_ID, TAGS, ATTRIBUTES, EXPIRES, ON_EXPIRY];

/// The columns of a batch.
pub(super) struct Columns<'a> {
    subjects: Texts<'a>,
    dues: Times<'a>,
    bodies: Bodies<'a>,
    meta: MetaColumns<'a>,
    expires: Option<Times<'a>>,
    on_expiry: Option<Texts<'a>>,
}

/// A row, without its meta.
pub(super) struct LoadedRow<'a> {
    pub(super) due: Millis,
    pub(super) subject: &'a str,
    pub(super) body: &'a [u8],
    pub(super) expiry: Option<Expiry>,
}

impl<'a> Columns<'a> {
    /// Takes a batch apart.
    pub(super) fn of(batch: &'a RecordBatch, ignores_others: bool) -> Result<Self> {
        let schema = batch.schema_ref();
        for (place, field) in schema.fields().iter().enumerate() {
            let name = field.name().as_str();
            if !ignores_others && ALL.iter().all(|(known, _)| *known != name) {
                let known: Vec<&str> = ALL.iter().map(|(known, _)| *known).collect();
                return Err(refused("columns", &format!("no others than {}", known.join(", ")), name));
            }
            let is_known = ALL.iter().any(|(known, _)| *known == name);
            if is_known && schema.fields().iter().take(place).any(|other| other.name() == name) {
                return Err(refused("columns", "each column once", name));
            }
        }
        Ok(Self {
            subjects: needed(batch, SUBJECT, Texts::of)?,
            dues: needed(batch, DUE, |array| Times::of(DUE.0, array))?,
            bodies: needed(batch, BODY, Bodies::of)?,
            meta: MetaColumns {
                message_id: wanted(batch, MESSAGE_ID, Texts::of)?,
                tags: wanted(batch, TAGS, Tags::of)?,
                attributes: wanted(batch, ATTRIBUTES, Attributes::of)?,
            },
            expires: wanted(batch, EXPIRES, |array| Times::of(EXPIRES.0, array))?,
            on_expiry: wanted(batch, ON_EXPIRY, Texts::of)?,
        })
    }

    /// A row; its meta is written to `meta`.
    pub(super) fn row(&self, place: usize, meta: &mut Vec<u8>) -> Result<LoadedRow<'a>> {
        let null = |argument| refused(argument, "a value", "null");
        let due = self.dues.at(place)?.ok_or_else(|| refused("due", "a time", "null"))?;
        let subject = self.subjects.at(place).ok_or_else(|| null("subject"))?;
        let body = self.bodies.at(place).ok_or_else(|| null("body"))?;
        self.meta.put(place, meta)?;
        Ok(LoadedRow { due, subject, body, expiry: self.expiry(place)? })
    }

    /// When a row expires; `None` if it does not.
    fn expiry(&self, place: usize) -> Result<Option<Expiry>> {
        let at = self.expires.map(|expires| expires.at(place)).transpose()?.flatten();
        let word = self.on_expiry.and_then(|words| words.at(place));
        let unknown = || refused("on_expiry", "drop or dead_letter", "another word");
        let then = word.map_or(Ok(OnExpiry::Drop), |word| OnExpiry::of_word(word).ok_or_else(unknown))?;
        match at {
            None if word.is_some() => Err(refused("on_expiry", "a time in expires beside it", "null")),
            at => Ok(at.map(|at| Expiry { at, then })),
        }
    }
}

fn needed<'a, Found>(
    batch: &'a RecordBatch,
    column: (&str, &str),
    of: impl FnOnce(&'a dyn Array) -> Option<Found>,
) -> Result<Found> {
    wanted(batch, column, of)?.ok_or_else(|| refused("columns", &format!("a column {}", column.0), "none of that name"))
}

fn wanted<'a, Found>(
    batch: &'a RecordBatch,
    (name, types): (&str, &str),
    of: impl FnOnce(&'a dyn Array) -> Option<Found>,
) -> Result<Option<Found>> {
    let Some(array) = batch.column_by_name(name) else { return Ok(None) };
    let found = of(array.as_ref());
    found.map(Some).ok_or_else(|| refused("columns", &format!("{name} as {types}"), &array.data_type().to_string()))
}
