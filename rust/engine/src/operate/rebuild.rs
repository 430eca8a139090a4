//! Rebuilding the runs of a store. Any process plans and rebuilds pieces without the lock; a process with the lock
//! adopts them.

use std::path::Path;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::message_log::Identity;
use delaymq_core::run::{LoadName, StagedRun};
use delaymq_core::storage::Storage;
use delaymq_core::store::{Adopted, KeptWindow, RebuildPlan, RebuiltPiece, open_identity};

use crate::clock::system_clock::{Clock, SystemClock};
use crate::files::reader_pin::ReaderPin;
use crate::files::storage::FileStorage;
use crate::files::store_lock::StoreLock;
use crate::opening::random;
use crate::operate::inspection::look_pinned;

/// How long retention keeps the files that a plan names, in milliseconds: other processes read the pieces, perhaps one
/// after the other.
const PLAN_PIN_MS: u64 = 3_600_000;

/// Plans to rebuild the runs of the store in the folder `path`, as of its newest checkpoint, in pieces of at most so
/// many sequences. The store may be open, or too damaged to open. If the folder is writable, retention removes nothing
/// of it for an hour.
///
/// # Errors
/// As [`delaymq_core::store::plan_rebuild`]; `NotAStore`.
pub fn plan_rebuild(path: &Path, piece_sequences: u32) -> Result<(RebuildPlan, Vec<KeptWindow>)> {
    let (planned, _, pin) = look_pinned(path, PLAN_PIN_MS, |storage, identity| {
        delaymq_core::store::plan_rebuild(storage, identity, piece_sequences)
    })?;
    if let Some(pin) = pin {
        pin.outlive();
    }
    Ok(planned)
}

/// Rebuilds a piece of a plan, compares it with the existing run and, if asked to, writes its run next to the store.
/// The store may be open.
///
/// # Errors
/// As [`delaymq_core::store::rebuild_piece`]; `NotAStore`.
pub fn rebuild_piece(path: &Path, plan: &RebuildPlan, index: u32, stage: bool) -> Result<RebuiltPiece> {
    let beside = stage.then(|| FileStorage::open(path, false)).transpose()?;
    let (rebuilt, _, pin) = look_pinned(path, PLAN_PIN_MS, |storage, identity| {
        let stage = match &beside {
            Some(beside) => {
                let name = LoadName { staged: SystemClock.read().wall(), nonce: random()? };
                Some((beside as &dyn Storage, name))
            }
            None => None,
        };
        delaymq_core::store::rebuild_piece(storage, identity, plan, index, stage)
    })?;
    drop::<Option<ReaderPin>>(pin);
    Ok(rebuilt)
}

/// Refuses a store that is open, before anything is rebuilt in vain.
///
/// # Errors
/// `Locked` if it is open; `NotAStore`, `NewerFormat`, `Storage`.
pub fn refuse_open(path: &Path) -> Result<()> {
    lock_closed(path).map(drop)
}

/// Takes the lock of a store that no process has open.
/// Fails with `Locked` if one has it open; `NotAStore`, `NewerFormat`, `Storage`.
pub(crate) fn lock_closed(path: &Path) -> Result<(Arc<dyn Storage>, Identity, StoreLock)> {
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::open(path, false)?);
    // Refuses the folder of something else before the lock file is made in it.
    open_identity(storage.as_ref(), None)?;
    let lock = StoreLock::take(path)?;
    let identity = open_identity(storage.as_ref(), None)?;
    Ok((storage, identity, lock))
}

/// Replaces the existing runs by the rebuilt runs of all pieces, or changes nothing.
///
/// # Errors
/// `Locked` if the store is open; as [`delaymq_core::store::adopt_rebuilt`]; `NotAStore`.
pub fn adopt_rebuilt(path: &Path, plan: &RebuildPlan, pieces: &[(u32, Option<StagedRun>)]) -> Result<Adopted> {
    let (storage, identity, _lock) = lock_closed(path)?;
    delaymq_core::store::adopt_rebuilt(&storage, &identity, plan, pieces)
}
