//! A message that is certainly lost.

use crate::error::Error;
use crate::units::{Millis, Sequence};

/// A message that is certainly lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostMessage {
    /// Its subject.
    pub subject: String,
    /// The sequence of its payload.
    pub sequence: Sequence,
    /// When it was due, if known.
    pub due: Option<Millis>,
    /// Why it cannot be read.
    pub error: Error,
}
