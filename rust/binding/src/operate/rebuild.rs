//! Rebuilding the runs of a store: a plan, its pieces, and their adoption. All reading and writing happens with the
//! interpreter released.

use std::path::PathBuf;

use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::store::{RebuildCounts, RebuildPlan};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::convert::errors;

/// Name, bytes, check and rows of a staged run, which was rebuilt.
type Described = (String, u64, u32, u64);

/// The plan as bytes; the number of its checkpoint; index, first sequence, sequences and run of each piece; the
/// files that stay as they are, the reason, and their damage.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, piece_sequences, /))]
pub(crate) fn rebuild_plan(py: Python<'_>, path: PathBuf, piece_sequences: u32) -> PyResult<Bound<'_, PyTuple>> {
    let planned = py.detach(|| delaymq_engine::plan_rebuild(&path, piece_sequences));
    let (plan, kept) = planned.map_err(|error| errors::raised(py, error))?;
    let pieces = plan.pieces().iter().zip(0_u32..);
    let pieces: Vec<(u32, u64, u64, u32)> =
        pieces.map(|(piece, index)| (index, piece.first.0, piece.sequences, piece.run.0)).collect();
    let kept: Vec<(u64, u64, String, Option<String>)> =
        kept.into_iter().map(|window| (window.first.0, window.sequences, window.why, window.damage)).collect();
    (PyBytes::new(py, &plan.to_bytes()), plan.checkpoint(), pieces, kept).into_pyobject(py)
}

/// Raises `Locked` if a process has the store open.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn refuse_open(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| delaymq_engine::refuse_open(&path)).map_err(|error| errors::raised(py, error))
}

/// How its messages compare, examples of wrong messages, and the run that was written.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, plan, index, stage, /))]
pub(crate) fn rebuild_piece(
    py: Python<'_>,
    path: PathBuf,
    plan: Vec<u8>,
    index: u32,
    stage: bool,
) -> PyResult<Bound<'_, PyTuple>> {
    let rebuilt = py.detach(|| {
        let plan = RebuildPlan::from_bytes(&plan)?;
        delaymq_engine::rebuild_piece(&path, &plan, index, stage)
    });
    let rebuilt = rebuilt.map_err(|error| errors::raised(py, error))?;
    let examples = rebuilt.examples.into_iter();
    let examples: Vec<(u64, &'static str, String)> =
        examples.map(|example| (example.sequence.0, example.finding.name(), example.words)).collect();
    let staged: Option<Described> = rebuilt.staged.map(|run| (run.name.file_name(), run.length, run.digest, run.rows));
    (fields(py, &rebuilt.counts)?, examples, staged).into_pyobject(py)
}

fn fields<'py>(py: Python<'py>, counts: &RebuildCounts) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("pending", counts.pending)?;
    fields.set_item("same", counts.same)?;
    fields.set_item("different", counts.different)?;
    fields.set_item("missing", counts.missing)?;
    fields.set_item("unreadable", counts.unreadable)?;
    fields.set_item("kept", counts.kept)?;
    fields.set_item("vanishing", counts.vanishing)?;
    Ok(fields)
}

/// Replaces the old runs by the rebuilt ones; returns the number of runs and of their messages.
#[expect(clippy::needless_pass_by_value, reason = "what is extracted from Python is owned")]
#[pyfunction]
#[pyo3(signature = (path, plan, staged, /))]
pub(crate) fn adopt_rebuilt(
    py: Python<'_>,
    path: PathBuf,
    plan: Vec<u8>,
    staged: Vec<(u32, Option<Described>)>,
) -> PyResult<(u64, u64)> {
    let named = |(text, length, digest, rows): Described| {
        let name = LoadName::parse(&text).ok_or_else(|| errors::refused(py, "staged", "the name of a run", &text));
        name.map(|name| StagedRun { name, length, digest, rows })
    };
    let staged: Vec<(u32, Option<StagedRun>)> =
        staged.into_iter().map(|(index, run)| Ok((index, run.map(named).transpose()?))).collect::<PyResult<_>>()?;
    let adopted = py.detach(|| {
        let plan = RebuildPlan::from_bytes(&plan)?;
        delaymq_engine::adopt_rebuilt(&path, &plan, &staged)
    });
    adopted.map(|adopted| (adopted.runs, adopted.messages)).map_err(|error| errors::raised(py, error))
}
