//! The world of a model: a disk in memory where every call may change threads, a clock that shows the model's time, and
//! the state after a power cut now.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::message_log::{FileEpochSource, Identity, OPENING_SEGMENT_BYTES};
use delaymq_core::storage::{Crash, MemoryStorage, Storage, StorageFile};
use delaymq_core::store::{Follower, NewStore, open_identity, recover};
use delaymq_core::units::{Epoch, Millis};
use delaymq_engine::{
    Clock, ClockReading, Due, Durability, Leading, Options, OwnerOptions, PublishBatch, Store, SubscribeOptions,
    Subscription, modelled,
};

/// What the wall clock shows when a model begins.
pub(crate) const START: Millis = Millis(1_800_000_000_000);
const MILLISECOND_NS: u64 = 1_000_000;
pub(crate) const SUBJECT: &str = "orders";
pub(crate) const GROUP: &str = "billing";
/// No attributes, no tags, no id.
pub(crate) const META: [u8; 5] = [0; 5];

/// Lets others go first, perhaps.
pub(crate) fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}

/// The time of the model as its stores see it.
pub(crate) fn trusted_now() -> Millis {
    START.plus(u64::try_from(modelled::now().as_millis()).unwrap())
}

struct ModelClock;

impl Clock for ModelClock {
    fn read(&self) -> ClockReading {
        let passed_ns = u64::try_from(modelled::now().as_nanos()).unwrap();
        ClockReading { wall_ns: START.0 * MILLISECOND_NS + passed_ns, boot_ns: MILLISECOND_NS + passed_ns }
    }
}

/// A disk in memory; at every call another thread may go on.
#[derive(Clone)]
pub(crate) struct Disk(MemoryStorage);

impl Disk {
    fn wrap(file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(File(file))
    }
}

impl Storage for Disk {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        switch();
        self.0.create(path).map(Self::wrap)
    }
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        switch();
        self.0.open(path).map(Self::wrap)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.0.list(folder)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        switch();
        self.0.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<()> {
        switch();
        self.0.remove(path)
    }
    fn create_folder(&self, folder: &str) -> Result<()> {
        self.0.create_folder(folder)
    }
    fn sync_folder(&self, folder: &str) -> Result<()> {
        switch();
        self.0.sync_folder(folder)
    }
    fn free_bytes(&self) -> Result<u64> {
        switch();
        self.0.free_bytes()
    }
}

struct File(Arc<dyn StorageFile>);

impl StorageFile for File {
    fn path(&self) -> &str {
        self.0.path()
    }
    fn length(&self) -> Result<u64> {
        self.0.length()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        switch();
        self.0.read_at(offset, into)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        switch();
        self.0.write_at(offset, bytes)
    }
    fn allocate(&self, length: u64) -> Result<()> {
        self.0.allocate(length)
    }
    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        switch();
        self.0.punch(offset, length)
    }
    fn sync_data(&self) -> Result<()> {
        switch();
        self.0.sync_data()
    }
}

/// Something of a store that is not ended where a model has failed: its threads would be needed.
pub(crate) struct Kept<T>(Option<T>);

impl<T> Kept<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Some(value))
    }
}

impl<T> std::ops::Deref for Kept<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap()
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        if std::thread::panicking() {
            std::mem::forget(value);
        }
    }
}

/// News of a store for the thread of its node.
#[derive(Default)]
pub(crate) struct Told {
    is_told: shuttle::sync::Mutex<bool>,
    changed: shuttle::sync::Condvar,
}

impl Told {
    pub(crate) fn tell(&self) {
        *self.is_told.lock().unwrap() = true;
        self.changed.notify_one();
    }

    /// Waits for news since the last call.
    pub(crate) fn wait(&self) {
        let mut is_told = self.is_told.lock().unwrap();
        while !std::mem::take(&mut *is_told) {
            is_told = self.changed.wait(is_told).unwrap();
        }
    }
}

/// What a stop at this moment would leave of a store, and what the next opening would find.
pub(crate) struct Left {
    pub(crate) pending: u64,
    pub(crate) ready: u64,
}

/// See the module.
pub(crate) struct World {
    pub(crate) disk: MemoryStorage,
    pub(crate) durability: Durability,
    folder: PathBuf,
}

impl World {
    /// A world whose lock file lies in this folder.
    pub(crate) fn new(folder: &Path, durability: Durability) -> Self {
        Self { disk: MemoryStorage::new(1), durability, folder: folder.to_owned() }
    }

    /// Opens the store.
    pub(crate) fn open(&self) -> Kept<Arc<Store>> {
        self.open_with(OwnerOptions::default())
    }

    pub(crate) fn open_with(&self, owner: OwnerOptions) -> Kept<Arc<Store>> {
        let options = Options {
            durability: self.durability,
            segment_bytes: 64 << 10,
            owner,
            clock: Arc::new(ModelClock),
            ..Options::default()
        };
        let storage = Arc::new(Disk(self.disk.clone()));
        Kept::new(Store::open_on(storage, &self.folder, options, &mut |_| {}).unwrap())
    }

    /// Makes a copy of a group, which leads in its first epoch, and returns what tells its node of news.
    pub(crate) fn lead(&self) -> (Kept<Arc<Store>>, Arc<Told>) {
        let storage: Arc<dyn Storage> = Arc::new(Disk(self.disk.clone()));
        let new = NewStore { stream: [7; 16], node: [1; 16], segment_bytes: 64 << 10 };
        let identity = open_identity(storage.as_ref(), Some(new)).unwrap();
        let (owner, opening) = (OwnerOptions::default(), OPENING_SEGMENT_BYTES);
        let follower = Follower::open(Arc::clone(&storage), &identity, owner, opening, &mut |_| {}).unwrap();
        let told = Arc::new(Told::default());
        let tells = Arc::clone(&told);
        let leading = Leading {
            storage,
            path: self.folder.clone(),
            options: Options { durability: self.durability, clock: Arc::new(ModelClock), ..Options::default() },
            identity,
            parts: follower.lead(),
            checkpoint: None,
            epoch: Epoch(1),
            clock_ahead_ms: None,
            changed: Arc::new(move || tells.tell()),
            mend: Arc::new(|_| false),
        };
        (Kept::new(Store::lead(leading).unwrap()), told)
    }

    fn crashed(&self) -> MemoryStorage {
        self.disk.crash(if self.durability == Durability::Disk { Crash::PowerCutLosesAll } else { Crash::Kill }, 1)
    }

    /// True where a stop now would leave the bytes of this body, which no other message has.
    pub(crate) fn keeps(&self, body: &str) -> bool {
        let image = self.crashed().image();
        image.values().any(|bytes| bytes.windows(body.len()).any(|window| window == body.as_bytes()))
    }

    /// What the next opening would find if the machine stopped now.
    pub(crate) fn left(&self) -> Left {
        let crashed: Arc<dyn Storage> = Arc::new(self.crashed());
        let identity = Identity::read(crashed.as_ref()).unwrap().unwrap();
        let mut epochs = FileEpochSource::new(Arc::clone(&crashed), identity);
        let recovered = recover(&crashed, &identity, &mut epochs, OwnerOptions::default(), &mut |_| {}).unwrap();
        let state = recovered.owner.state();
        Left { pending: state.schedule.pending(), ready: state.dispatch.unfinished() }
    }
}

pub(crate) fn batch_of(store: &Store, bodies: &[&str], due: Due) -> PublishBatch {
    let mut batch = store.batch();
    for body in bodies {
        batch.push(SUBJECT, due, &META, body.as_bytes()).unwrap();
    }
    batch
}

pub(crate) fn subscribe(store: &Store) -> Kept<Arc<Subscription>> {
    Kept::new(store.subscribe(SUBJECT, GROUP, SubscribeOptions::default()).unwrap())
}
