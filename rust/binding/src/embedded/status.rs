//! The status and the reports of a store, as plain Python values.

use delaymq_core::wire::extension::status::StatusTold;
use delaymq_engine::{Durability, Report};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Level, action and text of a report.
pub(crate) type ReportTuple = (&'static str, &'static str, String);

/// The fields of `delaymq.Status`, for a store in this process and for a server.
pub(crate) fn fields<'py>(py: Python<'py>, told: &StatusTold) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("durability", durability_word(told.durability))?;
    fields.set_item("epoch", told.epoch.0)?;
    fields.set_item("created", told.created)?;
    fields.set_item("closed", told.closed)?;
    fields.set_item("pending", told.pending)?;
    fields.set_item("ready", told.ready)?;
    fields.set_item("accepted", told.accepted.0)?;
    fields.set_item("visible", told.visible.0)?;
    fields.set_item("applied", told.applied.0)?;
    fields.set_item("now_ms", told.now.0)?;
    fields.set_item("recovered_ms", told.recovered_ms)?;
    fields.set_item("recovered_facts", told.recovered_facts)?;
    fields.set_item("held", told.held)?;
    fields.set_item("disk_full", told.disk_full)?;
    fields.set_item("room_low", told.room_low)?;
    fields.set_item("free_bytes", told.free_bytes)?;
    fields.set_item("poisoned", told.poisoned.as_deref())?;
    fields.set_item("aside", PyTuple::new(py, &told.aside)?)?;
    fields.set_item("zones", &told.zones)?;
    fields.set_item("voided", told.voided)?;
    fields.set_item("expired", told.expired)?;
    fields.set_item("hot_minutes", told.hot_minutes)?;
    Ok(fields)
}

/// A report as log level, kind and text.
pub(crate) fn report(report: &Report) -> ReportTuple {
    let level = match report {
        Report::RoomAgain | Report::DispatchResumed | Report::ClockAccepted { .. } | Report::Expired { .. } => "info",
        Report::Poisoned { .. } | Report::Voided { .. } | Report::RunDamaged { .. } => "error",
        _ => "warning",
    };
    (level, report.kind(), report.to_string())
}

const fn durability_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Disk => "disk",
        Durability::Os => "os",
    }
}
