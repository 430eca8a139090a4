//! The result of a verification.

/// The findings and counts of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Log batches read.
    pub batches: u64,
    /// Records read, including their payloads.
    pub records: u64,
    /// Runs read, every block checked.
    pub runs: u64,
    /// Checkpoints read.
    pub checkpoints: u64,
    /// The damage and contradictions found, in words, each naming its file.
    pub findings: Vec<String>,
    /// The files that earlier repairs set aside, relative to the store.
    pub set_aside: Vec<String>,
    /// Messages that a fact in the kept log voided, in words.
    pub voided: Vec<String>,
}
