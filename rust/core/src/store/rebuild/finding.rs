//! The findings of the comparison of a run with the log.

/// The kind of problem of a message in the present run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RebuildFinding {
    /// See [`RebuildCounts::vanishing`].
    Vanishing,
    /// See [`RebuildCounts::missing`].
    Missing,
    /// See [`RebuildCounts::different`].
    Different,
    /// See [`RebuildCounts::unreadable`].
    Unreadable,
}

impl RebuildFinding {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vanishing => "vanishing",
            Self::Missing => "missing",
            Self::Different => "different",
            Self::Unreadable => "unreadable",
        }
    }
}
