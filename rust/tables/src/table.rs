//! Which tables there are.

/// A table of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every message in the log.
    Message,
    /// What is scheduled and neither dispatched nor cancelled.
    Pending,
    /// Every message that became ready.
    Ready,
    /// Every fact in the log that is a command, or changes what is handed over.
    Action,
    /// Every file of the log, and every run.
    Segments,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 5] = [Self::Message, Self::Pending, Self::Ready, Self::Action, Self::Segments];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Action => "action",
            Self::Segments => "segments",
        }
    }

    /// The table of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }
}
