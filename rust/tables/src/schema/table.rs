//! The tables.

/// A table of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every message in the log.
    Message,
    /// Messages that are neither dispatched nor cancelled.
    Pending,
    /// Every message that became ready.
    Ready,
    /// Every fact in the log that is no message.
    Action,
    /// What became of each message for each group.
    Deliveries,
    /// Every file of the log, and every run.
    Segments,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 6] =
        [Self::Message, Self::Pending, Self::Ready, Self::Action, Self::Deliveries, Self::Segments];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Action => "action",
            Self::Deliveries => "deliveries",
            Self::Segments => "segments",
        }
    }

    /// The table of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
