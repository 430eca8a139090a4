//! What a verification found.

/// What a verification found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verification {
    /// Log batches read.
    pub batches: u64,
    /// Records read, their payloads checked.
    pub records: u64,
    /// Runs read, every block checked.
    pub runs: u64,
    /// Checkpoints read.
    pub checkpoints: u64,
    /// What is wrong, in words, each naming its file.
    pub findings: Vec<String>,
    /// What was set aside by earlier repairs: files, relative to the store.
    pub set_aside: Vec<String>,
    /// Messages that were given up by a fact of the log that is kept, in words.
    pub voided: Vec<String>,
}
