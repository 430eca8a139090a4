//! Where the configuration of a group of copies is kept: a register that changes by compare-and-swap.
//!
//! In: reads and swaps of one [`Register`]. Out: its value with the number of its version and of its coordinator.
//! Read `value` (the value as JSON), then `file` (a register in a file, for nodes of one machine) and `etcd` (a key of an etcd
//! cluster). Calls block, so a node makes them on a thread of its own.
//!
//! A coordinator is asked for nothing but this: no lease, no lock and no clock of it matters, and no message passes
//! through it.

mod etcd;
mod file;
mod value;

use std::time::Duration;

use delaymq_core::replication::{Reading, Register, SwapAnswer, Version};

pub use etcd::{EtcdCoordinator, EtcdOptions, EtcdTls};
pub use file::FileCoordinator;
pub use value::{decode, encode};

/// A register that several nodes read and swap.
pub trait Coordinator: Send + Sync {
    /// The value now. `None` if there is none yet.
    ///
    /// # Errors
    /// See [`CoordinatorError`].
    fn read(&self) -> Result<Option<Reading>, CoordinatorError>;

    /// Replaces the value if its version is `expected`, which is 0 where there is none yet. The answer is won or lost: for
    /// an error, the caller gives [`SwapAnswer::Unknown`] to the state machine.
    ///
    /// # Errors
    /// See [`CoordinatorError`]. After an error the outcome is unknown: the swap may have been carried out, or may still be.
    fn swap(&self, expected: Version, value: &Register) -> Result<SwapAnswer, CoordinatorError>;

    /// Waits until the value has a later version than `since`, or for `at_most`. The answer is a hint: read the
    /// value to know.
    ///
    /// # Errors
    /// See [`CoordinatorError`].
    fn changed(&self, since: Version, at_most: Duration) -> Result<bool, CoordinatorError>;
}

/// Why a coordinator gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// No endpoint answered. The reasons are in the order of the endpoints.
    #[error("no endpoint of the coordinator answers: {}", reasons.join("; "))]
    Unreachable {
        /// One reason for each endpoint.
        reasons: Vec<String>,
    },
    /// The coordinator answered that it does not do what was asked.
    #[error("the coordinator at {endpoint} refuses with status {status}: {message}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The answer, or the value in it, is not what was expected.
    #[error("{place} holds {found}, expected {expected}")]
    Malformed {
        /// The endpoint or the path.
        place: String,
        /// The expected content.
        expected: String,
        /// The content that was found.
        found: String,
    },
    /// The register is gone: somebody removed it.
    #[error("the register {key} is gone; restore it from a backup")]
    Missing {
        /// Its key.
        key: String,
    },
    /// An option cannot be used.
    #[error("{option}: {message}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Why not.
        message: String,
    },
    /// A file operation failed.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
}
