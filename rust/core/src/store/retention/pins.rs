//! What readers and archives leave beside the files that they need: pins, and marks of archives.

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

/// The mark of an archive that retention waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveMark {
    /// The name of its file.
    pub name: String,
    /// It has what facts below this told. One that cannot be read has nothing.
    pub end: Sequence,
}

/// The marks of all archives that retention waits for.
///
/// # Errors
/// Those of the storage.
pub fn archive_marks(storage: &dyn Storage) -> Result<Vec<ArchiveMark>> {
    let names = match storage.list(PIN_FOLDER) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let mark = |name: String| {
        let text = name.strip_prefix(ARCHIVED)?;
        let sequence = text.split_once('-').and_then(|(sequence, _)| sequence.parse().ok());
        Some(ArchiveMark { end: Sequence(sequence.unwrap_or_default()), name })
    };
    Ok(names.into_iter().filter_map(mark).collect())
}

/// Up to where all archives that retention waits for have what was told; `None` where it waits for none. A mark that
/// cannot be read holds everything.
pub fn archived_below(storage: &dyn Storage) -> Option<Sequence> {
    match archive_marks(storage) {
        Ok(marks) => marks.iter().map(|mark| mark.end).min(),
        Err(_) => Some(Sequence(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::MemoryStorage;

    #[test]
    fn the_archive_that_is_least_far_is_waited_for_and_a_mark_that_cannot_be_read_holds_all() {
        let storage = MemoryStorage::new(1);
        assert_eq!(archived_below(&storage), None);
        storage.create_folder(PIN_FOLDER).unwrap();
        let mark = |name: &str| drop(storage.create(&format!("{PIN_FOLDER}/{name}")).unwrap());
        mark("5000-reader-1-1");
        assert_eq!(archived_below(&storage), None);
        mark("archived-70-a");
        mark("archived-00000000000000000050-b-c");
        assert_eq!(archived_below(&storage), Some(Sequence(50)));
        mark("archived-x-b");
        assert_eq!(archived_below(&storage), Some(Sequence(0)));
    }
}
