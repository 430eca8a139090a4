//! The part of a snapshot that has come. It is in a folder of its own, and the store does not look there.
//!
//! The file with the number `n` of the snapshot is `incoming/n`. A snapshot of which a part is missing is worth nothing to a
//! later process, which removes it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::adoption::{INCOMING_FOLDER, Staged, clear, incoming_path, seal};
use crate::error::{Error, Result};
use crate::message_log::{Identity, LOG_FOLDER};
use crate::planted::{Planted, is_on};
use crate::replication::{SentFile, SnapshotOffer};
use crate::run::{LOAD_FOLDER, RUN_FOLDER};
use crate::storage::Storage;
use crate::store::checkpoint::paths::CHECKPOINT_FOLDER;
use crate::store::copies::incoming_files::{IncomingFile, IncomingFiles, check_room};
use crate::store::recovery::check_segments;
use crate::store::recovery::visible_state::visible_state;
use crate::units::Sequence;

/// Bytes that are written before they are synced. More at once would hold up the commits of others for longer, where they share the disk:
/// with 1 MiB, the 99th percentile of a publish doubles meanwhile.
const UNSYNCED_BYTES_MAX: u64 = 256 << 10;

/// See the module.
pub struct IncomingSnapshot {
    storage: Arc<dyn Storage>,
    offer: SnapshotOffer,
    files: IncomingFiles,
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
        check_room(storage.as_ref(), INCOMING_FOLDER, offer.bytes)?;
        let mut files = VecDeque::new();
        for (number, file) in (0..).zip(&offer.files) {
            let (path, length) = (incoming_path(number), file.length);
            if length > 0 {
                let file = SentFile::Snapshot { number: offer.number, file: number };
                files.push_back(IncomingFile { file, path, length, run: None });
            } else {
                let empty = storage.create(&path)?;
                if !is_on(Planted::SnapshotNotSynced) {
                    empty.sync_data()?;
                }
            }
        }
        let files = IncomingFiles::new(Arc::clone(&storage), files, UNSYNCED_BYTES_MAX);
        Ok(Self { storage, offer, files })
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

    /// Its files, as they come.
    pub fn files(&mut self) -> &mut IncomingFiles {
        &mut self.files
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
        if let Some(place) = self.files.next() {
            return Err(invalid("all parts", format!("none at {place:?}")));
        }
        seal(self.storage.as_ref(), &self.offer.files)
    }
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
