//! The dispatch runs with unfinished messages.

use std::sync::Arc;

use crate::run::{Run, RunKind};
use crate::store::state::State;

/// Returns the dispatch runs of a state with unfinished messages.
pub(super) fn unfinished_ready(state: &State) -> Vec<Arc<Run>> {
    let runs = state.dispatch.runs().iter().filter(|run| !state.dispatch.is_run_finished(run));
    runs.map(|run| Arc::clone(run.run())).filter(|run| run.kind() == RunKind::Dispatch).collect()
}
