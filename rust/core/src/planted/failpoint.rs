//! Failpoints: named places on the way to the disk. A test can make a process end itself when it reaches one the
//! n-th time, to test the state that a killed process leaves there. Without the feature `planted` a failpoint costs
//! nothing.

macro_rules! failpoints {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// One place: the step before it is done, the step after it is not.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Failpoint {
            $($(#[doc = $words])+ $name,)+
        }

        impl Failpoint {
            /// All failpoints, by name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)+];
        }
    };
}

failpoints! {
    /// A batch was taken from the queue.
    BatchTaken,
    /// A batch is complete, and not written.
    AppendBegins,
    /// The batch is written, and not synced.
    AppendWritten,
    /// The log is about to be synced.
    LogSyncBegins,
    /// The log was synced, and no thread was notified.
    LogSynced,
    /// An idle log's witness is written, and not synced.
    WitnessWritten,
    /// A committed batch is about to become visible.
    VisibleBegins,
    /// The batch is visible, and no thread was notified.
    Visible,
    /// Facts were applied.
    Applied,
    /// A request is about to be answered over TCP.
    AnswerBegins,
    /// The current segment is full.
    RollBegins,
    /// The segment's seal is written, and not synced.
    SealWritten,
    /// The next segment is in use.
    Rolled,
    /// A prepared segment has a file, disk space and a header.
    PreparingBegun,
    /// Some zeros of the prepared segment are written, and not synced.
    PreparingWritten,
    /// The prepared segment has its final name, and its folder is not synced.
    SegmentRenamed,
    /// The prepared segment can be used.
    SegmentInstalled,
    /// The bytes of a run are written, and not synced.
    RunWritten,
    /// The bytes of the run are synced.
    RunSynced,
    /// The run has its final name.
    RunRenamed,
    /// All files that a checkpoint names are durable.
    CheckpointBegins,
    /// The checkpoint's bytes are written, and not synced.
    CheckpointWritten,
    /// The checkpoint's bytes are synced.
    CheckpointSynced,
    /// The checkpoint has its final name, and its folder is not synced.
    CheckpointRenamed,
    /// The checkpoint is durable, and the owner was not notified.
    CheckpointInstalled,
    /// Files are about to be removed.
    RetireBegins,
    /// A checkpoint that is not kept was removed.
    CheckpointUnlinked,
    /// A file that no kept checkpoint needs was removed.
    FileUnlinked,
    /// The folders of the removed files are synced.
    Retired,
    /// An opening has synced the folders.
    FoldersSynced,
    /// The opening has read its checkpoint, and changed nothing.
    CheckpointRestored,
    /// The identity with the next epoch is written, and not synced.
    IdentityWritten,
    /// The identity is synced.
    IdentitySynced,
    /// The identity has its final name, and its folder is not synced.
    IdentityRenamed,
    /// The epoch is raised.
    EpochRaised,
    /// Files that no checkpoint needs were removed.
    UnusedRemoved,
    /// A segment after the log's end was removed or set aside.
    LaterCleared,
    /// The good part of the last segment was copied, without its seal.
    RepairCopied,
    /// The copy is sealed and synced under its temporary name.
    RepairSealed,
    /// The copy has replaced the suspect segment, and the folder is not synced.
    RepairRenamed,
    /// The log's end can be trusted.
    Repaired,
    /// The log is applied to its end.
    LogApplied,
    /// The first fact of the epoch is about to be written.
    EpochBegins,
    /// The first fact of the epoch is visible.
    EpochBegun,
}

impl Failpoint {
    /// The failpoint with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(point, _)| *point)
    }
}

#[cfg(feature = "planted")]
static ACTION: std::sync::OnceLock<fn(Failpoint)> = std::sync::OnceLock::new();

/// Runs this action at every failpoint from now on; false if an action was set before.
#[cfg(feature = "planted")]
pub fn act(action: fn(Failpoint)) -> bool {
    ACTION.set(action).is_ok()
}

/// Called when the process reaches a failpoint.
#[cfg(feature = "planted")]
#[inline]
pub fn reached(point: Failpoint) {
    if let Some(action) = ACTION.get() {
        action(point);
    }
}

/// Called when the process reaches a failpoint; this build ignores it.
#[cfg(not(feature = "planted"))]
#[inline]
pub const fn reached(_point: Failpoint) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_no_other() {
        for (point, name) in Failpoint::ALL {
            assert_eq!(Failpoint::named(name), Some(*point));
        }
        assert_eq!(Failpoint::named("AppendWrittenTwice"), None);
    }
}
