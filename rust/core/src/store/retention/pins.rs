//! The files that readers and archives place in the store to hold back retention: pins and archive marks.

use crate::error::Result;
use crate::planted::{Planted, is_on};
use crate::storage::{Storage, names_in};
use crate::units::{Millis, Sequence};

/// The folder of pins: files that hold retention back.
pub const PIN_FOLDER: &str = "pins";

/// The pin of a reader without the lock: while the pin exists, no file may be removed. The name of its file is the
/// expiry in milliseconds, a `-`, and the name of the reader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// The name of its file.
    pub name: String,
    /// When the pin expires.
    pub expires: Millis,
}

/// The pins that have not expired at `now`.
///
/// # Errors
/// The errors of the storage.
pub fn pins(storage: &dyn Storage, now: Millis) -> Result<Vec<Pin>> {
    let names = names_in(storage, PIN_FOLDER)?;
    let pin = |name: String| {
        let expires = Millis(name.split_once('-')?.0.parse().ok()?);
        (expires > now).then_some(Pin { name, expires })
    };
    Ok(names.into_iter().filter_map(pin).collect())
}

/// True if a reader without the lock has a pin that has not expired at `now`: no file may be removed.
///
/// # Errors
/// The errors of the storage.
pub fn is_pinned(storage: &dyn Storage, now: Millis) -> Result<bool> {
    Ok(!pins(storage, now)?.is_empty() && !is_on(Planted::PinIgnored))
}

/// The prefix of the name of an archive mark. A sequence follows, a `-`, and the name of the archive. The archive has
/// read all facts below that sequence.
const ARCHIVED: &str = "archived-";

/// The mark of an archive that retention waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchiveMark {
    /// The name of its file.
    pub name: String,
    /// The sequence below which the archive has read all facts; 0 if the mark cannot be read.
    pub end: Sequence,
}

/// The marks of all archives that retention waits for.
///
/// # Errors
/// The errors of the storage.
pub fn archive_marks(storage: &dyn Storage) -> Result<Vec<ArchiveMark>> {
    let names = names_in(storage, PIN_FOLDER)?;
    let mark = |name: String| {
        let text = name.strip_prefix(ARCHIVED)?;
        let sequence = text.split_once('-').and_then(|(sequence, _)| sequence.parse().ok());
        Some(ArchiveMark { end: Sequence(sequence.unwrap_or_default()), name })
    };
    Ok(names.into_iter().filter_map(mark).collect())
}

/// Returns the sequence below which all archives have read everything; `None` if retention waits for no archive. A mark
/// that cannot be read holds all facts.
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
