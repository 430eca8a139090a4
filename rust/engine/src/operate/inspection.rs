//! Looking at a store without its lock, while a pin keeps its files where they are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Identity;
use delaymq_core::storage::Storage;
use delaymq_core::store::{Inspection, KeepFinished, Pin, inspect_damaged, open_identity, pins};
use delaymq_core::units::Millis;

use crate::clock::system_clock::{Clock, SystemClock};
use crate::files::reader_pin::ReaderPin;
use crate::files::storage::FileStorage;
use crate::files::store_lock::holder;
use crate::sync::thread;

/// How long a pin holds files back where its reader died, in milliseconds.
const PIN_MS: u64 = 600_000;
/// What looks damaged under a writer is read again so often, and so long apart.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(150);

/// What was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inspected {
    /// The store.
    pub inspection: Inspection,
    /// The process that has it open, where the kernel tells.
    pub open_in: Option<u32>,
    /// When it was looked at, by the wall clock.
    pub seen: Millis,
    /// Pins that have not expired, this reader's own not among them.
    pub pins: Vec<Pin>,
}

/// Looks at the store in the folder `path`. Repairs nothing and changes no file, but for a pin while
/// it reads, where the folder may be written to. Of a store that an open would refuse as damaged it
/// shows what can be read, and says why. `keep` is how long files are kept by who
/// opens it.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Storage`; `Corrupt`, `MissingFile` where nothing says whose files
/// these are.
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

/// Looks at a store without its lock and changes no file, but for a pin that is left for so long, where the folder
/// may be written to: nothing that `look` sees goes while the pin is there.
///
/// # Errors
/// `NotAStore`, `NewerFormat`, `Storage`, and those of `look`: what looks damaged under a writer is looked at again.
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

/// One more pin for who goes on reading; the one before is dropped after it.
pub fn pin_again(path: &Path, for_ms: u64) -> Option<ReaderPin> {
    ReaderPin::leave(path, SystemClock.read().wall(), "reader", for_ms)
}

/// As an open would read it, again and again where a writer may be in the middle of it.
fn sound<T>(storage: &Arc<dyn Storage>, path: &Path, look: impl Fn(&Identity) -> Result<T>) -> Result<T> {
    let identity = open_identity(storage.as_ref(), None)?;
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

/// A writer may have been in the middle of it.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::MissingFile { .. }) || error.is_not_found()
}
