//! Inspection of a store without its lock, while a pin keeps its files.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Identity;
use delaymq_core::storage::Storage;
use delaymq_core::store::{Inspection, KeepFinished, Pin, inspect_damaged, pins, read_identity};
use delaymq_core::units::Millis;

use crate::clock::system_clock::{Clock, SystemClock};
use crate::files::reader_pin::ReaderPin;
use crate::files::storage::FileStorage;
use crate::files::store_lock::holder;
use crate::sync::thread;

/// How long the pin of a dead reader keeps files, in milliseconds.
const PIN_MS: u64 = 600_000;
/// How often, and how far apart, something is read again that looks damaged while a process writes.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(150);

/// The result of an inspection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// The store.
    pub inspection: Inspection,
    /// The process that has it open, if the kernel says so.
    pub open_in: Option<u32>,
    /// When it was looked at, by the wall clock.
    pub seen: Millis,
    /// Pins that have not expired, without this reader's own.
    pub pins: Vec<Pin>,
}

/// Inspects the store in the folder `path`. Repairs nothing and changes no file, except for a pin while it reads, if
/// the folder is writable. Of a store that is too damaged to open it shows what can be read, and the reason. `keep` is
/// how long the process that opens the store keeps files.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Storage`; `Corrupt`, `MissingFile` if nothing says to which store the files belong.
pub fn inspect(path: &Path, keep: &KeepFinished) -> Result<Inspected> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::read_only(path)?);
    let now = SystemClock.read().wall();
    let pin = ReaderPin::leave(path, now, "inspect", PIN_MS);
    let mut pins = pins(storage.as_ref(), now)?;
    pins.retain(|other| pin.as_ref().is_none_or(|own| own.name != other.name));
    let look = |identity: &Identity| delaymq_core::store::inspect(&storage, identity, &pins, keep);
    let inspection = match sound(&storage, path, look) {
        Err(refused @ (Error::Corrupt { .. } | Error::MissingFile { .. })) => {
            inspect_damaged(&storage, refused.clone(), &pins, keep).map_err(|error| match error {
                Error::NotAStore { .. } => refused,
                other => other,
            })?
        }
        other => other?,
    };
    Ok(Inspected { inspection, open_in: holder(path), seen: now, pins })
}

/// Looks at a store without its lock. Changes no file, except for a pin that stays for so long, if the folder is
/// writable: nothing that `look` sees is removed while the pin is there.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Storage`, and those of `look`. What looks damaged while a process writes is read again.
pub fn look_pinned<T>(
    path: &Path,
    for_ms: u64,
    look: impl Fn(&Arc<dyn Storage>, &Identity) -> Result<T>,
) -> Result<(T, Arc<dyn Storage>, Option<ReaderPin>)> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::read_only(path)?);
    let pin = pin_again(path, for_ms);
    let seen = sound(&storage, path, |identity| look(&storage, identity))?;
    Ok((seen, storage, pin))
}

/// Another pin, for a reader that goes on. Drop the one before after this call.
pub fn pin_again(path: &Path, for_ms: u64) -> Option<ReaderPin> {
    ReaderPin::leave(path, SystemClock.read().wall(), "reader", for_ms)
}

/// Reads as an open would, again and again while a writer may be in the middle of a change.
fn sound<T>(storage: &Arc<dyn Storage>, path: &Path, look: impl Fn(&Identity) -> Result<T>) -> Result<T> {
    let identity = read_identity(storage.as_ref())?;
    let mut tries = 1;
    loop {
        match look(&identity) {
            Err(error) if may_pass(&error) && tries < TRIES && holder(path).is_some() => {
                tries = tries.saturating_add(1);
                thread::sleep(BETWEEN_TRIES);
            }
            other => return other,
        }
    }
}

/// True if a writer may have been in the middle of a change.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::MissingFile { .. }) || error.is_not_found()
}
