//! What the tests of the engine share: opening with test options, publishing, collecting, and a
//! storage that fails on demand.
#![expect(dead_code, reason = "each test binary uses a part")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use delaymq_core::error::{Error, Result, StorageFault};
use delaymq_core::storage::{Storage, StorageFile};
use delaymq_engine::{
    Delivered, DeliveryKey, Due, Durability, FileStorage, Options, Receipt, Store, SubscribeOptions, Subscription,
};

pub(crate) fn options(durability: Durability) -> Options {
    Options { durability, segment_bytes: 1 << 20, ..Options::default() }
}

pub(crate) fn open(path: &Path, options: Options) -> Arc<Store> {
    Store::open(path, options, &mut |_| {}).unwrap()
}

pub(crate) fn publish(store: &Store, subject: &str, due: Due, body: &[u8]) -> Receipt {
    let mut batch = store.batch();
    batch.push(subject, due, &[0, 0, 0, 0, 0], body).unwrap();
    store.publish(&mut batch).unwrap().get(0).unwrap()
}

pub(crate) fn subscribe(store: &Store, subject: &str, group: &str) -> Arc<Subscription> {
    store.subscribe(subject, group, SubscribeOptions::default()).unwrap()
}

/// Pulls until `count` messages are there, or five seconds have passed; acknowledges nothing.
pub(crate) fn collect(subscription: &Subscription, count: usize) -> Vec<Delivered> {
    let until = Instant::now() + Duration::from_secs(5);
    let mut collected = Vec::new();
    while collected.len() < count && Instant::now() < until {
        collected.extend(subscription.pull(count - collected.len(), Duration::from_millis(100)).unwrap());
    }
    collected
}

/// As `collect`, acknowledging each message as it comes.
pub(crate) fn consume(subscription: &Subscription, count: usize) -> Vec<Delivered> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut collected = Vec::new();
    while collected.len() < count && Instant::now() < until {
        let pulled = subscription.pull(count - collected.len(), Duration::from_millis(100)).unwrap();
        let keys: Vec<DeliveryKey> = pulled.iter().map(|message| message.key).collect();
        subscription.acknowledge(&keys).unwrap();
        collected.extend(pulled);
    }
    collected
}

/// All that is handed over now, without waiting.
pub(crate) fn taken(messages: &Subscription) -> Vec<Delivered> {
    let mut all = Vec::new();
    loop {
        let pulled = messages.pull(1_000, Duration::ZERO).unwrap();
        if pulled.is_empty() {
            return all;
        }
        all.extend(pulled);
    }
}

pub(crate) fn bodies(messages: &[Delivered]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8(message.body().to_vec()).unwrap()).collect()
}

pub(crate) fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(10);
    while !check() {
        assert!(Instant::now() < until, "not within ten seconds: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Lengths of the log's segments in bytes, by number.
pub(crate) fn segment_lengths(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder.join("log")).unwrap().flatten();
    let named = entries.filter(|entry| entry.path().extension().is_some_and(|suffix| suffix == "segment"));
    let mut found: Vec<_> = named.map(|entry| (entry.file_name(), entry.metadata().unwrap().len())).collect();
    found.sort();
    found.into_iter().map(|(_, length)| length).collect()
}

/// What the log takes of the disk. A file that goes meanwhile takes nothing.
fn taken_bytes(root: &Path) -> u64 {
    let files = std::fs::read_dir(root.join("log")).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Real files behind switches.
pub(crate) struct Faults {
    files: FileStorage,
    switches: Arc<Switches>,
}

#[derive(Default)]
pub(crate) struct Switches {
    pub(crate) no_space: AtomicBool,
    /// So much is said to be free; 0 for what really is.
    pub(crate) free_bytes: AtomicU64,
    /// So large is the disk; what files have taken is not free. 0 for no bound.
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) fail_syncs: AtomicBool,
    /// Room for new segments is made once this is false again.
    pub(crate) no_segments: AtomicBool,
    /// So do writes of the log.
    pub(crate) stuck_writes: AtomicBool,
    /// Syncs take until this is false again.
    pub(crate) stuck: AtomicBool,
    /// So do those of runs.
    pub(crate) stuck_runs: AtomicBool,
    /// The disk has no holes.
    pub(crate) no_holes: AtomicBool,
    /// How often holes were asked for.
    pub(crate) punches: AtomicU64,
    /// Syncs of runs that were begun.
    pub(crate) run_syncs: AtomicU64,
    /// Segments of the log that are not mapped cannot be read.
    pub(crate) fail_reads: AtomicBool,
    pub(crate) failed_reads: AtomicU64,
    /// Their reads take until this is false again.
    pub(crate) stuck_reads: AtomicBool,
    /// Bytes of them that were read.
    pub(crate) segment_bytes_read: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) failed_path: Mutex<String>,
}

impl Faults {
    pub(crate) fn over(path: &Path) -> (Arc<Self>, Arc<Switches>) {
        let switches = Arc::new(Switches::default());
        let files = FileStorage::open(path, true).unwrap();
        (Arc::new(Self { files, switches: Arc::clone(&switches) }), switches)
    }

    fn wrap(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(FaultyFile { file, switches: Arc::clone(&self.switches) })
    }
}

fn fault(operation: &'static str, path: &str, fault: StorageFault) -> Error {
    Error::Storage { operation, path: path.to_owned(), fault, message: "as the test wants".to_owned() }
}

impl Storage for Faults {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.files.create(path).map(|file| self.wrap(file))
    }
    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.files.open(path).map(|file| self.wrap(file))
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.files.list(folder)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.files.rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<()> {
        self.files.remove(path)
    }
    fn create_folder(&self, folder: &str) -> Result<()> {
        self.files.create_folder(folder)
    }
    fn sync_folder(&self, folder: &str) -> Result<()> {
        self.files.sync_folder(folder)
    }
    fn free_bytes(&self) -> Result<u64> {
        let disk_bytes = self.switches.disk_bytes.load(Ordering::SeqCst);
        if disk_bytes > 0 {
            return Ok(disk_bytes.saturating_sub(taken_bytes(self.files.root())));
        }
        match self.switches.free_bytes.load(Ordering::SeqCst) {
            0 => self.files.free_bytes(),
            said => Ok(said),
        }
    }
}

struct FaultyFile {
    file: Arc<dyn StorageFile>,
    switches: Arc<Switches>,
}

impl StorageFile for FaultyFile {
    fn path(&self) -> &str {
        self.file.path()
    }
    fn length(&self) -> Result<u64> {
        self.file.length()
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        if self.switches.fail_reads.load(Ordering::SeqCst) && self.path().ends_with(".segment") {
            self.switches.failed_reads.fetch_add(1, Ordering::SeqCst);
            return Err(fault("read", self.path(), StorageFault::Io));
        }
        while self.switches.stuck_reads.load(Ordering::SeqCst) && self.path().ends_with(".segment") {
            std::thread::sleep(Duration::from_millis(1));
        }
        let count = self.file.read_at(offset, into)?;
        if self.path().ends_with(".segment") {
            self.switches.segment_bytes_read.fetch_add(count as u64, Ordering::SeqCst);
        }
        Ok(count)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        while self.path().ends_with(".segment") && self.switches.stuck_writes.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let grows = self.file.length()? < offset + bytes.len() as u64;
        if grows && self.switches.no_space.load(Ordering::SeqCst) {
            return Err(fault("write", self.path(), StorageFault::NoSpace));
        }
        self.file.write_at(offset, bytes)
    }
    fn allocate(&self, length: u64) -> Result<()> {
        while self.switches.no_segments.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.switches.no_space.load(Ordering::SeqCst) {
            return Err(fault("allocate", self.path(), StorageFault::NoSpace));
        }
        self.file.allocate(length)
    }
    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        self.switches.punches.fetch_add(1, Ordering::SeqCst);
        if self.switches.no_holes.load(Ordering::SeqCst) {
            return Ok(false);
        }
        self.file.punch(offset, length)
    }
    fn sync_data(&self) -> Result<()> {
        self.switches.syncs.fetch_add(1, Ordering::SeqCst);
        let is_run = self.path().contains(".run");
        self.switches.run_syncs.fetch_add(u64::from(is_run), Ordering::SeqCst);
        while self.switches.stuck.load(Ordering::SeqCst) || (is_run && self.switches.stuck_runs.load(Ordering::SeqCst))
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.switches.fail_syncs.load(Ordering::SeqCst) {
            return Err(fault("sync", self.path(), StorageFault::Io));
        }
        self.file.sync_data()
    }
}
