//! What readers leave beside a store so that what they read is kept: pins, and the marks of archives.

use crate::error::Result;
use crate::storage::Storage;
use crate::units::{Millis, Sequence};

/// The folder of pins: files that hold retention back.
pub const PIN_FOLDER: &str = "pins";

/// A reader without the lock, under whom nothing may be removed. Its file's name is the expiry in
/// milliseconds, a `-`, and who it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The name of its file.
    pub name: String,
    /// When it ends by itself.
    pub expires: Millis,
}

/// The pins that have not expired at `now`.
///
/// # Errors
/// Those of the storage.
pub fn pins(storage: &dyn Storage, now: Millis) -> Result<Vec<Pin>> {
    let names = match storage.list(PIN_FOLDER) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let pin = |name: String| {
        let expires = Millis(name.split_once('-')?.0.parse().ok()?);
        (expires > now).then_some(Pin { name, expires })
    };
    Ok(names.into_iter().filter_map(pin).collect())
}

/// True where a reader without the lock has left a pin that has not expired at `now`: nothing may
/// be removed.
///
/// # Errors
/// Those of the storage.
pub fn is_pinned(storage: &dyn Storage, now: Millis) -> Result<bool> {
    Ok(!pins(storage, now)?.is_empty())
}

/// With this begins the name of the mark of an archive that retention waits for; a sequence follows, a `-`, and whose it
/// is. What facts below it told is archived.
const ARCHIVED: &str = "archived-";

/// Up to where all archives that retention waits for have what was told; `None` where it waits for none. A mark that
/// cannot be read holds everything.
pub fn archived_below(storage: &dyn Storage) -> Option<Sequence> {
    let mark = |name: &String| {
        let text = name.strip_prefix(ARCHIVED)?;
        let sequence = text.split_once('-').and_then(|(sequence, _)| sequence.parse().ok());
        Some(Sequence(sequence.unwrap_or_default()))
    };
    match storage.list(PIN_FOLDER) {
        Ok(names) => names.iter().filter_map(mark).min(),
        Err(error) if error.is_not_found() => None,
        Err(_) => Some(Sequence(0)),
    }
}
