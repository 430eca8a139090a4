//! When a file was last written, by the log's own time.

use crate::store::state::State;
use crate::units::{LocationFile, Millis};

/// When the last fact of a file was written: that of the segment, or the checkpoint of the run.
/// `None` for what is written to.
pub(in crate::store) fn written(state: &State, place: LocationFile) -> Option<Millis> {
    match place {
        LocationFile::Segment(segment) => {
            let after = state.segments.partition_point(|start| start.segment <= segment);
            state.segments.get(after).map(|start| start.position.trusted)
        }
        LocationFile::Run(run) => state.runs.get(&run).map(|known| known.created),
    }
}
