//! How long no new fact has come.

use crate::units::{Millis, Sequence};

/// How long no new fact has come.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Rest {
    /// The next sequence, and when it was first seen.
    pub(super) next: Sequence,
    pub(super) since: Millis,
    /// The next sequence when a quiet store last made a checkpoint due.
    pub(super) asked: Sequence,
}
