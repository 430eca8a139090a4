//! Staging next to a store, which may be open meanwhile: only its folder `loads` changes.

use std::path::Path;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::run::{LOAD_FOLDER, LoadName, Stager, StagingLimits};
use delaymq_core::storage::Storage;
use delaymq_core::store::read_identity;

use crate::clock::system_clock::{Clock, SystemClock};
use crate::files::storage::FileStorage;
use crate::opening::random;

/// A stager that writes its files where the store in this folder looks for them.
///
/// # Errors
/// `NotAStore` where the folder holds something else; those of the storage.
pub fn stager_at(path: &Path, limits: StagingLimits) -> Result<Stager<'static>> {
    let storage = FileStorage::open(path, false)?;
    // Also next to a copy in a group, which may be that of the primary.
    read_identity(&storage)?;
    storage.create_folder(LOAD_FOLDER)?;
    storage.sync_folder("")?;
    let mut nonce = u128::from_le_bytes(random()?);
    // One random number for the first file, counted up for the others, collides as rarely as a random number for each.
    let name = move || {
        nonce = nonce.wrapping_add(1);
        LoadName { staged: SystemClock.read().wall(), nonce: nonce.to_le_bytes() }
    };
    Ok(Stager::sharing(Arc::new(storage), limits, name))
}
