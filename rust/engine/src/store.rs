//! The facade: a store opened in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::storage::Storage;
use delaymq_core::store::{RecoveryProgress, RecoveryReport, Verification, VerificationProgress, retry_subject};
use delaymq_core::units::Sequence;

use crate::clock::timed_store::TimedStore;
use crate::commit::submissions::Registering;
use crate::files::storage::FileStorage;
use crate::files::store_lock::StoreLock;
use crate::held;
use crate::opening::{Opened, open};
use crate::operate::rebuild::lock_closed;
use crate::options::{Durability, Options, StartAt};
use crate::publish::batch::{PublishBatch, Receipts, Ticket};
use crate::query::report::{Report, Status};
use crate::shared::Shared;
use crate::sync::{AtomicBool, Instant, JoinHandle, Mutex, thread};

/// The work of one of the store's threads, until the store closes.
type Work = fn(&Shared);

/// A store opened in this process. All methods may be called from any thread.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    pub(crate) path: PathBuf,
    recovery: RecoveryReport,
    recovered_in: Duration,
    created: bool,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// `None` if its caller has the lock.
    pub(crate) lock: Mutex<Option<StoreLock>>,
    pub(crate) closed: AtomicBool,
}

impl Store {
    /// Opens the store in the folder `path`, with recovery. `progress` is called on this thread.
    ///
    /// # Errors
    /// `Locked`, `NotAStore`, `NewerFormat`, `Corrupt`, `MissingFile`: nothing was touched. `Storage` if the file
    /// system refuses. `InvalidArgument` for an option out of range.
    pub fn open(path: &Path, options: Options, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Arc<Self>> {
        let files = FileStorage::open(path, options.create)?;
        // Only tests use a manual clock with `os` durability, and no test outlives its machine.
        let is_test = options.durability == Durability::Os && options.clock.activity().is_some();
        let storage = Arc::new(if is_test { files.without_syncs() } else { files });
        Self::open_on(storage, path, options, progress)
    }

    /// As [`Self::open`], over a storage between the store and its files in `path`.
    pub fn open_on(
        storage: Arc<dyn Storage>,
        path: &Path,
        options: Options,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Arc<Self>> {
        let began = Instant::now();
        let Opened { shared, lock, report, created } = open(storage, path, options, progress)?;
        Self::run(shared, path.to_owned(), (report, began.elapsed(), created), Some(lock))
    }

    /// Starts the threads of a store.
    pub(crate) fn run(
        shared: Shared,
        path: PathBuf,
        (recovery, recovered_in, created): (RecoveryReport, Duration, bool),
        lock: Option<StoreLock>,
    ) -> Result<Arc<Self>> {
        let store = Self {
            shared: Arc::new(shared),
            path,
            recovery,
            recovered_in,
            created,
            threads: Mutex::default(),
            lock: Mutex::new(lock),
            closed: AtomicBool::new(false),
        };
        store.start()?;
        store.shared.options.clock.serve(TimedStore::new(&store.shared));
        Ok(Arc::new(store))
    }

    fn start(&self) -> Result<()> {
        let works: [(&str, Work); 3] = [
            ("delaymq-committer", Shared::run_committer),
            ("delaymq-driver", Shared::run_driver),
            ("delaymq-helper", Shared::run_helper),
        ];
        for (name, work) in works {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&shared));
            let thread = thread.map_err(|error| crate::files::system_errors::storage_error("start", name, &error))?;
            held(&self.threads).push(thread);
        }
        self.shared.committer.raise();
        self.shared.helper.raise();
        Ok(())
    }

    /// An empty batch, to fill and publish, again and again.
    pub fn batch(&self) -> PublishBatch {
        PublishBatch::new(Arc::clone(&self.shared))
    }

    /// Publishes all messages of the batch or none, and returns when they are durable. The batch is empty afterwards,
    /// also if its terms refused it. It keeps its messages only if there was no room or the store failed.
    ///
    /// # Errors
    /// `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`; for a batch with terms also `KeyTaken` and `NamesFull`.
    pub fn publish(&self, batch: &mut PublishBatch) -> Result<Receipts> {
        self.shared.check()?;
        let ticket = batch.submit()?;
        self.shared.lead(ticket.end());
        ticket.settle()
    }

    /// As [`Self::publish`], but waits at most a moment for room: `None` if there is none yet; then the batch keeps its
    /// messages. The caller may have to wait for the ticket.
    pub fn begin_publish(&self, batch: &mut PublishBatch) -> Result<Option<Ticket>> {
        self.shared.check()?;
        let seen = self.shared.room.count();
        let ticket = batch.try_submit()?;
        match &ticket {
            Some(ticket) => self.shared.lead(ticket.end()),
            None => self.shared.await_room(seen),
        }
        Ok(ticket)
    }

    /// As [`Self::publish`], without waiting.
    pub fn submit(&self, batch: &mut PublishBatch) -> Result<Ticket> {
        self.shared.check()?;
        let ticket = batch.submit()?;
        self.shared.committer.raise();
        Ok(ticket)
    }

    /// The stream of this store: its receipts name it.
    pub fn stream(&self) -> [u8; 16] {
        self.shared.issuer.stream
    }

    /// The longest delay that a publish may have, in milliseconds.
    pub fn delay_ms_max(&self) -> u64 {
        self.shared.options.delay_ms_max
    }

    /// Registers a group that starts with the earliest message, on a subject whose name users may not choose.
    pub(crate) fn begin_named_group(&self, subject: &str, group: &str) -> Result<()> {
        let names = &self.shared.names;
        let (subject, retries) = (names.subject(subject)?, names.subject(&retry_subject(subject, group))?);
        self.shared.register_group(&Registering { subject, retries }, group, StartAt::Unfinished).map(drop)
    }

    /// A snapshot of the store. Also of one that is poisoned or closed.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn status(&self) -> Result<Status> {
        let shared = &self.shared;
        shared.guard.check()?;
        if shared.poison.get().is_none() && !self.closed.load(Ordering::SeqCst) {
            // Counts what was published before this call.
            drop(shared.apply_until(shared.positions.visible()));
        }
        let (pending, ready, hot_minutes, applied) = match shared.lock_owner()?.get() {
            Ok(locked) => {
                let state = locked.owner.state();
                (state.schedule.pending(), state.dispatch.unfinished(), state.hot_minutes(), locked.owner.applied())
            }
            Err(_) => (0, 0, 0, Sequence(0)),
        };
        let now = shared.time.read();
        let queue = held(&shared.queue);
        let commits = &queue.commits;
        Ok(Status {
            durability: shared.options.durability,
            stream: shared.issuer.stream,
            epoch: shared.issuer.epoch,
            pending,
            ready,
            accepted: commits.next_sequence(),
            written: commits.written_mark().sequence,
            synced: commits.synced_mark().sequence,
            visible: commits.visible().sequence,
            applied,
            position: commits.written_mark().location,
            now: now.now,
            held: now.held,
            clock_steps: shared.time.steps().count,
            clock_accepts: shared.time.accepts(),
            disk_full: commits.is_disk_full() || commits.free_room().refusal().is_some(),
            room_low: commits.free_room().is_low(),
            free_bytes: commits.free_room().free_bytes(),
            poisoned: shared.poison.get().cloned(),
            closed: self.closed.load(Ordering::SeqCst),
            recovered_in: self.recovered_in,
            recovered_facts: self.recovery.facts,
            aside: self.recovery.set_aside.clone(),
            zones: shared.time_zones.in_use(),
            hot_minutes,
            voided: shared.metrics.voided.read(),
            expired: shared.metrics.expired.read(),
            created: self.created,
            metrics: shared.metrics.snapshot(),
        })
    }

    /// Why the store has failed, if it has: nothing is answered from then on.
    pub fn failure(&self) -> Option<String> {
        self.shared.poison.get().cloned()
    }

    /// The next report, which is worth a line in a log. Waits up to `wait` for one. Also of a store that is poisoned or
    /// closed.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn next_report(&self, wait: Duration) -> Result<Option<Report>> {
        self.shared.guard.check()?;
        let wait = if self.closed.load(Ordering::SeqCst) { Duration::ZERO } else { wait };
        Ok(self.shared.reports.next(wait))
    }

    /// Takes a checkpoint now and returns when it is durable.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`; `Storage` if it could not be written, which is harmless and is tried
    /// again.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.check()?;
        self.shared.checkpoint_now()
    }

    /// Stops taking work, makes durable what was taken, stops the threads, seals the log and releases the lock. A
    /// second call changes nothing. Dropping the store does the same; one that leads is abandoned then, as its node may
    /// not be the primary any more.
    ///
    /// # Errors
    /// `Poisoned` if the end could not be written; `ForkedProcess`.
    pub fn close(&self) -> Result<()> {
        let shared = &self.shared;
        shared.guard.check()?;
        if shared.closing.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        shared.subscribers.notify_all();
        shared.time.remember(shared.storage.as_ref());
        let sealed = shared.end_log();
        self.shut_down(Shared::clear_up);
        shared.check_poison()?;
        sealed
    }

    /// Reads every byte of a closed store and checks it; changes nothing.
    ///
    /// # Errors
    /// `Locked`, `NotAStore`, `NewerFormat`, `Storage`. Damage is in the result.
    pub fn verify(path: &Path) -> Result<Verification> {
        Self::verify_telling(path, &mut |_| {})
    }

    /// As [`Self::verify`], with progress.
    pub fn verify_telling(path: &Path, progress: &mut dyn FnMut(VerificationProgress)) -> Result<Verification> {
        let (storage, identity, _lock) = lock_closed(path)?;
        delaymq_core::store::verify_telling(&storage, &identity, progress)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.shared.guard.is_here() {
            drop(if self.shared.copies.is_some() { self.abandon() } else { self.close() });
            return;
        }
        // A forked child has none of the threads, and must not touch the files or what the threads share.
        for thread in self.threads.get_mut().map(std::mem::take).unwrap_or_default() {
            std::mem::forget(thread);
        }
        std::mem::forget(Arc::clone(&self.shared));
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
