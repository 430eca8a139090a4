//! The copy of a node: a follower while another node leads, and a store that decides while this one does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::message_log::{DamagedPayload, Identity, OPENING_SEGMENT_BYTES, Promise};
use delaymq_core::replication::{History, LogView, NodeId};
use delaymq_core::run::StagedRun;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointProgress, CheckpointWork, Follower, IncomingSnapshot, KeptMessages, RecoveryProgress, Removable,
    adopt_snapshot, archived_below, is_pinned, punch,
};
use delaymq_core::units::{Epoch, Millis, Sequence};
use delaymq_engine::{CopyCount, Leading, Options, Store};

use crate::events::Events;
use crate::group::OpenedCopy;
use crate::shipping::SHIPMENT_BYTES_MAX;

/// The bytes of a checkpoint that are written between two events.
const PIECE_BYTES: u64 = 1 << 20;
/// How soon work that failed is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

enum Role {
    Following(Box<Follower>),
    Leading(Arc<Store>),
    /// Between two roles, or after a failure.
    Gone,
}

/// See the module.
pub(crate) struct Copy {
    storage: Arc<dyn Storage>,
    // Released when the copy is dropped, after all that uses the folder.
    lock: delaymq_engine::StoreLock,
    path: PathBuf,
    options: Options,
    identity: Identity,
    events: Arc<Events>,
    role: Role,
    /// The checkpoint of a follower that is under way.
    checkpoint: Option<CheckpointWork>,
    /// Files that no checkpoint of a follower needs.
    removable: Removable,
    has_no_holes: bool,
    /// When work that failed is tried again.
    again: Option<Instant>,
    is_synced: bool,
}

type Outcome<T> = Result<T, Error>;

/// The outcome of batches of the primary.
pub(crate) enum Appended {
    All,
    /// They do not follow the log.
    NotNext,
    /// One of them names these files, which are not here.
    Lacks(Vec<StagedRun>),
}

impl Copy {
    /// Opens the copy as a follower.
    pub(crate) fn open(
        opened: OpenedCopy,
        (path, options): (PathBuf, Options),
        events: Arc<Events>,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Outcome<Self> {
        let OpenedCopy { storage, lock, identity } = opened;
        let mut copy = Self {
            storage,
            lock,
            path,
            options,
            identity,
            events,
            role: Role::Gone,
            checkpoint: None,
            removable: Removable::default(),
            has_no_holes: false,
            again: None,
            is_synced: true,
        };
        copy.open_follower(progress)?;
        Ok(copy)
    }

    fn open_follower(&mut self, progress: &mut dyn FnMut(RecoveryProgress)) -> Outcome<()> {
        (self.checkpoint, self.removable, self.is_synced) = (None, Removable::default(), true);
        let storage = Arc::clone(&self.storage);
        let opening_bytes = OPENING_SEGMENT_BYTES.min(self.identity.segment_bytes);
        let mut follower = Follower::open(storage, &self.identity, self.options.owner, opening_bytes, progress)?;
        follower.owner_mut().keep_finished_of(self.options.keep_finished_of.clone());
        self.role = Role::Following(Box::new(follower));
        Ok(())
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// True if a reader without the lock has a pin.
    pub(crate) fn is_pinned(&self, now: Millis) -> Outcome<bool> {
        is_pinned(self.storage.as_ref(), now)
    }

    /// The identity, with the last promise.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The node of this copy.
    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.identity.node)
    }

    /// The store that leads.
    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        match &self.role {
            Role::Leading(store) => Some(store),
            _ => None,
        }
    }

    /// The sequence after the last fact that the log itself calls committed.
    pub(crate) fn applied(&self) -> Sequence {
        match &self.role {
            Role::Following(follower) => follower.owner().applied(),
            _ => Sequence(1),
        }
    }

    /// Makes a promise durable, behind everything that was appended.
    pub(crate) fn keep_promise(&mut self, promise: Promise) -> Outcome<()> {
        self.sync()?;
        self.identity = self.identity.keep_promise(self.storage.as_ref(), promise)?;
        Ok(())
    }

    /// Begins an epoch: the log goes on in a store that decides. The wall clock is so far ahead of that of the group.
    pub(crate) fn begin(&mut self, epoch: Epoch, clock_ahead_ms: Option<i64>) -> Outcome<()> {
        self.sync()?;
        let Role::Following(follower) = std::mem::replace(&mut self.role, Role::Gone) else { return Ok(()) };
        let (events, mending) = (Arc::clone(&self.events), Arc::clone(&self.events));
        let store = Store::lead(Leading {
            storage: Arc::clone(&self.storage),
            path: self.path.clone(),
            options: self.options.clone(),
            identity: self.identity,
            parts: follower.lead(),
            checkpoint: self.checkpoint.take(),
            epoch,
            clock_ahead_ms,
            changed: Arc::new(move || events.log_changed()),
            mend: Arc::new(move |entry| mending.mend(entry)),
        })?;
        self.role = Role::Leading(store);
        Ok(())
    }

    /// Ends a store that leads. Queued records are lost, and written ones stay. All threads that wait for the store go on.
    pub(crate) fn end_store(&mut self) -> Outcome<()> {
        let Role::Leading(store) = &self.role else { return Ok(()) };
        let ended = store.abandon();
        self.role = Role::Gone;
        match ended {
            Err(Error::Closed) => Ok(()),
            other => other,
        }
    }

    /// Follows again, after [`Self::end_store`].
    pub(crate) fn follow(&mut self) -> Outcome<()> {
        if matches!(self.role, Role::Gone) { self.open_follower(&mut |_| {}) } else { Ok(()) }
    }

    /// Appends batches of the primary.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Outcome<Appended> {
        let Role::Following(follower) = &mut self.role else { return Ok(Appended::NotNext) };
        self.is_synced = false;
        match follower.append(bytes) {
            Ok(lacking) if lacking.is_empty() => Ok(Appended::All),
            Ok(lacking) => Ok(Appended::Lacks(lacking)),
            Err(Error::NotNext { .. } | Error::Fenced { .. } | Error::Diverged { .. }) => Ok(Appended::NotNext),
            Err(error) => Err(error),
        }
    }

    /// The messages that came damaged since the last call.
    pub(crate) fn take_damaged(&mut self) -> Vec<DamagedPayload> {
        let Role::Following(follower) = &mut self.role else { return Vec::new() };
        follower.take_damaged()
    }

    /// The messages of a follower, to be read on another thread.
    pub(crate) fn kept_messages(&self) -> Option<KeptMessages> {
        match &self.role {
            Role::Following(follower) => Some(KeptMessages::of(follower.owner())),
            _ => None,
        }
    }

    /// Makes durable what was appended. False if everything is.
    pub(crate) fn sync(&mut self) -> Outcome<bool> {
        let Role::Following(follower) = &mut self.role else { return Ok(false) };
        if std::mem::replace(&mut self.is_synced, true) {
            return Ok(false);
        }
        follower.sync()?;
        Ok(true)
    }

    /// Cuts the log behind the last fact before `end`. Returns the file that keeps the rest.
    pub(crate) fn cut(&mut self, epoch: Epoch, end: Sequence) -> Outcome<Option<String>> {
        let Role::Following(follower) = std::mem::replace(&mut self.role, Role::Gone) else { return Ok(None) };
        let (follower, evidence) = follower.cut_after(epoch, end)?;
        self.role = Role::Following(Box::new(follower));
        Ok(evidence)
    }

    /// Puts the files of a snapshot into the place of a follower's own, and follows with them. Returns the sequence before which
    /// everything is committed.
    ///
    /// # Errors
    /// Those of the storage and of the log. The copy must be opened again.
    pub(crate) fn adopt(&mut self, snapshot: IncomingSnapshot) -> Outcome<Sequence> {
        if let Role::Following(_) = &self.role {
            // Nothing of the follower may use files that go.
            self.role = Role::Gone;
            snapshot.seal()?;
            adopt_snapshot(self.storage.as_ref())?;
            self.open_follower(&mut |_| {})?;
        }
        Ok(self.applied())
    }

    /// Everything before `end` is committed, on so many copies.
    pub(crate) fn commit(&mut self, end: Sequence, count: CopyCount) -> Outcome<()> {
        match &mut self.role {
            Role::Following(follower) => follower.commit(end),
            Role::Leading(store) => store.commit(end, count),
            Role::Gone => Ok(()),
        }
    }

    /// Batches from `first` on, for another node.
    pub(crate) fn ship(&self, first: Sequence) -> Outcome<Vec<u8>> {
        match &self.role {
            Role::Leading(store) => store.ship(first, SHIPMENT_BYTES_MAX),
            _ => Ok(Vec::new()),
        }
    }

    /// Does a piece of a follower's checkpoint. While nothing comes, it also vouches for the log. Returns why work failed that is
    /// tried again, as that of a full disk.
    ///
    /// # Errors
    /// Those of the log, with which the copy must end.
    pub(crate) fn tend(&mut self, now: Millis, is_idle: bool) -> Outcome<Option<Error>> {
        if self.again.is_some_and(|again| Instant::now() < again) {
            return Ok(None);
        }
        let tended = self.tend_now(now, is_idle)?;
        self.again = tended.is_some().then(|| Instant::now() + AGAIN_AFTER);
        Ok(tended)
    }

    fn tend_now(&mut self, now: Millis, is_idle: bool) -> Outcome<Option<Error>> {
        let Role::Following(follower) = &mut self.role else { return Ok(None) };
        if self.checkpoint.is_none() && follower.owner().checkpoint_due() {
            self.checkpoint = follower.freeze()?;
            if let Some(work) = &mut self.checkpoint {
                work.await_archives(archived_below(self.storage.as_ref()));
            }
        }
        let Some(work) = &mut self.checkpoint else {
            if is_idle {
                follower.witness()?;
            }
            return Ok(self.remove(now).err());
        };
        match work.write_piece(&self.storage, PIECE_BYTES, follower.synced().location) {
            Err(error) => return Ok(Some(error)),
            Ok(CheckpointProgress::More) => {}
            Ok(CheckpointProgress::WaitForSync(_)) => follower.sync()?,
            Ok(CheckpointProgress::Finished(finished)) => {
                self.checkpoint = None;
                self.removable.extend(follower.owner_mut().install(finished)?);
            }
        }
        Ok(None)
    }

    /// Removes the files that no checkpoint needs, unless a reader has a pin.
    fn remove(&mut self, now: Millis) -> Outcome<()> {
        let storage = self.storage.as_ref();
        if self.removable.is_empty() || is_pinned(storage, now)? {
            return Ok(());
        }
        // Removed files are skipped if this is done again.
        self.removable.remove(storage)?;
        if !self.has_no_holes {
            let (removable, block_bytes) = (&self.removable, self.options.owner.hole_block_bytes);
            self.has_no_holes = punch(storage, &removable.holes, &removable.run_holes, block_bytes)?.is_none();
        }
        self.removable = Removable::default();
        Ok(())
    }

    /// Ends, after [`Self::end_store`]: nothing is written any more.
    pub(crate) fn close(mut self) -> Outcome<()> {
        let synced = self.sync();
        // All that uses the folder ends before its lock is released.
        self.role = Role::Gone;
        drop(self.lock);
        synced.map(drop)
    }
}

impl LogView for Copy {
    fn history(&self) -> History {
        match &self.role {
            Role::Following(follower) => follower.ends().history(),
            Role::Leading(store) => store.history(),
            Role::Gone => History::default(),
        }
    }

    fn end(&self) -> Sequence {
        match &self.role {
            Role::Following(follower) => follower.ends().end(),
            Role::Leading(store) => store.end(),
            Role::Gone => Sequence(1),
        }
    }

    fn durable(&self) -> Sequence {
        match &self.role {
            Role::Following(follower) => follower.ends().durable(),
            Role::Leading(store) => store.durable(),
            Role::Gone => Sequence(1),
        }
    }
}
