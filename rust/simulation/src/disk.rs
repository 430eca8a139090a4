//! The disk of the simulated machine, and the content that a crash leaves.

use std::sync::Arc;

use delaymq_core::storage::{Crash, MemoryStorage, Storage};

use crate::chance::Chance;

/// How a machine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The process is killed.
    Kill,
    /// The power fails; chance decides which unsynced changes survive.
    PowerCut,
    /// The power fails, and all unsynced changes are lost.
    PowerCutLosesAll,
}

impl End {
    /// True if unsynced bytes may be lost.
    pub fn cuts_power(self) -> bool {
        self != Self::Kill
    }
}

/// See the module.
pub struct Disk {
    storage: MemoryStorage,
}

impl Disk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self { storage: MemoryStorage::new(seed) }
    }

    /// A disk with this content.
    pub fn of(storage: MemoryStorage) -> Self {
        Self { storage }
    }

    /// The disk, with its faults.
    pub fn storage(&self) -> &MemoryStorage {
        &self.storage
    }

    /// The disk as the core sees it.
    pub fn shared(&self) -> Arc<dyn Storage> {
        Arc::new(self.storage.clone())
    }

    /// A copy of the current content, without faults.
    pub fn copy(&self) -> Arc<dyn Storage> {
        Arc::new(self.storage.crash(Crash::Kill, 0))
    }

    /// Ends the process or the machine. The next process finds this disk.
    pub fn crash(&mut self, end: End, chance: &mut Chance) {
        let crash = match end {
            End::Kill => Crash::Kill,
            End::PowerCut => Crash::PowerCut,
            End::PowerCutLosesAll => Crash::PowerCutLosesAll,
        };
        self.storage = self.storage.crash(crash, chance.next_number());
    }

    /// Bytes of all files that have a name.
    pub fn used_bytes(&self) -> u64 {
        self.storage.image().values().map(|bytes| bytes.len() as u64).sum()
    }
}
