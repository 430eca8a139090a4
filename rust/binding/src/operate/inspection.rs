//! Inspection of a store without its lock.

use std::path::PathBuf;

use delaymq_core::units::Millis;
use delaymq_engine::{
    FileKind, HeldSpace, Holder, HolderKind, Inspected, InspectedFile, InspectedGroup, InspectedSubject, KeepFinished,
    Pin, SpaceReason,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::errors;
use crate::convert::fields::{Fields, list};
use crate::embedded::options;

/// Looks at the store in a folder: the fields of `delaymq.Inspection`.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
pub(crate) fn inspect<'py>(
    py: Python<'py>,
    path: PathBuf,
    keep_finished_ms: u64,
    keep_finished_of_ms: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    let keep = KeepFinished { rest_ms: keep_finished_ms, of: options::times("keep_finished_of", keep_finished_of_ms)? };
    let seen = py.detach(|| delaymq_engine::inspect(&path, &keep)).map_err(|error| errors::raised(py, error))?;
    fields(py, &seen)
}

fn fields<'py>(py: Python<'py>, seen: &Inspected) -> PyResult<Bound<'py, PyDict>> {
    let inspection = &seen.inspection;
    let fields = PyDict::new(py);
    fields.set_item("seen_ms", seen.seen.0)?;
    fields.set_item("open_in", seen.open_in)?;
    fields.set_item("epoch", inspection.epoch.0)?;
    fields.set_item("register", inspection.register.map(|(coordinator, version)| (coordinator, version.0)))?;
    fields.set_item("checkpoint", inspection.checkpoint)?;
    fields.set_item("next_sequence", inspection.next_sequence.0)?;
    fields.set_item("trusted_ms", inspection.trusted.0)?;
    fields.set_item("sealed", inspection.sealed)?;
    fields.set_item("facts_behind", inspection.facts_behind)?;
    fields.set_item("bytes_behind", inspection.bytes_behind)?;
    fields.set_item("facts_unconfirmed", inspection.facts_unconfirmed)?;
    fields.set_item("pending", inspection.pending)?;
    fields.set_item("next_due_ms", milliseconds(inspection.next_due))?;
    fields.set_item("ready", inspection.ready)?;
    fields.set_item("voided", inspection.voided)?;
    fields.set_item("files", list(py, &inspection.files, file)?)?;
    fields.set_item("subjects", list(py, &inspection.subjects, subject)?)?;
    fields.set_item("groups", list(py, &inspection.groups, group)?)?;
    fields.set_item("holders", list(py, &inspection.holders, holder)?)?;
    fields.set_item("space", list(py, &inspection.space, held_space)?)?;
    fields.set_item("pins", list(py, &seen.pins, pin)?)?;
    fields.set_item("damaged", &inspection.damaged)?;
    fields.set_item("refused", inspection.refused.as_ref().map(ToString::to_string))?;
    Ok(fields)
}

fn milliseconds(time: Option<Millis>) -> Option<u64> {
    time.map(|time| time.0)
}

fn file<'py>(py: Python<'py>, file: &InspectedFile) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("path", &file.path)?;
    fields.set_item("kind", kind_word(file.kind))?;
    fields.set_item("bytes", file.bytes)?;
    fields.set_item("hole_bytes", file.hole_bytes)?;
    fields.set_item("rows", file.rows)?;
    fields.set_item("unfinished", file.unfinished)?;
    fields.set_item("pending", file.pending)?;
    fields.set_item("written_ms", milliseconds(file.written))?;
    fields.set_item("kept_until_ms", milliseconds(file.kept.as_ref().map(|kept| kept.until)))?;
    fields.set_item("kept_for", file.kept.as_ref().and_then(|kept| kept.subject.as_deref()))?;
    fields.set_item("held_by", &file.held_by)?;
    fields.set_item("held_by_count", file.held_by_count)?;
    Ok(fields)
}

const fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Segment => "segment",
        FileKind::Preparing => "preparing",
        FileKind::ScheduleRun => "schedule_run",
        FileKind::DispatchRun => "dispatch_run",
        FileKind::UnusedRun => "unused_run",
        FileKind::StagedRun => "staged_run",
        FileKind::Checkpoint => "checkpoint",
        FileKind::Aside => "aside",
        FileKind::Pin => "pin",
        FileKind::Other => "other",
    }
}

fn subject<'py>(py: Python<'py>, subject: &InspectedSubject) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("name", &subject.name)?;
    fields.set_item("pending", subject.pending)?;
    fields.set_item("next_due_ms", milliseconds(subject.next_due))?;
    fields.set_item("ready", subject.ready)?;
    fields.set_item("next_number", subject.next_number)?;
    fields.set_item("groups", subject.groups)?;
    fields.set_item("expired", subject.expired)?;
    Ok(fields)
}

fn group<'py>(py: Python<'py>, group: &InspectedGroup) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("subject", &group.subject)?;
    fields.set_item("name", &group.name)?;
    fields.set_item("cursor", group.cursor)?;
    fields.set_item("next_number", group.next_number)?;
    fields.set_item("lag", group.lag)?;
    fields.set_item("in_flight", group.in_flight)?;
    fields.set_item("start", group.start)?;
    fields.set_item("dead_letters", group.dead_letters)?;
    fields.set_item("consumers", &group.consumers)?;
    Ok(fields)
}

fn holder<'py>(py: Python<'py>, holder: &Holder) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("kind", holder_word(&holder.kind))?;
    for absent in ["subject", "group", "consumers", "consumer_ended_ms", "number", "pin", "expires_ms"] {
        fields.set_item(absent, None::<u64>)?;
    }
    match &holder.kind {
        HolderKind::Group { subject, group, consumers, consumer_ended } => {
            fields.set_item("subject", subject)?;
            fields.set_item("group", group)?;
            fields.set_item("consumers", consumers)?;
            fields.set_item("consumer_ended_ms", milliseconds(*consumer_ended))?;
        }
        HolderKind::DeadLetters { subject, group } => {
            fields.set_item("subject", subject)?;
            fields.set_item("group", group)?;
        }
        HolderKind::NoGroup { subject } => fields.set_item("subject", subject)?,
        HolderKind::Pending { run } => fields.set_item("number", run)?,
        HolderKind::Checkpoint { number } => fields.set_item("number", number)?,
        HolderKind::Pin { name, expires } => {
            fields.set_item("pin", name)?;
            fields.set_item("expires_ms", expires.0)?;
        }
        HolderKind::Archive { name } => fields.set_item("pin", name)?,
        HolderKind::Replay => {}
    }
    fields.set_item("messages", holder.messages)?;
    fields.set_item("segment", holder.segment.map(|segment| segment.0))?;
    fields.set_item("begun_ms", milliseconds(holder.begun))?;
    fields.set_item("bytes", holder.bytes)?;
    fields.set_item("alone", holder.alone)?;
    Ok(fields)
}

const fn holder_word(kind: &HolderKind) -> &'static str {
    match kind {
        HolderKind::Group { .. } => "group",
        HolderKind::DeadLetters { .. } => "dead_letters",
        HolderKind::NoGroup { .. } => "no_group",
        HolderKind::Pending { .. } => "pending",
        HolderKind::Replay => "replay",
        HolderKind::Pin { .. } => "pin",
        HolderKind::Archive { .. } => "archive",
        HolderKind::Checkpoint { .. } => "checkpoint",
    }
}

fn held_space<'py>(py: Python<'py>, held: &HeldSpace) -> Fields<'py> {
    let fields = PyDict::new(py);
    let reason = match held.reason {
        SpaceReason::DeadGroup => "dead_group",
        SpaceReason::Group => "group",
        SpaceReason::DeadLetters => "dead_letters",
        SpaceReason::NoGroup => "no_group",
        SpaceReason::Pending => "pending",
        SpaceReason::Replay => "replay",
        SpaceReason::Pin => "pin",
        SpaceReason::Archive => "archive",
        SpaceReason::Finished => "finished",
        SpaceReason::Upkeep => "upkeep",
        SpaceReason::Aside => "aside",
    };
    fields.set_item("reason", reason)?;
    fields.set_item("holders", held.holders)?;
    fields.set_item("bytes", held.bytes)?;
    fields.set_item("alone", held.alone)?;
    Ok(fields)
}

fn pin<'py>(py: Python<'py>, pin: &Pin) -> Fields<'py> {
    let fields = PyDict::new(py);
    fields.set_item("name", &pin.name)?;
    fields.set_item("expires_ms", pin.expires.0)?;
    Ok(fields)
}
