//! When what was written is answered.

/// What an answer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The disk: it survives a power cut.
    Disk,
    /// The operating system: it survives a killed process.
    Os,
}

impl Durability {
    /// The number that batches carry.
    pub const fn code(self) -> u32 {
        match self {
            Self::Disk => 0,
            Self::Os => 1,
        }
    }
}
