//! A store that leads a group of copies: its log goes on where the copy of its node ended, and a batch is visible once the
//! copies have it.
//!
//! In: the parts of a follower whose node has become primary; from the node, how far the log is committed, and whether
//! publishes are taken; from group commit, how far the log is written and durable. Out: visible batches, on the same way
//! as those of a store alone; the batches that the node sends to others; news for the node that the log has grown.
//! Read `leading` (how a store begins to lead), `log` (the log as the protocol looks at it), `commit` (what becomes visible,
//! and the begin of the epoch), `intake` (publishes that are refused, or on too few copies) and `shipping`.
//!
//! A store alone has none of this: its [`Copies`] are `None`. The rules are those of `delaymq_core::replication`.

pub(crate) mod commit;
pub(crate) mod intake;
pub(crate) mod leading;
pub(crate) mod log;
pub(crate) mod shipping;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::units::{Epoch, Sequence};

use crate::copies::intake::Taken;
use crate::copies::log::WrittenLog;
use crate::copies::shipping::Cursors;
use crate::invalid;
use crate::shared::Shared;
use crate::store::Store;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// Called when the log has grown, more of it is durable, or the store has failed.
pub(crate) type Changed = Arc<dyn Fn() + Send + Sync>;

/// What a store that leads has in addition.
pub(crate) struct Copies {
    pub(crate) epoch: Epoch,
    log: Mutex<WrittenLog>,
    changed: Changed,
    /// The first fact of the epoch is applied: the store may decide.
    has_begun: AtomicBool,
    /// The sequence after the first fact of the epoch; 0 before it is queued.
    begun_at: AtomicU64,
    taken: Mutex<Taken>,
    cursors: Mutex<Cursors>,
    /// The sequence from which on the log is kept for other nodes.
    kept_from: AtomicU64,
}

impl Copies {
    pub(crate) fn new(epoch: Epoch, log: WrittenLog, changed: Changed) -> Self {
        Self {
            epoch,
            log: Mutex::new(log),
            changed,
            has_begun: AtomicBool::new(false),
            begun_at: AtomicU64::new(0),
            taken: Mutex::default(),
            cursors: Mutex::default(),
            kept_from: AtomicU64::new(u64::MAX),
        }
    }

    /// Tells the node that there is something new.
    pub(crate) fn tell(&self) {
        (self.changed)();
    }

    fn begun_at(&self) -> Sequence {
        Sequence(self.begun_at.load(Ordering::SeqCst))
    }
}

impl Shared {
    /// True if the store may decide: it is alone, or the first fact of its epoch is committed and applied.
    pub(crate) fn has_begun(&self) -> bool {
        self.copies.as_ref().is_none_or(|copies| copies.has_begun.load(Ordering::SeqCst))
    }

    /// Fails with `NotPrimary` while the store may not decide.
    pub(crate) fn check_begun(&self) -> Result<()> {
        match &self.copies {
            Some(copies) if !self.has_begun() => Err(Error::NotPrimary { epoch: copies.epoch.0 }),
            _ => Ok(()),
        }
    }
}

impl Store {
    /// Fails with `InvalidArgument` naming `store` if it is a store alone.
    pub(crate) fn copies(&self) -> Result<&Copies> {
        let copies = self.shared.copies.as_ref();
        copies.ok_or_else(|| invalid("store", "a store that leads copies", "a store alone"))
    }
}
