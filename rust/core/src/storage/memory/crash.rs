//! The crashes of the simulated disk.

/// The effect of a crash on unsynced changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process is killed: all its writes are there, and no more of them are synced than before.
    Kill,
    /// The power fails, and no unsynced change survives.
    PowerCutLosesAll,
    /// The power fails. For each unsynced sector of 512 bytes, each length and each folder entry, chance decides
    /// independently how many of its changes survive.
    PowerCut,
}
