//! The tape of a small world: every call that changes the disk, the disk after the call, and the promises so far.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Identity, ScanStart, Scanner};
use delaymq_core::record::batch::BatchHeader;
use delaymq_core::storage::{Crash, MemoryStorage, Storage, StorageFile};
use delaymq_core::units::{Epoch, Location, SegmentNumber, Sequence};

use crate::ledger::Ledger;
use crate::node::AppliedBatch;

/// A place in a history: the next sequence, and the chain before it.
pub type Place = (Sequence, u32);

/// The place before the first fact.
pub const ROOT: Place = (Sequence(1), 0);

/// The history at one place.
#[derive(Debug)]
pub struct Stand {
    /// The previous place.
    pub parent: Option<Place>,
    /// The batch between the previous place and this one.
    pub batch: Option<AppliedBatch>,
    /// The result of all batches up to this place.
    pub ledger: Ledger,
}

/// Every batch with records that was written, linked to the batch before it. A crash may start a branch.
#[derive(Clone, Debug)]
pub struct Tree {
    stands: BTreeMap<Place, Arc<Stand>>,
    tip: Place,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Stand { parent: None, batch: None, ledger: Ledger::default() };
        Self { stands: BTreeMap::from([(ROOT, Arc::new(root))]), tip: ROOT }
    }
}

impl Tree {
    /// The history at this place.
    pub fn get(&self, place: Place) -> Option<&Stand> {
        self.stands.get(&place).map(AsRef::as_ref)
    }

    /// Adds a batch that is about to be written.
    fn add(&mut self, header: BatchHeader, start: Location, bytes: &[u8]) {
        let base = Sequence(header.base_sequence.get());
        let parent = (base, header.chain_before.get());
        let Some(before) = self.get(parent) else { return };
        let batch = AppliedBatch { header, start, bytes: bytes.to_vec() };
        let mut ledger = before.ledger.clone();
        ledger.apply(&batch);
        self.tip = (batch.end(), header.chain.get());
        let stand = Stand { parent: Some(parent), batch: Some(batch), ledger };
        self.stands.insert(self.tip, Arc::new(stand));
    }

    /// The places up to this one, the last first.
    pub fn path(&self, place: Place) -> impl Iterator<Item = (Place, &Stand)> {
        let mut next = Some(place);
        std::iter::from_fn(move || {
            let at = next?;
            let stand = self.get(at)?;
            next = stand.parent;
            Some((at, stand))
        })
    }

    /// The last place on the path to `from` whose next sequence is not above `sequence`.
    fn place_at(&self, from: Place, sequence: Sequence) -> Place {
        self.path(from).map(|(place, _)| place).find(|place| place.0 <= sequence).unwrap_or(ROOT)
    }

    /// True if `place` is on the path to `other`, or equals it.
    pub fn leads_to(&self, place: Place, other: Place) -> bool {
        self.path(other).any(|(at, _)| at == place)
    }
}

/// The promises to users, and the epoch in use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Promise {
    /// Facts before this place survive the end of the process.
    pub killed: Place,
    /// Facts before this place survive a power cut.
    pub cut: Place,
    /// The epoch in use: the next opening must begin a higher one.
    pub epoch: Epoch,
}

/// One moment: the state after a call that changed the disk.
#[derive(Clone)]
pub struct Point {
    /// The disk at this moment, with its unsynced changes.
    pub storage: MemoryStorage,
    /// The file that the call wrote or punched.
    pub written: Option<String>,
    /// The call, as text.
    pub call: String,
    /// The promises at this moment.
    pub promise: Promise,
}

/// See the module.
pub struct Tape {
    /// The moments since the tape was started.
    pub points: Vec<Point>,
    /// The batches, from the first fact on.
    pub tree: Tree,
    promise: Promise,
    runs: bool,
}

impl Tape {
    /// An empty tape that is not started.
    pub fn new() -> Self {
        let promise = Promise { killed: ROOT, cut: ROOT, epoch: Epoch(0) };
        Self { points: Vec::new(), tree: Tree::default(), promise, runs: false }
    }

    /// A tape that continues from a moment of another tape.
    pub fn after(tree: Tree, promise: Promise) -> Self {
        Self { points: Vec::new(), tree, promise, runs: false }
    }

    /// A tape that continues from the store on this disk, all of which is durable.
    ///
    /// # Errors
    /// `Closed` if the disk has no store, and the errors of reading a damaged one.
    pub fn of_store(storage: &MemoryStorage) -> Result<Self> {
        let storage: Arc<dyn Storage> = Arc::new(storage.clone());
        let identity = Identity::read(storage.as_ref())?.ok_or(Error::Closed)?;
        let mut scanner = Scanner::new(storage, identity.stream, &ScanStart::BEGINNING)?;
        let mut tree = Tree::default();
        while let Some(batch) = scanner.next_batch()? {
            tree.add(batch.header, batch.start, &batch.bytes);
        }
        let promise = Promise { killed: tree.tip, cut: tree.tip, epoch: identity.promised_epoch };
        Ok(Self::after(tree, promise))
    }

    /// The current promises.
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Keeps every moment from now on, with the current one.
    pub fn start(&mut self, storage: &MemoryStorage) {
        self.runs = true;
        self.keep(storage, "the start".to_owned(), None);
    }

    fn keep(&mut self, storage: &MemoryStorage, call: String, written: Option<String>) {
        if self.runs {
            let storage = storage.crash(Crash::Kill, 0);
            self.points.push(Point { storage, written, call, promise: self.promise });
        }
    }

    /// Lowers the promises after a power cut to those that survive one.
    pub fn power_was_cut(&mut self) {
        self.promise.killed = self.promise.cut;
    }

    /// Records what a store promises: everything below `visible` may be answered, everything below `synced` is durable.
    /// `epoch` is the store's epoch.
    pub fn promised(&mut self, visible: Sequence, synced: Sequence, epoch: Epoch) {
        let tip = self.tree.tip;
        let (killed, cut) = (self.tree.place_at(tip, visible), self.tree.place_at(tip, synced));
        self.promise = Promise { killed, cut, epoch };
    }
}

impl Default for Tape {
    fn default() -> Self {
        Self::new()
    }
}

/// A disk that records on a tape every call that changes it.
#[derive(Clone)]
pub struct Recording {
    storage: MemoryStorage,
    tape: Arc<Mutex<Tape>>,
}

impl Recording {
    /// Records the calls to this disk on this tape.
    pub fn new(storage: MemoryStorage, tape: Tape) -> Self {
        Self { storage, tape: Arc::new(Mutex::new(tape)) }
    }

    /// The tape.
    pub fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk.
    pub fn disk(&self) -> &MemoryStorage {
        &self.storage
    }

    /// The same tape with another disk: the one that the next process finds.
    pub fn moved_to(&self, storage: MemoryStorage) -> Self {
        Self { storage, tape: Arc::clone(&self.tape) }
    }

    fn did(&self, call: &str, path: &str, writes: bool) {
        self.tape().keep(&self.storage, format!("{call} {path}"), writes.then(|| path.to_owned()));
    }

    fn opened(&self, file: Arc<dyn StorageFile>) -> Arc<dyn StorageFile> {
        Arc::new(RecordedFile { file, disk: self.clone() })
    }
}

impl Storage for Recording {
    fn create(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let created = self.storage.create(path).map(|file| self.opened(file));
        self.did("create", path, false);
        created
    }

    fn open(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        self.storage.open(path).map(|file| self.opened(file))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.storage.list(folder)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = self.storage.rename(from, to);
        self.did("rename to", to, false);
        renamed
    }

    fn remove(&self, path: &str) -> Result<()> {
        let removed = self.storage.remove(path);
        if removed.is_ok() {
            self.did("remove", path, false);
        }
        removed
    }

    fn create_folder(&self, folder: &str) -> Result<()> {
        let created = self.storage.create_folder(folder);
        self.did("create folder", folder, false);
        created
    }

    fn sync_folder(&self, folder: &str) -> Result<()> {
        let synced = self.storage.sync_folder(folder);
        self.did("sync folder", folder, false);
        synced
    }

    fn free_bytes(&self) -> Result<u64> {
        self.storage.free_bytes()
    }
}

struct RecordedFile {
    file: Arc<dyn StorageFile>,
    disk: Recording,
}

/// A batch with records that is about to be written to a segment.
fn batch_in(path: &str, offset: u64, bytes: &[u8]) -> Option<(BatchHeader, Location)> {
    let header = BatchHeader::read(bytes).filter(|header| header.record_count.get() > 0)?;
    let offset = u32::try_from(offset).ok().filter(|_| path.starts_with("log/"))?;
    Some((header, Location::in_segment(SegmentNumber(header.segment.get()), offset)))
}

impl StorageFile for RecordedFile {
    fn path(&self) -> &str {
        self.file.path()
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if let Some((header, start)) = batch_in(self.path(), offset, bytes) {
            self.disk.tape().tree.add(header, start, bytes);
        }
        let written = self.file.write_at(offset, bytes);
        self.disk.did("write", self.path(), true);
        written
    }

    fn allocate(&self, length: u64) -> Result<()> {
        let allocated = self.file.allocate(length);
        self.disk.did("allocate", self.path(), false);
        allocated
    }

    fn punch(&self, offset: u64, length: u64) -> Result<bool> {
        let punched = self.file.punch(offset, length);
        self.disk.did("punch", self.path(), true);
        punched
    }

    fn sync_data(&self) -> Result<()> {
        let synced = self.file.sync_data();
        self.disk.did("sync", self.path(), false);
        synced
    }
}
