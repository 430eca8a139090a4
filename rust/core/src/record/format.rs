//! The version of the format on disk: which one is written, and which are refused.
//!
//! Each file says its format in its header. A release reads its own format and those before it, writes its own
//! into every new file, and refuses a newer one. CONTRIBUTING.md lists the steps of a change.

use crate::error::{Error, Result};
use crate::planted::next_format;

/// The format that this release writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;
/// The made-up format that follows, for a test of an upgrade.
const NEXT_FORMAT: u32 = FORMAT_VERSION + 1;

/// The format that new files get. It is [`FORMAT_VERSION`], except in a test of an upgrade.
#[inline]
pub fn written_format() -> u32 {
    if next_format::is_known() { NEXT_FORMAT } else { FORMAT_VERSION }
}

/// Refuses a file whose header says, at `offset`, a format that this release does not read.
pub(crate) fn check_format(path: &str, offset: u64, found: u32) -> Result<()> {
    let supported = written_format();
    match found {
        0 => Err(Error::corrupt(path, offset, "a format from 1 on", found)),
        _ if found > supported => Err(Error::NewerFormat { path: path.to_owned(), offset, found, supported }),
        _ => Ok(()),
    }
}

/// The number that a checkpoint of the made-up next format has and one of this format does not.
#[inline]
pub(crate) fn made_up_number(format: u32) -> Option<u64> {
    (next_format::is_known() && format >= NEXT_FORMAT).then_some(next_format::MORE)
}
