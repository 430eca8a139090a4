//! Failpoints: named places on the way to the disk. A process that is told so ends itself the n-th
//! time that it comes to one, so that what a killed process leaves is tried at each of them. Without
//! the feature `planted` passing one costs nothing.

macro_rules! failpoints {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// One place. What stands before it was done, what stands behind it was not.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Failpoint {
            $($(#[doc = $words])+ $name,)+
        }

        impl Failpoint {
            /// All of them, by name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)+];
        }
    };
}

failpoints! {
    /// A batch was taken from the queue.
    BatchTaken,
    /// A batch is whole, and not written.
    AppendBegins,
    /// It is written, and not synced.
    AppendWritten,
    /// The log is about to be synced.
    LogSyncBegins,
    /// It was synced, and nobody knows.
    LogSynced,
    /// An idle log's end was vouched for, and that was not synced.
    WitnessWritten,
    /// What was committed is about to become visible.
    VisibleBegins,
    /// It is visible, and nobody was told.
    Visible,
    /// Facts were applied.
    Applied,
    /// A request is about to be answered over TCP.
    AnswerBegins,
    /// The current segment is full.
    RollBegins,
    /// Its seal is written, and not synced.
    SealWritten,
    /// The next segment was begun.
    Rolled,
    /// A segment to come has a file, room and a header.
    PreparingBegun,
    /// Some of its zeros are written, and not synced.
    PreparingWritten,
    /// It has its final name, and its folder is not synced.
    SegmentRenamed,
    /// It can be used.
    SegmentInstalled,
    /// The bytes of a run are written, and not synced.
    RunWritten,
    /// They are synced.
    RunSynced,
    /// The run has its final name.
    RunRenamed,
    /// All that a checkpoint names is durable.
    CheckpointBegins,
    /// Its bytes are written, and not synced.
    CheckpointWritten,
    /// They are synced.
    CheckpointSynced,
    /// It has its final name, and its folder is not synced.
    CheckpointRenamed,
    /// It is durable, and the owner does not know.
    CheckpointInstalled,
    /// Files are about to be removed.
    RetireBegins,
    /// A checkpoint that is not kept was removed.
    CheckpointUnlinked,
    /// A file that no kept checkpoint needs was removed.
    FileUnlinked,
    /// The folders of what was removed are synced.
    Retired,
    /// An opening has synced the folders.
    FoldersSynced,
    /// It has read its checkpoint, and changed nothing.
    CheckpointRestored,
    /// The identity with the next epoch is written, and not synced.
    IdentityWritten,
    /// It is synced.
    IdentitySynced,
    /// It has its final name, and its folder is not synced.
    IdentityRenamed,
    /// The epoch is raised.
    EpochRaised,
    /// What no checkpoint needs was removed.
    UnusedRemoved,
    /// A segment behind the log's end was removed or set aside.
    LaterCleared,
    /// The good part of the last segment was copied, without its seal.
    RepairCopied,
    /// It is sealed and synced under its temporary name.
    RepairSealed,
    /// It has replaced the suspect one, and the folder is not synced.
    RepairRenamed,
    /// The log's end can be trusted.
    Repaired,
    /// The log is applied to its end.
    LogApplied,
    /// The first fact of the epoch is about to be written.
    EpochBegins,
    /// It is visible.
    EpochBegun,
}

impl Failpoint {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(point, _)| *point)
    }
}

#[cfg(feature = "planted")]
static ACTION: std::sync::OnceLock<fn(Failpoint)> = std::sync::OnceLock::new();

/// Has this done at every failpoint from now on; false where another was there first.
#[cfg(feature = "planted")]
pub fn act(action: fn(Failpoint)) -> bool {
    ACTION.set(action).is_ok()
}

/// The process has come to a failpoint.
#[cfg(feature = "planted")]
#[inline]
pub fn reached(point: Failpoint) {
    if let Some(action) = ACTION.get() {
        action(point);
    }
}

/// The process has come to a failpoint, of which this build knows nothing.
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
