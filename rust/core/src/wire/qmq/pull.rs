//! PULL (11): messages for one consumer of a group.
//!
//! | bytes | field of the request |
//! |---|---|
//! | str each | `subject`, `group`, `consumer` |
//! | 4 | `count`: the most messages to return |
//! | 8 | `offset`: unused |
//! | 8 each | `first`, `last`: the lowest pull offset not acknowledged and the highest received; -1 for none |
//! | 8 | `hold_ms`: below 0, answer at once |
//! | 1 | `broadcast` |
//! | … | version 8: one tag filter; from 9: count i32, then `type i16` and a filter each |
//!
//! A tag or text of a filter has at most 255 bytes, and all of a request together 32 KiB, since a parked pull keeps
//! them in memory. A tag filter (type 1) is `rule i16 (0 none, 1 any, 2 all) | count i8 | str*`, a filter by
//! environment (type 2) `str environment | str part`. The answer is `first pull offset i64 | -1 i64 | message*`:
//! its messages have that offset and the ones that follow it.

use bytes::BufMut;

use super::message::{TAGS_VERSION, WireMessage};
use crate::error::Result;
use crate::queues::tags::{
    ASKED_BYTES_MAX, ASKED_TAGS_MAX, ASKED_WORD_BYTES_MAX, FILTERS_MAX, Filter, TagRule, check_filters,
};
use crate::record::limits::at_most;
use crate::units::PullOffset;
use crate::wire::fields::{put_count, put_text};
use crate::wire::malformed::{Malformed, Read};
use crate::wire::reader::Reader;

/// The command.
pub const PULL: i16 = 11;
/// The most messages in an answer, even if the pull asks for more.
pub const PULL_COUNT_MAX: u32 = 10_000;
/// The longest hold, in milliseconds; a longer one is shortened to this.
pub const HOLD_MS_MAX: u64 = 300_000;
/// A pull has a list of filters from this version on.
const FILTERS_VERSION: i16 = 9;
const TYPE_TAGS: i16 = 1;
const TYPE_ENVIRONMENT: i16 = 2;

/// A consumer's name and where it consumes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConsumerName<'a> {
    /// The subject.
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
    /// The consumer, unique in its group.
    pub consumer: &'a str,
}

impl<'a> ConsumerName<'a> {
    /// Reads the three names.
    ///
    /// # Errors
    /// `Malformed`, naming the field.
    pub fn read(reader: &mut Reader<'a>) -> Read<Self> {
        Ok(Self { subject: reader.text("subject")?, group: reader.text("group")?, consumer: reader.text("consumer")? })
    }

    /// Appends the three names.
    ///
    /// # Errors
    /// `TooLarge` naming the field.
    pub fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        put_text(out, "subject", self.subject)?;
        put_text(out, "group", self.group)?;
        put_text(out, "consumer", self.consumer)
    }

    /// True if the three names can be those of a QMQ consumer: none is empty, and none has a character that QMQ
    /// silently refuses.
    pub fn is_usable(&self) -> bool {
        let usable = |name: &str| !name.is_empty() && !name.contains(['/', '\r', '\n']);
        usable(self.subject) && usable(self.group) && usable(self.consumer)
    }
}

/// A pull.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PullRequest<'a> {
    /// The consumer that pulls.
    pub name: ConsumerName<'a>,
    /// The most messages to return; see [`Self::count_max`].
    pub count: i32,
    /// Unused; Java sends -1.
    pub offset: i64,
    /// The lowest pull offset that the consumer has not acknowledged; -1 for none.
    pub first: i64,
    /// The highest pull offset that it has received; -1 for none.
    pub last: i64,
    /// How long to wait for a message; see [`Self::hold_ms`].
    pub timeout_ms: i64,
    /// True if each consumer receives every message.
    pub is_broadcast: bool,
    /// A message must pass all of these.
    pub filters: Vec<Filter>,
}

impl PullRequest<'_> {
    /// The most messages to return; `None` if it asks for none, which is answered at once.
    pub fn count_max(&self) -> Option<u32> {
        u32::try_from(self.count).ok().filter(|count| *count > 0).map(|count| count.min(PULL_COUNT_MAX))
    }

    /// The longest hold; `None` if it is answered at once.
    pub fn hold_ms(&self) -> Option<u64> {
        u64::try_from(self.timeout_ms).ok().filter(|hold_ms| *hold_ms > 0).map(|hold_ms| hold_ms.min(HOLD_MS_MAX))
    }

    /// The highest pull offset that the consumer has received.
    pub fn received(&self) -> Option<PullOffset> {
        u64::try_from(self.last).ok().map(PullOffset)
    }
}

/// Reads a request of this version.
///
/// # Errors
/// `Malformed`, naming the field; `TooLarge` naming `filters`.
pub fn read_pull(body: &[u8], version: i16) -> Read<PullRequest<'_>> {
    let mut reader = Reader::new(body);
    let mut request = PullRequest {
        name: ConsumerName::read(&mut reader)?,
        count: reader.i32("count")?,
        offset: reader.i64("offset")?,
        first: reader.i64("first")?,
        last: reader.i64("last")?,
        timeout_ms: reader.i64("timeout_ms")?,
        is_broadcast: reader.u8("broadcast")? != 0,
        filters: Vec::new(),
    };
    if version >= FILTERS_VERSION {
        request.filters = read_filters(&mut reader)?;
    } else if version >= TAGS_VERSION {
        let mut left = ASKED_BYTES_MAX;
        request.filters = vec![read_tags(&mut reader, &mut left)?];
        request.filters.retain(|filter| !filter.passes_all());
    }
    reader.finish("pull").map(|()| request)
}

/// Reads the filters of version 9, and drops those that pass every message.
///
/// # Errors
/// `Malformed`, naming the field; `TooLarge` naming `filters`.
pub fn read_filters(reader: &mut Reader<'_>) -> Read<Vec<Filter>> {
    let count = reader.count("filters", FILTERS_MAX, 2)?;
    let mut filters = Vec::new();
    let mut left = ASKED_BYTES_MAX;
    for _ in 0..count {
        filters.push(read_filter(reader, &mut left)?);
    }
    filters.retain(|filter| !filter.passes_all());
    Ok(filters)
}

/// Reads a tag or text of a filter, before memory is allocated for it. `left` are the bytes left for all of them.
pub(in crate::wire) fn read_word(reader: &mut Reader<'_>, field: &'static str, left: &mut usize) -> Read<String> {
    let word = reader.text(field)?;
    let too_large =
        |limit: usize, found: usize| Malformed::TooLarge { field, limit: limit as u64, found: found as u64 };
    if word.len() > ASKED_WORD_BYTES_MAX {
        return Err(too_large(ASKED_WORD_BYTES_MAX, word.len()));
    }
    let found = ASKED_BYTES_MAX.saturating_sub(*left).saturating_add(word.len());
    *left = left.checked_sub(word.len()).ok_or_else(|| too_large(ASKED_BYTES_MAX, found))?;
    Ok(word.to_owned())
}

fn read_filter(reader: &mut Reader<'_>, left: &mut usize) -> Read<Filter> {
    match reader.i16("filters")? {
        TYPE_TAGS => read_tags(reader, left),
        TYPE_ENVIRONMENT => Ok(Filter::SubEnvironment {
            environment: read_word(reader, "filters", left)?,
            part: read_word(reader, "filters", left)?,
        }),
        found => Err(Malformed::Value { field: "filters", expected: "a type of 1 or 2", found: i64::from(found) }),
    }
}

/// Reads a tag filter. With rule 0 its tags are ignored.
fn read_tags(reader: &mut Reader<'_>, left: &mut usize) -> Read<Filter> {
    let number = reader.i16("tag_rule")?;
    let found = reader.i8("tags")?;
    let count = u8::try_from(found).map_err(|_| Malformed::Value {
        field: "tags",
        expected: "a count from 0 to 127",
        found: i64::from(found),
    })?;
    let mut tags = Vec::with_capacity(usize::from(count).min(reader.rest().len() / 2));
    for _ in 0..count {
        tags.push(read_word(reader, "tags", left)?);
    }
    match number {
        0 => Ok(Filter::Tags { rule: TagRule::Any, tags: Vec::new() }),
        1 => Ok(Filter::Tags { rule: TagRule::Any, tags }),
        2 => Ok(Filter::Tags { rule: TagRule::All, tags }),
        found => Err(Malformed::Value { field: "tag_rule", expected: "0, 1 or 2", found: i64::from(found) }),
    }
}

/// Appends a request of this version, or refuses it if the version cannot express the filters.
///
/// # Errors
/// `TooLarge` naming the field, or `filters` if the version cannot express them.
pub fn put_pull(out: &mut Vec<u8>, request: &PullRequest<'_>, version: i16) -> Result<()> {
    request.name.put(out)?;
    out.put_i32(request.count);
    out.put_i64(request.offset);
    out.put_i64(request.first);
    out.put_i64(request.last);
    out.put_i64(request.timeout_ms);
    out.put_u8(u8::from(request.is_broadcast));
    if version >= FILTERS_VERSION {
        return put_filters(out, &request.filters);
    }
    at_most("filters", usize::from(version >= TAGS_VERSION), request.filters.len())?;
    check_filters(&request.filters)?;
    match request.filters.first() {
        Some(Filter::SubEnvironment { .. } | Filter::Attribute { .. }) => at_most("filters", 0, 1),
        Some(Filter::Tags { rule, tags }) => put_tags(out, *rule, tags),
        None if version >= TAGS_VERSION => put_tags(out, TagRule::Any, &[]),
        None => Ok(()),
    }
}

/// Appends the filters of version 9. Like a Java listener, it writes one tag filter even if no tags are wanted.
///
/// # Errors
/// `TooLarge` naming `filters` or `tags`.
pub fn put_filters(out: &mut Vec<u8>, filters: &[Filter]) -> Result<()> {
    let none = [Filter::Tags { rule: TagRule::Any, tags: Vec::new() }];
    let filters = if filters.is_empty() { none.as_slice() } else { filters };
    check_filters(filters)?;
    put_count(out, "filters", FILTERS_MAX, filters.len())?;
    filters.iter().try_for_each(|filter| put_filter(out, filter))
}

fn put_filter(out: &mut Vec<u8>, filter: &Filter) -> Result<()> {
    match filter {
        Filter::Tags { rule, tags } => {
            out.put_i16(TYPE_TAGS);
            put_tags(out, *rule, tags)
        }
        Filter::SubEnvironment { environment, part } => {
            out.put_i16(TYPE_ENVIRONMENT);
            put_text(out, "filters", environment)?;
            put_text(out, "filters", part)
        }
        // QMQ's pull has no such filter.
        Filter::Attribute { .. } => at_most("filters", 0, 1),
    }
}

fn put_tags(out: &mut Vec<u8>, rule: TagRule, tags: &[String]) -> Result<()> {
    at_most("tags", ASKED_TAGS_MAX, tags.len())?;
    let number = match rule {
        TagRule::Any if tags.is_empty() => 0,
        TagRule::Any => 1,
        TagRule::All => 2,
    };
    out.put_i16(number);
    out.put_u8(tags.len() as u8);
    tags.iter().try_for_each(|tag| put_text(out, "tags", tag))
}

/// Appends the part of an answer before its messages, which [`WireMessage::put_for`] appends.
pub fn put_pulled(out: &mut Vec<u8>, first: PullOffset) {
    out.put_u64(first.0);
    out.put_i64(-1);
}

/// Reads an answer: the pull offset of the first message, and the messages.
///
/// # Errors
/// `Malformed`, naming the field; `TooLarge` naming `messages`.
pub fn read_pulled(body: &[u8]) -> Read<(PullOffset, Vec<WireMessage<'_>>)> {
    let mut reader = Reader::new(body);
    let first = PullOffset(reader.u64("offset")?);
    reader.i64("offset")?;
    let mut messages = Vec::new();
    while !reader.is_empty() {
        if messages.len() >= PULL_COUNT_MAX as usize {
            let limit = u64::from(PULL_COUNT_MAX);
            return Err(Malformed::TooLarge { field: "messages", limit, found: limit.saturating_add(1) });
        }
        messages.push(WireMessage::read(&mut reader)?);
    }
    Ok((first, messages))
}
