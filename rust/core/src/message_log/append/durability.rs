//! The two durabilities that a store can promise.

/// The durability that an answer waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// On the disk: the data survives a power cut.
    Disk,
    /// With the operating system: the data survives a killed process.
    Os,
}

impl Durability {
    /// The code of this durability in a batch header.
    pub const fn code(self) -> u32 {
        match self {
            Self::Disk => 0,
            Self::Os => 1,
        }
    }
}
