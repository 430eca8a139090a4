//! Every record of a closed store's log, as this library decodes it, for the test that compares it with a second reader
//! of the format.

use std::path::PathBuf;
use std::sync::Arc;

use delaymq_core::Result;
use delaymq_core::message_log::{SEGMENT_HEADER_BYTES, ScanStart, Scanner, list_segments};
use delaymq_core::record::adopt::{Adopt, AdoptedRun};
use delaymq_core::record::command::{EpochStart, Void};
use delaymq_core::record::expire::{Expire, ExpiredBy};
use delaymq_core::record::message::Message;
use delaymq_core::record::name::{GroupEnd, GroupStart};
use delaymq_core::record::queue::{Acknowledge, Ranges};
use delaymq_core::record::recurring::{CatchUp, Occurrence, Recur};
use delaymq_core::record::retry::{Destination, Retry};
use delaymq_core::record::terms::{IfExists, KeyCommand, NameHash};
use delaymq_core::record::{Fact, RawRecord, decode};
use delaymq_core::storage::Storage;
use delaymq_core::store::read_identity;
use delaymq_core::units::{Location, SegmentNumber};
use delaymq_engine::FileStorage;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::convert::errors;

type Named<'py> = PyResult<(&'static str, Bound<'py, PyDict>)>;

/// Sequence, name of the kind and fields of each record, in the order of a log that still has its first fact. The
/// name is None if the record could not be decoded.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn records(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyList>> {
    let mut scanner = scanner(&path).map_err(|error| errors::raised(py, error))?;
    let found = PyList::empty(py);
    while let Some(batch) = scanner.next_batch().map_err(|error| errors::raised(py, error))? {
        for (_, record) in batch.facts() {
            let (name, fields) = match decode(&record) {
                Some(fact) => named(py, &record, fact).map(|(name, fields)| (Some(name), fields))?,
                None => (None, PyDict::new(py)),
            };
            found.append((record.sequence.0, name, fields))?;
        }
        scanner.recycle(batch.bytes);
    }
    Ok(found)
}

fn scanner(path: &std::path::Path) -> Result<Scanner> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(path, false)?);
    let identity = read_identity(storage.as_ref())?;
    let first = list_segments(storage.as_ref())?.first().copied().unwrap_or(SegmentNumber(1));
    let location = Location::in_segment(first, SEGMENT_HEADER_BYTES);
    Scanner::new(storage, identity.stream, &ScanStart { location, ..ScanStart::BEGINNING })
}

/// The fields of a producer's command for a pending message.
fn command_fields<'py>(py: Python<'py>, fact: &Fact<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let (target, subject, size) = match fact {
        Fact::Cancel(cancel) => (cancel.target, cancel.subject, cancel.size),
        Fact::Move(moved) => (moved.target, moved.subject, moved.size),
        _ => return Ok(("", fields)),
    };
    set(&fields, &[("target_due_ms", target.due.0), ("target_sequence", target.sequence.0)])?;
    set(&fields, &[("subject", subject.0.into()), ("size", size.into())])?;
    let Fact::Move(moved) = fact else { return Ok(("cancel", fields)) };
    set(&fields, &[("due_ms", moved.due.0)])?;
    fields.set_item("delay_ms", moved.delay_ms)?;
    Ok(("move", fields))
}

fn occurrence_fields(py: Python<'_>, occurrence: Occurrence) -> Named<'_> {
    let fields = PyDict::new(py);
    set(&fields, &[("series", occurrence.series.0), ("after_ms", occurrence.after.0)])?;
    Ok(("occurrence", fields))
}

fn adopt_fields<'py>(py: Python<'py>, adopt: &Adopt<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    fields.set_item("job", (adopt.job.low, adopt.job.high))?;
    fields.set_item("rows", adopt.rows)?;
    let run = |run: AdoptedRun| (run.staged.0, PyBytes::new(py, &run.nonce), run.length, run.digest, run.rows);
    fields.set_item("runs", adopt.runs().map(run).collect::<Vec<_>>())?;
    Ok(("adopt", fields))
}

fn expire_fields<'py>(py: Python<'py>, expire: &Expire<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let (group, due_before) = expire.by.fields();
    set(&fields, &[("subject", expire.subject.0.into()), ("group", group.0.into())])?;
    set(&fields, &[("due_before_ms", due_before.0)])?;
    fields.set_item("received", matches!(expire.by, ExpiredBy::Themselves { received: true, .. }))?;
    set_ranges(&fields, expire.numbers)?;
    Ok(("expire", fields))
}

fn acknowledge_fields<'py>(py: Python<'py>, done: &Acknowledge<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    set(&fields, &[("group", done.group.0.into()), ("consumer", done.consumer.0.into())])?;
    set_ranges(&fields, done.offsets)?;
    fields.set_item("filtered", done.filtered)?;
    Ok(("acknowledge", fields))
}

/// The fields by the names that docs/format.md gives them.
fn named<'py>(py: Python<'py>, record: &RawRecord<'_>, fact: Fact<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let name = match fact {
        Fact::Message(message) => return message_fields(py, record, &message),
        Fact::EpochStart(start) => return epoch_fields(py, &start),
        Fact::Acknowledge(done) => return acknowledge_fields(py, &done),
        Fact::Retry(retry) => return retry_fields(py, &retry),
        Fact::Cancel(_) | Fact::Move(_) => return command_fields(py, &fact),
        Fact::Terms(_) | Fact::ByKey(_) => return terms_fields(py, &fact),
        Fact::Recur(recur) => return recur_fields(py, recur),
        Fact::Adopt(adopt) => return adopt_fields(py, &adopt),
        Fact::Occurrence(occurrence) => return occurrence_fields(py, occurrence),
        Fact::Ready(list) => {
            let rows = list.entries().map(|(key, subject)| (key.due.0, key.sequence.0, subject.0));
            fields.set_item("entries", rows.collect::<Vec<_>>())?;
            "ready"
        }
        Fact::Attach(attach) => {
            set(&fields, &[("subject", attach.subject.0.into()), ("block", attach.block.into())])?;
            set_start(&fields, attach.start)?;
            fields.set_item("is_broadcast", attach.is_broadcast)?;
            fields.set_item("group", attach.group)?;
            fields.set_item("consumer", attach.consumer)?;
            "attach"
        }
        Fact::Reserve(reserve) => {
            set(&fields, &[("group", reserve.group.0.into()), ("consumer", reserve.consumer.0.into())])?;
            set(&fields, &[("offset_end", reserve.offset_end.0), ("number_end", reserve.number_end.0)])?;
            "reserve"
        }
        Fact::Assign(assign) => {
            set(&fields, &[("group", assign.group.0.into()), ("consumer", assign.consumer.0.into())])?;
            set(&fields, &[("first_offset", assign.first_offset.0)])?;
            set_ranges(&fields, assign.numbers)?;
            "assign"
        }
        Fact::PassOver(over) => {
            set(&fields, &[("group", over.group.0.into()), ("consumer", over.consumer.0.into())])?;
            set_ranges(&fields, over.numbers)?;
            "pass_over"
        }
        Fact::Redrive(redrive) => {
            set(&fields, &[("group", redrive.group.0.into()), ("target", redrive.target.0.into())])?;
            set(&fields, &[("number", redrive.number.0), ("due_ms", redrive.due.0)])?;
            set(&fields, &[("payload_sequence", redrive.payload_sequence.0)])?;
            "redrive"
        }
        Fact::Expire(expire) => return expire_fields(py, &expire),
        Fact::Void(void) => {
            let (subject, what, number) = match void {
                Void::Ready { subject, number } => (subject, 0, number.0),
                Void::Pending { subject, sequence } => (subject, 1, sequence.0),
            };
            set(&fields, &[("subject", subject.0.into()), ("what", what), ("number", number)])?;
            "void"
        }
        Fact::Subject { .. }
        | Fact::Group { .. }
        | Fact::GroupEnd { .. }
        | Fact::GroupReset { .. }
        | Fact::Consumer { .. }
        | Fact::ConsumerEnd { .. } => return name_fields(py, fact),
    };
    Ok((name, fields))
}

/// The fields of terms, and of commands by key.
fn terms_fields<'py>(py: Python<'py>, fact: &Fact<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let hash = |name: NameHash| (name.low, name.high);
    match fact {
        Fact::Terms(terms) => {
            let limits = terms.limits;
            set(&fields, &[("messages", terms.messages.into()), ("keys_max", limits.keys_max.into())])?;
            set(&fields, &[("ids_max", limits.ids_max.into()), ("id_window_ms", limits.id_window_ms)])?;
            let rows = terms.rows().map(|row| (row.place, row.key.map(hash), row.id.map(hash), row.if_exists as u32));
            fields.set_item("rows", rows.collect::<Vec<_>>())?;
            Ok(("terms", fields))
        }
        Fact::ByKey(asked) => {
            let (due, delay_ms, what) = match asked.command {
                KeyCommand::Cancel => (0, None, "cancel"),
                KeyCommand::Move { due, delay_ms } => (due.0, delay_ms, "move"),
            };
            fields.set_item("key", hash(asked.key))?;
            let target = asked.target.unwrap_or_default();
            set(&fields, &[("subject", asked.subject.0.into()), ("due_ms", due)])?;
            set(&fields, &[("target_due_ms", target.due.0), ("target_sequence", target.sequence.0)])?;
            fields.set_item("delay_ms", delay_ms)?;
            fields.set_item("what", what)?;
            Ok(("by_key", fields))
        }
        _ => Ok(("", fields)),
    }
}

/// The fields of a series that begins or ends; `meta` and `body` are bytes.
fn recur_fields<'py>(py: Python<'py>, recur: Recur<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let what = match recur {
        Recur::Begin(new) => {
            set(&fields, &[("subject", new.subject.0.into()), ("after_ms", new.after.0)])?;
            for (name, text) in [("name", new.name), ("rule", new.rule), ("zone", new.zone)] {
                fields.set_item(name, text)?;
            }
            let catch_up = match new.catch_up {
                CatchUp::One => "one",
                CatchUp::Skip => "skip",
                CatchUp::All => "all",
            };
            fields.set_item("catch_up", catch_up)?;
            if let Some(expires) = new.expires_after {
                set(&fields, &[("expires_after_ms", expires.after_ms)])?;
                fields.set_item("on_expiry", expires.then.word())?;
            }
            fields.set_item("meta", PyBytes::new(py, new.meta))?;
            fields.set_item("body", PyBytes::new(py, new.body))?;
            match new.if_exists {
                IfExists::Replace => "replace",
                IfExists::Keep => "keep",
                IfExists::Refuse => "refuse",
            }
        }
        Recur::End { subject, name } => {
            set(&fields, &[("subject", subject.0.into())])?;
            fields.set_item("name", name)?;
            "end"
        }
        Recur::Over { series } => {
            set(&fields, &[("series", series.0)])?;
            "over"
        }
    };
    fields.set_item("what", what)?;
    Ok(("recur", fields))
}

fn name_fields<'py>(py: Python<'py>, fact: Fact<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    let kind = match fact {
        Fact::Subject { number, name } => {
            fields.set_item("number", number.0)?;
            fields.set_item("name", name)?;
            "subject"
        }
        Fact::Group { subject, start, name } => {
            fields.set_item("subject", subject.0)?;
            set_start(&fields, start)?;
            fields.set_item("name", name)?;
            "group"
        }
        Fact::GroupEnd { group, end } => {
            fields.set_item("group", group.0)?;
            fields.set_item("end", if end == GroupEnd::WithItsRetries { "with_retries" } else { "alone" })?;
            "group_end"
        }
        Fact::GroupReset { group, start } => {
            fields.set_item("group", group.0)?;
            set_start(&fields, start)?;
            "group_reset"
        }
        Fact::Consumer { group, name } => {
            fields.set_item("group", group.0)?;
            fields.set_item("name", name)?;
            "consumer"
        }
        Fact::ConsumerEnd { group, consumer } => {
            set(&fields, &[("group", group.0.into()), ("consumer", consumer.0.into())])?;
            "consumer_end"
        }
        _ => "another kind",
    };
    Ok((kind, fields))
}

/// `meta` and `body` are bytes, and None if the payload does not match its check.
fn message_fields<'py>(py: Python<'py>, record: &RawRecord<'_>, message: &Message<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    set(&fields, &[("due_ms", message.due.0), ("published_ms", message.published.0)])?;
    fields.set_item("subject", message.subject.0)?;
    fields.set_item("opaque", message.opaque)?;
    if let Some(expiry) = message.expiry {
        set(&fields, &[("expires_ms", expiry.at.0)])?;
        fields.set_item("on_expiry", expiry.then.word())?;
    }
    let whole = record.payload_is_whole();
    fields.set_item("meta", whole.then(|| PyBytes::new(py, message.meta)))?;
    fields.set_item("body", whole.then(|| PyBytes::new(py, message.body)))?;
    Ok(("message", fields))
}

fn retry_fields<'py>(py: Python<'py>, retry: &Retry<'_>) -> Named<'py> {
    let fields = PyDict::new(py);
    set(&fields, &[("group", retry.group.0.into()), ("consumer", retry.consumer.0.into())])?;
    set(&fields, &[("offset", retry.offset.0), ("number", retry.number.0), ("due_ms", retry.due.0)])?;
    set(&fields, &[("target", retry.target.0.into()), ("attempt", retry.attempt.into())])?;
    // As the fact says it: 0 if it is not known.
    let size = retry.size.map_or(0, |size| size.saturating_add(1));
    set(&fields, &[("payload_sequence", retry.payload_sequence.0), ("size", size.into())])?;
    let (destination, reason, received) = match retry.destination {
        Destination::Again => ("again", "", false),
        Destination::DeadLetter { reason } => ("dead_letter", reason, false),
        Destination::Expired { received } => ("expired", "", received),
    };
    fields.set_item("destination", destination)?;
    fields.set_item("reason", reason)?;
    fields.set_item("received", received)?;
    Ok(("retry", fields))
}

fn epoch_fields<'py>(py: Python<'py>, start: &EpochStart) -> Named<'py> {
    let fields = PyDict::new(py);
    set(&fields, &[("epoch", start.epoch.0.into()), ("format_version", start.format_version.into())])?;
    fields.set_item("nonce", PyBytes::new(py, &start.nonce))?;
    fields.set_item("node", PyBytes::new(py, &start.node))?;
    set(&fields, &[("previous_epoch", start.previous_epoch.0.into())])?;
    set(&fields, &[("previous_chain", start.previous_chain.into())])?;
    set(&fields, &[("previous_sequence", start.previous_sequence.0), ("delay_ms_max", start.delay_ms_max)])?;
    Ok(("epoch_start", fields))
}

fn set_start(fields: &Bound<'_, PyDict>, start: GroupStart) -> PyResult<()> {
    let word = match start {
        GroupStart::Unfinished => "unfinished",
        GroupStart::Latest => "latest",
        GroupStart::Number(number) => {
            fields.set_item("start_number", number.0)?;
            "number"
        }
    };
    fields.set_item("start", word)
}

fn set(fields: &Bound<'_, PyDict>, numbers: &[(&str, u64)]) -> PyResult<()> {
    numbers.iter().try_for_each(|(name, number)| fields.set_item(name, number))
}

fn set_ranges(fields: &Bound<'_, PyDict>, ranges: Ranges<'_>) -> PyResult<()> {
    fields.set_item("ranges", ranges.iter().map(|range| (range.first, range.count)).collect::<Vec<_>>())
}
