//! How a store begins to lead: group commit and the owner go on from the parts of a follower, and the first fact of the
//! epoch is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::message_log::{Durability, GroupCommit, GroupCommitOptions, Identity, Mark, VisibleOnce};
use delaymq_core::storage::Storage;
use delaymq_core::store::{CheckpointWork, FollowerParts, RecoveryReport};
use delaymq_core::units::Epoch;

use crate::clock::store_time::KnownTime;
use crate::commit::committer::Unreleased;
use crate::copies::state::{Changed, Copies, Mend, WrittenLog};
use crate::invalid;
use crate::opening::{Beginning, assemble, check_clock, check_options, keep_reserve, queue_epoch_start};
use crate::options::Options;
use crate::store::Store;

/// A node's copy that becomes a store which leads.
pub struct Leading {
    /// The files.
    pub storage: Arc<dyn Storage>,
    /// The folder. Its lock is the caller's, also after the store has ended.
    pub path: PathBuf,
    /// The options. Their durability must be `disk`.
    pub options: Options,
    /// The identity of this copy.
    pub identity: Identity,
    /// What [`delaymq_core::store::Follower::lead`] has left.
    pub parts: FollowerParts,
    /// The checkpoint of the follower that is under way.
    pub checkpoint: Option<CheckpointWork>,
    /// The epoch that begins. It is durable in the identity, and above all earlier ones.
    pub epoch: Epoch,
    /// How far the wall clock of this machine is at least ahead of that of the group, in milliseconds. Dispatch is held if it is
    /// so far ahead that a step would not be believed. `None` if they were not compared.
    pub clock_ahead_ms: Option<i64>,
    /// Called on any thread, under locks of the store, when the log has grown, more of it is durable, or the store has
    /// failed: already before [`Store::lead`] returns. It returns at once and calls no store.
    pub changed: Changed,
    /// Called when a message that is to be handed over is damaged, on a thread that may wait, and under no lock of the store. True if
    /// another copy may have made it whole.
    pub mend: Mend,
}

impl Store {
    /// Goes on with the log of a follower as its primary. The first fact of the epoch is written and durable here when this
    /// returns, and not committed: until [`Self::has_begun`], the store applies what [`Self::commit`] says, and decides
    /// nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of range, or durability `os`; `Fenced` if the log has a fact of this epoch or of
    /// a later one; `DiskFull`; `Poisoned`, and those of the storage. The copy must be opened again then.
    pub fn lead(leading: Leading) -> Result<Arc<Self>> {
        let Leading { storage, path, mut options, identity, parts, checkpoint, epoch, clock_ahead_ms, changed, mend } =
            leading;
        #[cfg(feature = "planted")]
        crate::failpoints::plant(&mut options)?;
        check_options(&options)?;
        if options.durability != Durability::Disk {
            return Err(invalid("durability", "disk, which copies on other nodes need", "os"));
        }
        let FollowerParts { mut owner, mut appender, tail, ends } = parts;
        owner.keep_finished_of(std::mem::take(&mut options.keep_finished_of));
        let (end, position) = (appender.end(), owner.state().position);
        check_clock(&options, end.trusted)?;
        appender.begin_epoch(epoch)?;
        let visible = Mark { location: position.end, sequence: position.next_sequence };
        let mut commits = GroupCommit::new(GroupCommitOptions {
            visible_once: VisibleOnce::Committed,
            marks: options.marks,
            ..GroupCommitOptions::new(Durability::Disk, visible, identity.segment_bytes)
        });
        for batch in &tail {
            commits.written(batch.end());
        }
        commits.synced(appender.synced());
        keep_reserve(&storage, &mut appender, &mut commits);
        let written = WrittenLog { ends, written: appender.written() };
        let shared = assemble(Beginning {
            storage,
            path: path.clone(),
            options,
            identity,
            epoch,
            known_time: KnownTime { floor: end.trusted.max(position.trusted), ahead_ms: clock_ahead_ms },
            owner,
            appender,
            commits,
            unreleased: tail.into_iter().map(Unreleased::of_tail).collect(),
            copies: Some(Copies::new(epoch, written, changed, mend)),
        })?;
        if let Some(work) = checkpoint {
            shared.go_on_with_checkpoint(work);
        }
        let begins = queue_epoch_start(&shared, &identity, &end)?;
        if let Some(copies) = &shared.copies {
            copies.begun_at.store(begins.0, Ordering::SeqCst);
        }
        shared.lead(begins);
        shared.check_poison()?;
        Self::run(shared, path, (RecoveryReport::default(), Duration::ZERO, false), None)
    }
}
