//! The part of a snapshot that has come. It is in a folder of its own, and the store does not look there.
//!
//! The file with the number `n` of the snapshot is `incoming/n`. A snapshot of which a part is missing is worth nothing to a
//! later process, which removes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::adoption::{INCOMING_FOLDER, Staged, clear, incoming_path, seal};
use crate::error::{Error, Result, StorageFault};
use crate::message_log::{Identity, LOG_FOLDER};
use crate::planted::{Planted, is_on};
use crate::replication::{SnapshotOffer, SnapshotPiece, SnapshotPlace};
use crate::run::{LOAD_FOLDER, RUN_FOLDER};
use crate::storage::{Storage, StorageFile};
use crate::store::checkpoint::paths::CHECKPOINT_FOLDER;
use crate::store::recovery::check_segments;
use crate::store::recovery::visible_state::visible_state;
use crate::units::Sequence;

/// Bytes that are written before they are synced. More at once would hold up the commits of others for longer, where they share the disk.
const UNSYNCED_BYTES_MAX: u64 = 1 << 20;

/// See the module.
pub struct IncomingSnapshot {
    storage: Arc<dyn Storage>,
    offer: SnapshotOffer,
    /// The file that is being received, and where its next part begins.
    file: u32,
    offset: u64,
    opened: Option<Arc<dyn StorageFile>>,
    unsynced_bytes: u64,
}

impl IncomingSnapshot {
    /// Begins to receive a snapshot. The files of an earlier one are removed.
    ///
    /// # Errors
    /// `InvalidArgument` naming `snapshot` if it has a file that no snapshot has; `Storage` if the disk has no room for it; those of the
    /// storage.
    pub fn begin(storage: Arc<dyn Storage>, offer: SnapshotOffer) -> Result<Self> {
        check(&offer)?;
        for folder in [INCOMING_FOLDER, LOG_FOLDER, RUN_FOLDER, LOAD_FOLDER, CHECKPOINT_FOLDER] {
            storage.create_folder(folder)?;
        }
        storage.sync_folder("")?;
        clear(storage.as_ref())?;
        let free = storage.free_bytes()?;
        if free < offer.bytes {
            return Err(Error::Storage {
                operation: "receive",
                path: INCOMING_FOLDER.to_owned(),
                fault: StorageFault::NoSpace,
                message: format!("the snapshot has {} bytes, and {free} are free", offer.bytes),
            });
        }
        let mut incoming = Self { storage, offer, file: 0, offset: 0, opened: None, unsynced_bytes: 0 };
        incoming.pass_empty()?;
        Ok(incoming)
    }

    /// The snapshot, as it was offered.
    pub fn offer(&self) -> &SnapshotOffer {
        &self.offer
    }

    /// Removes what has come.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn discard(self) -> Result<()> {
        clear(self.storage.as_ref())
    }

    /// The place where the next part begins. `None` if everything has come.
    pub fn next(&self) -> Option<SnapshotPlace> {
        let (number, file, offset) = (self.offer.number, self.file, self.offset);
        self.length().map(|_| SnapshotPlace { number, file, offset })
    }

    /// The place where the part after this one begins. `None` if this part is not the next, or the last one.
    pub fn next_after(&self, piece: &SnapshotPiece) -> Option<SnapshotPlace> {
        let length = self.length().filter(|_| self.next() == Some(piece.place))?;
        let offset = end_of(piece).min(length);
        if offset < length {
            return Some(SnapshotPlace { offset, ..piece.place });
        }
        let files = self.offer.files.iter().zip(0_u32..).skip(self.file as usize);
        let next = files.skip(1).find(|(file, _)| file.length > 0);
        next.map(|(_, file)| SnapshotPlace { file, offset: 0, ..piece.place })
    }

    /// Writes a part. False if it is not the next one: it came twice, or one before it was lost.
    ///
    /// # Errors
    /// Those of the storage. The snapshot must be dropped then.
    pub fn take(&mut self, piece: &SnapshotPiece) -> Result<bool> {
        let Some(length) = self.length().filter(|_| self.next() == Some(piece.place)) else { return Ok(false) };
        let end = end_of(piece);
        if end > length || end == self.offset {
            return Ok(false);
        }
        let file = match self.opened.take() {
            Some(file) => file,
            None => self.storage.create(&incoming_path(self.file))?,
        };
        if piece.bytes.is_empty() {
            if end == length {
                // The file gets its length, and a hole.
                file.write_at(end.saturating_sub(1), &[0])?;
            }
        } else {
            file.write_at(self.offset.saturating_add(piece.zeros), &piece.bytes)?;
        }
        self.unsynced_bytes = self.unsynced_bytes.saturating_add(piece.bytes.len() as u64);
        self.offset = end;
        if end == length || self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.sync(file.as_ref())?;
        }
        self.opened = Some(file);
        if end == length {
            (self.opened, self.offset) = (None, 0);
            self.file = self.file.saturating_add(1);
            self.pass_empty()?;
        }
        Ok(true)
    }

    /// Checks a snapshot of which everything has come: the checkpoint, the files that it names, and the log after it.
    ///
    /// # Errors
    /// `Corrupt`, `MissingFile`, `NewerFormat`, `InvalidArgument` naming `snapshot`, those of the storage. The snapshot must be discarded
    /// then.
    pub fn check(&self, identity: &Identity) -> Result<()> {
        let staged: Arc<dyn Storage> = Arc::new(Staged::new(Arc::clone(&self.storage), &self.offer.files));
        let seen = visible_state(&staged, identity)?;
        let used = seen.chosen.first();
        let state = seen.owner.state();
        check_segments(staged.as_ref(), &identity.stream, used, state)?;
        let committed = used.map_or(Sequence(1), |used| used.snapshot.position.next_sequence);
        let end = Sequence(state.position.next_sequence.0.saturating_add(seen.facts_unconfirmed));
        if (committed, end) == (self.offer.committed, self.offer.end) {
            return Ok(());
        }
        let words =
            |committed: Sequence, end: Sequence| format!("a checkpoint before {committed} and a log before {end}");
        Err(invalid(&words(self.offer.committed, self.offer.end), words(committed, end)))
    }

    /// Decides, durably, that the files take the place of the store's own: from now on,
    /// [`adopt_snapshot`](super::adoption::adopt_snapshot) does so, also in a later process. Nothing may use the store.
    ///
    /// # Errors
    /// `InvalidArgument` naming `snapshot` if a part is missing; those of the storage. It is unknown then whether that was decided,
    /// and the copy must be opened again.
    pub fn seal(self) -> Result<()> {
        if let Some(place) = self.next() {
            return Err(invalid("all parts", format!("none at {} of file {}", place.offset, place.file)));
        }
        seal(self.storage.as_ref(), &self.offer.files)
    }

    fn length(&self) -> Option<u64> {
        self.offer.files.get(self.file as usize).map(|file| file.length)
    }

    fn pass_empty(&mut self) -> Result<()> {
        while self.length() == Some(0) {
            self.sync(self.storage.create(&incoming_path(self.file))?.as_ref())?;
            self.file = self.file.saturating_add(1);
        }
        Ok(())
    }

    fn sync(&mut self, file: &dyn StorageFile) -> Result<()> {
        self.unsynced_bytes = 0;
        if is_on(Planted::SnapshotNotSynced) { Ok(()) } else { file.sync_data() }
    }
}

fn end_of(piece: &SnapshotPiece) -> u64 {
    piece.place.offset.saturating_add(piece.zeros).saturating_add(piece.bytes.len() as u64)
}

/// A snapshot has files in four folders, each once.
fn check(offer: &SnapshotOffer) -> Result<()> {
    let mut paths = BTreeSet::new();
    for file in &offer.files {
        let is_plain = |name: &str| {
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
            !name.starts_with('.') && !name.is_empty() && name.bytes().all(is_known)
        };
        let folders = [LOG_FOLDER, RUN_FOLDER, LOAD_FOLDER, CHECKPOINT_FOLDER];
        let is_ours =
            file.path.split_once('/').is_some_and(|(folder, name)| folders.contains(&folder) && is_plain(name));
        if !is_ours || !paths.insert(&file.path) {
            return Err(invalid("files of a store, each once", file.path.clone()));
        }
    }
    Ok(())
}

fn invalid(expected: &str, found: String) -> Error {
    Error::InvalidArgument { argument: "snapshot", expected: expected.to_owned(), found }
}
