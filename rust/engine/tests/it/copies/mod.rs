//! A store that leads, over a copy on real files. The tests say what is committed, as a node does.

#![cfg(test)]

mod commits;
mod intake;
mod leading;
mod load;
mod loads;
mod rot;
mod shipping;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Durability, Identity, OPENING_SEGMENT_BYTES, Promise};
use delaymq_core::replication::LogView;
use delaymq_core::storage::Storage;
use delaymq_core::store::{Follower, NewStore, OwnerOptions, open_identity};
use delaymq_core::units::Epoch;
use delaymq_engine::{CopyCount, Due, FileStorage, Leading, Receipt, Store, StoreLock};

use crate::support::{Faults, Switches, options};

const ENOUGH: CopyCount = CopyCount { copies: 2, min_copies: 2 };
const SHORT: CopyCount = CopyCount { copies: 1, min_copies: 2 };
const LATER: Due = Due::After(3_600_000);

/// One copy of a group, with its lock.
struct Copy {
    folder: tempfile::TempDir,
    storage: Arc<dyn Storage>,
    switches: Arc<Switches>,
    _lock: StoreLock,
    /// How often a store has said that there is something new.
    told: Arc<AtomicU64>,
}

impl Copy {
    /// An empty copy of this number of one group.
    fn new(number: u8) -> Self {
        Self::with_segments(number, 1 << 20)
    }

    fn with_segments(number: u8, segment_bytes: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        drop(FileStorage::open(folder.path(), true).unwrap());
        let (storage, switches) = Faults::over(folder.path());
        let new = NewStore { stream: [7; 16], node: [number; 16], segment_bytes };
        let identity = open_identity(storage.as_ref(), Some(new)).unwrap();
        Identity { clustered: true, ..identity }.write(storage.as_ref()).unwrap();
        let lock = StoreLock::take(folder.path()).unwrap();
        Self { folder, storage, switches, _lock: lock, told: Arc::default() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn identity(&self) -> Identity {
        Identity::read(self.storage.as_ref()).unwrap().unwrap()
    }

    /// Opens it as a follower.
    fn follow(&self) -> Follower {
        self.follow_with(OwnerOptions::default())
    }

    fn follow_with(&self, options: OwnerOptions) -> Follower {
        let storage = Arc::clone(&self.storage);
        Follower::open(storage, &self.identity(), options, OPENING_SEGMENT_BYTES, &mut |_| {}).unwrap()
    }

    fn leading(&self, follower: Follower, epoch: u32) -> Leading {
        let promise = Promise { epoch: Epoch(epoch), ..self.identity().promise() };
        let identity = self.identity().keep_promise(self.storage.as_ref(), promise).unwrap();
        let told = Arc::clone(&self.told);
        Leading {
            storage: Arc::clone(&self.storage),
            path: self.path().to_owned(),
            options: options(Durability::Disk),
            identity,
            parts: follower.lead(),
            checkpoint: None,
            epoch: Epoch(epoch),
            clock_ahead_ms: None,
            changed: Arc::new(move || {
                told.fetch_add(1, Ordering::SeqCst);
            }),
            mend: Arc::new(|_| false),
        }
    }

    /// Becomes primary of this epoch, of which nothing is committed.
    fn lead(&self, epoch: u32) -> Arc<Store> {
        Store::lead(self.leading(self.follow(), epoch)).unwrap()
    }

    /// Becomes primary, and the copies have everything that it has.
    fn lead_begun(&self, epoch: u32) -> Arc<Store> {
        let store = self.lead(epoch);
        commit_all(&store, ENOUGH);
        assert!(store.has_begun());
        store
    }
}

/// All that is durable is committed now.
fn commit_all(store: &Store, count: CopyCount) {
    store.commit(store.durable(), count).unwrap();
}

/// Commits what is durable, for as long as `act` takes.
fn committing<T>(store: &Store, count: CopyCount, act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                if store.commit(store.durable(), count).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::SeqCst);
        found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn try_publish(store: &Store, due: Due, body: &str) -> Result<Receipt> {
    let mut batch = store.batch();
    batch.push("orders", due, &[0; 5], body.as_bytes())?;
    store.publish(&mut batch).map(|receipts| receipts.get(0).unwrap())
}
