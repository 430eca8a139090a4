//! The time at which a file was last written, by the log's own clock.

use crate::store::state::State;
use crate::units::{LocationFile, Millis};

/// Returns the time of the last write: for a segment, the trusted time at its end; for a run, its creation time, which
/// a merged run takes from its oldest input. `None` for a file that is still being written.
pub(in crate::store) fn written(state: &State, place: LocationFile) -> Option<Millis> {
    match place {
        LocationFile::Segment(segment) => {
            let after = state.segments.partition_point(|start| start.segment <= segment);
            state.segments.get(after).map(|start| start.position.trusted)
        }
        LocationFile::Run(run) => state.runs.get(&run).map(|known| known.created),
    }
}
