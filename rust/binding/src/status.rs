//! What a store tells about itself, as plain Python values.

use delaymq_engine::{Durability, Report, Status};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Level, action and text of a report.
pub(crate) type ReportTuple = (&'static str, &'static str, String);

/// The fields of `delaymq.Status`.
pub(crate) fn fields<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("durability", durability_word(status.durability))?;
    fields.set_item("epoch", status.epoch.0)?;
    fields.set_item("created", status.created)?;
    fields.set_item("closed", status.closed)?;
    fields.set_item("pending", status.pending)?;
    fields.set_item("ready", status.ready)?;
    fields.set_item("accepted", status.accepted.0)?;
    fields.set_item("visible", status.visible.0)?;
    fields.set_item("applied", status.applied.0)?;
    fields.set_item("now_ms", status.now.0)?;
    fields.set_item("recovered_ms", u64::try_from(status.recovered_in.as_millis()).unwrap_or(u64::MAX))?;
    fields.set_item("recovered_facts", status.recovered_facts)?;
    fields.set_item("held", status.held)?;
    fields.set_item("disk_full", status.disk_full)?;
    fields.set_item("poisoned", status.poisoned.as_deref())?;
    fields.set_item("aside", PyTuple::new(py, &status.aside)?)?;
    fields.set_item("voided", status.voided)?;
    fields.set_item("expired", status.expired)?;
    Ok(fields)
}

/// A report as the level for a log, its kind, and its words.
pub(crate) fn report(report: &Report) -> ReportTuple {
    let level = match report {
        Report::RoomAgain | Report::DispatchResumed | Report::Expired { .. } => "info",
        Report::Poisoned { .. } | Report::Voided { .. } | Report::RunDamaged { .. } => "error",
        _ => "warning",
    };
    (level, report.kind(), report.to_string())
}

pub(crate) const fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Disk => "disk",
        Durability::Os => "os",
    }
}
