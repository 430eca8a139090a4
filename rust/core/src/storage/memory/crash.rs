//! How a crash treats what was not synced.

/// How a crash treats what was not synced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    /// The process is killed: all that it wrote is there, and as little synced as before.
    Kill,
    /// The power fails and nothing survives that was not synced.
    PowerCutLosesAll,
    /// The power fails and of each unsynced sector of 512 bytes, each length and each folder entry
    /// chance decides how much of its history survives, whatever happened to its neighbours.
    PowerCut,
}
