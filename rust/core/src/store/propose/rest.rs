//! Since when nothing has come.

use crate::units::{Millis, Sequence};

/// Since when nothing has come.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct Rest {
    /// The next sequence, and when it was first seen as that.
    pub(super) next: Sequence,
    pub(super) since: Millis,
    /// The next sequence when it was last asked whether a checkpoint is worth it.
    pub(super) asked: Sequence,
}
