//! A message that is certain to be lost.

use crate::error::Error;
use crate::units::{Millis, Sequence};

/// A message that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostMessage {
    /// Its subject.
    pub subject: String,
    /// The sequence of its payload.
    pub sequence: Sequence,
    /// When it was due, where that is known.
    pub due: Option<Millis>,
    /// Why it cannot be read.
    pub error: Error,
}
