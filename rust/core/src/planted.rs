//! Planted faults: deliberate mistakes that a test turns on one at a time to prove that it finds them. Without the
//! feature `planted`, [`is_on`] is `false` at compile time.

pub mod failpoint;
pub mod lowered;
pub mod next_format;
mod switch;

pub use switch::is_on;
#[cfg(feature = "planted")]
pub use switch::{plant, plant_everywhere};

macro_rules! faults {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// One mistake that can be turned on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Planted {
            $($(#[doc = $words])+ $name,)+
        }

        impl Planted {
            /// All faults, by name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)+];
        }
    };
}

faults! {
    /// Written batches count as visible before they are synced.
    AckBeforeSync,
    /// The scan accepts a batch of which only the header is whole.
    TornTailAccepted,
    /// A message is dispatched one millisecond before it is due.
    OneTickEarly,
    /// An arrival below the feed's position is left to the feed.
    FeedSkipsArrival,
    /// The feed moves on past entries that it has not handed over.
    FeedPassesUnhanded,
    /// A copy counts what is in its log as durable, although it is not synced.
    CopyCountedUnsynced,
    /// While the set of copies grows or shrinks, only the old set is counted.
    UnionForgotten,
    /// While the set of copies shrinks, only the new set is counted.
    SetShrunkEarly,
    /// A swap of the register whose outcome is unknown counts as lost.
    UnknownSwapIsLost,
    /// The answer to an earlier swap of the register settles the one under way.
    EarlierAnswerTaken,
    /// A node outside the set becomes primary.
    PromotedFromOutside,
    /// A node acts on a promise that is not durable yet.
    EndReadBeforePromise,
    /// A primary that restarts keeps its epoch.
    EpochNotRaised,
    /// Logs of copies are matched by the sequence alone.
    MatchedBySequence,
    /// A copy joins the set while it is behind.
    JoinCountedBehind,
    /// Retention removes files that the pin of a reader holds.
    PinIgnored,
    /// A payload that another copy sends is written without a look at its check.
    RepairUnchecked,
    /// A snapshot takes the place of a copy's log before its files are durable.
    SnapshotNotSynced,
    /// A snapshot takes the place of a log that has grown beyond it.
    SnapshotIsLess,
    /// A copy appends the fact of a load, and counts it as durable, although it does not have the files of the load.
    LoadAcknowledgedWithoutFiles,
    /// A folder that was emptied keeps the identity of its node.
    WipedNodeKeepsId,
    /// A publish that was committed on fewer copies than it must have is answered as stored.
    CopiesOverstated,
    /// A node that left the set stays complete although publishes are answered as stored without it.
    CompleteKept,
    /// A primary answers for what is on its own disk, and not yet on those of the copies.
    UncommittedVisible,
    /// A copy that opens applies all of its log, and not only what is committed.
    UncommittedApplied,
    /// A checkpoint of a copy holds all of its log, and not only what is committed.
    CheckpointPastCommitted,
    /// A copy takes what the primary says of the log for what is durable on its own disk.
    SyncedCopied,
    /// A register that was restored from a backup is trusted.
    RestoredRegisterTrusted,
    /// A node that an operator confirms after a restore of the register keeps the set of the backup.
    RestoredSetKept,
    /// A connection that a standby relays is not marked, so that the next standby relays it again.
    RelayUnmarked,
    /// Connections stay relayed to a node that is not the primary any more.
    StalePrimaryKept,
    /// Ready messages are handed out before their fact is durable.
    ReadyVisibleBeforeDurable,
    /// A checkpoint is saved before its runs are synced.
    CheckpointBeforeRuns,
    /// A run that is rebuilt lacks its first row.
    RebuiltRowDropped,
    /// Rebuilt runs are named by a checkpoint before their names are durable.
    RebuiltNamedUnsynced,
    /// A message that passes the filters of its consumer is finished with those that do not.
    PassingPassedOver,
    /// A message that does not pass the filters of its consumer is assigned to it.
    FilteredAssigned,
    /// Messages that another consumer was given while filters judged them are assigned again.
    JudgedTwice,
    /// A pass-over leaves the cursor of its group where it was.
    PassOverUncounted,
    /// A cancel is not marked in the run's two bits.
    CancelledBitNotSaved,
    /// A cancel leaves its subject's count of what is pending as it was.
    CountNotLowered,
    /// The forecast permanently counts entries that ended while a checkpoint wrote their run.
    EndedMeanwhileLost,
    /// The forecast permanently counts ended entries that were too many to keep.
    ForgottenEndedCounted,
    /// A cancel leaves the forecast's total of its minute as it was.
    ForecastNotLowered,
    /// The list of pending messages continues after the millisecond in which its last page ended.
    ListGoesOnByTime,
    /// A dead letter that was already redriven is redriven again.
    RedriveUnjudged,
    /// QMQ's D5: a message that is refused permanently is left out of the list of messages that were not stored.
    RefusedCalledStored,
    /// QMQ's D8 and R6: a payload that a consumer reads is not compared with its check.
    DamageHandedOver,
    /// A message that has expired is handed over.
    ExpiredHandedOver,
    /// A message is handed over at the millisecond at which it expires.
    ExpiredOneTickLate,
    /// A message that expired stays with the consumer that was to receive it.
    ExpiredStays,
    /// A dead letter whose consumer gave the reason `expired` counts as a message that has expired.
    ExpiredByWords,
    /// QMQ's D24: an entry that was dispatched is dispatched again by a second ready fact.
    ReadyUnjudged,
    /// QMQ's D26: one bad message fails the whole request, after the others were stored.
    BatchFailsWhole,
    /// QMQ's D30: many messages that no consumer took hold back the wheel.
    FullQueueHoldsDispatch,
    /// QMQ's D31: one subject that is not consumed holds back all others.
    SlowSubjectHoldsDispatch,
    /// QMQ's D32: a subject that leads nowhere is waited for.
    UnroutedSubjectHoldsDispatch,
    /// QMQ's D33: a permanent refusal is reported as a temporary one.
    RefusedForNow,
    /// QMQ's D35: a message without the delay bit becomes due ten seconds after it was received.
    UndelayedWaits,
    /// QMQ's D37: a checkpoint that cannot be read stops the start.
    CheckpointStopsStart,
    /// QMQ's R1: messages that an acknowledgement passes over count as finished.
    PassedOverIsDone,
    /// QMQ's R2: a restart does not apply the acknowledgements after its checkpoint.
    AcknowledgementsForgotten,
    /// QMQ's R4: unreadable messages are passed over and not reported.
    DamageUncounted,
    /// QMQ's R4: messages that one group has finished are not kept for the other groups.
    FinishedByOneIsByAll,
    /// QMQ's R6: the check that a producer sends is not verified.
    SentUnverified,
    /// A consumer's pull offsets begin at 0, although earlier consumers of its group used them.
    OffsetsBeginAnew,
    /// A server answers when a fact is in the log's queue, and does not wait until the fact is visible.
    AnswerBeforeVisible,
    /// A flush is answered before the acknowledgements are in the log's queue.
    AcknowledgedUnwritten,
    /// A server reorders settlements that came together on one connection.
    SettledOutOfOrder,
    /// Written bytes count as durable before the sector that they end in was synced.
    PartialSectorNotSynced,
    /// A folder counts as synced although it is not: a new file's name, a rename or a removal may be lost.
    FolderNotSynced,
    /// A suspect tail is sealed in place and not copied: the log is then written over old bytes.
    OldTailAppendedOver,
    /// The log is cut behind a fact by a seal over the old bytes, and not in a copy.
    CutInPlace,
    /// An opening reuses the epoch of the previous one, and gives its lost sequences out again.
    SequenceReused,
    /// A failed sync counts as a successful one.
    SyncErrorSwallowed,
    /// A pull is answered under offsets whose reserve is not durable.
    PulledBeforeReserved,
    /// QMQ's R1: messages that a consumer holds count as finished when its lease ends.
    LeaseEndIsDone,
    /// A queue that is woken takes the place of the one that was woken last, which is forgotten.
    WokenLastForgotten,
    /// A heartbeat of QMQ's clients acknowledges the messages that they hold.
    HeartbeatAcknowledges,
    /// QMQ's R2: a consumer that returns and reports that it received nothing does not get its messages again.
    LostFromReceived,
    /// A restart counts the messages that a broadcast consumer did not acknowledge as finished.
    BroadcastForgotten,
    /// A server forgets a consumer whose lease is over before its end is durable.
    ForgottenBeforeEnd,
    /// A thread that waits for a position is not woken when the position is reached.
    WaiterNotWoken,
    /// The count of waiting threads is read before the position is published.
    WaitersCountedFirst,
    /// The thread that releases the log's writer does not check for facts queued meanwhile.
    QueueLeftBehind,
    /// The thread that releases the owner does not check for arrivals meanwhile.
    InboxLeftBehind,
    /// A failure of the log is not reported to threads that wait for a position.
    FailureUntold,
    /// Consumers are not woken when messages become ready.
    ConsumersNotTold,
    /// A cancel of a message that is already dispatched is answered as if it came in time.
    CancelUnjudged,
    /// A retry begins a new entry although the consumer no longer holds the message.
    RetryUnjudged,
    /// A new entry for an old payload says that the payload has the entry's own sequence.
    PayloadSequenceLost,
    /// A new entry for an old payload is ordered by the old sequence of its message.
    MovedKeepsSequence,
    /// A message that is given back is not finished in its old place.
    GivenBackStays,
    /// An entry that is ready by its own fact is pending in the bits of its window.
    AtOnceLeftPending,
    /// The position of the feed, and not the time of the batch, decides whether a message is due at once.
    DueByAnotherClock,
    /// Entries that arrive while dispatch is held are judged as if it were not.
    HeldNotInHeader,
    /// The clock starts without the last time in the log.
    ClockFloorForgotten,
    /// A wall clock that steps ahead is believed.
    StepBelieved,
    /// An operator's acceptance takes the step that holds dispatch, whichever step the operator saw.
    OtherStepAccepted,
    /// The count of how long the wall clock has kept its pace goes on over a further step.
    PaceOverSteps,
    /// A batch reports earlier batches as durable, synced or not.
    WrittenVouchedFor,
    /// Segments after a cut in the log are not removed.
    LaterSegmentsLeft,
    /// A full segment is not synced before the next one is used.
    RolledUnsynced,
    /// A checkpoint or an identity is renamed into place before its bytes are durable.
    NamedBeforeSynced,
    /// The folder of a checkpoint or of an identity is not synced after the rename.
    RenameNotSynced,
    /// QMQ's D11: a checkpoint's position is read after its run was written. Facts in between are in no run and are
    /// not replayed.
    CheckpointAfterFlush,
    /// Changes to entries while their run is written are lost.
    DecidedMeanwhileLost,
    /// Changes to entries while their windows are merged are lost.
    MergedAsFrozen,
    /// A staged run gets its name before it was synced.
    StagedUnsynced,
    /// A job that is loaded again is adopted again, and so is a staged run.
    AdoptsTwice,
    /// An adopted run is removed with the checkpoint that was newest at its load, though a replay opens it.
    AdoptedGoesEarly,
    /// A merged run does not hold the runs that contain its payloads.
    MergeHoldsNothing,
    /// A newer checkpoint that is unusable is left in place.
    NewerCheckpointLeft,
    /// An opening does not sync the folder of checkpoints before it removes files.
    FoldersTrustedUnsynced,
    /// Only the newer of the two kept checkpoints holds files back.
    NewestHoldsAlone,
    /// Old messages are removed, finished or not.
    RetentionByAge,
    /// Finished messages of all subjects are kept for the same time.
    RetentionForgetsSubjects,
    /// An open loads no subjects for the segments of its checkpoint.
    FileSubjectsNotSaved,
    /// QMQ's D3: an opening loads only the two newest windows of the schedule.
    TwoNewestRecovered,
    /// QMQ's D4: an arrival within the slice that was loaded last is left to the feed, which has read past it.
    CursorRace,
    /// Reserved numbers that were not assigned before a crash are given out again.
    ReserveNotVoid,
    /// In `os` mode a reserve counts before it was synced.
    ReserveUnsynced,
    /// A message that may have been delivered before a crash is delivered again without the redelivered mark.
    MarkForgotten,
    /// The first retry does not make its group a group of the retry subject.
    RetryGroupNotMade,
    /// Messages below a group's start count as unfinished by the group.
    StartHoldsBack,
    /// A group may start at messages that were removed.
    StartBelowFloor,
    /// Retention does not count the files of a group that reads finished messages again.
    ReadAgainHoldsNothing,
    /// One in four messages is not found by a group that reads finished messages again.
    ReadAgainSkips,
    /// A group that starts at a time or at a receipt starts one message too late.
    StartSkipsOne,
    /// A group that reads again receives messages that were expired or voided.
    GoneReadAgain,
    /// Retention does not count the files of messages that became ready lately.
    ReadyHoldsNothing,
    /// A dead letter is not stored: after too many attempts, or where a message has expired.
    DeadLetterDropped,
    /// An idle or closed log does not write how far it is durable.
    WitnessNotWritten,
    /// On a full disk, messages cannot be finished either.
    FullDiskStopsFinishing,
    /// Once free space was below the mark, messages are refused permanently.
    RefusedForGood,
    /// A receipt of a message that was lost with its epoch is accepted for the message that now has the sequence.
    LostReceiptTaken,
    /// Arrivals below the feed's position stay in memory, however many there are.
    WheelUnbounded,
    /// The due messages of a flooding subject go before those of all other subjects.
    FloodGoesFirst,
    /// Subjects that got a lane of the feed together share the lane as long as it lasts.
    LaneNeverParts,
    /// A batch is accepted as the next one although its chain does not continue the previous one.
    ChainNotCompared,
    /// A record's header is not compared with its check.
    RecordUnchecked,
    /// A moved message also stays at its old time.
    MovedStaysToo,
    /// A run is released when all its messages were moved away, though they are in no other run yet.
    MoveLosesPayload,
    /// A repeated move is answered as a move of an unknown message.
    MoveForgotten,
    /// A moved message cannot be found by its key.
    MovedLosesKey,
    /// A message that is replaced under its key stays pending.
    ReplacedStays,
    /// A checkpoint does not save the keys of pending messages.
    KeysNotSaved,
    /// A ready message keeps its key until another message takes it.
    ReadyKeepsKey,
    /// The key of a message that became ready is not remembered.
    DispatchedKeyForgotten,
    /// A checkpoint does not save the keys of messages that became ready lately.
    DispatchedKeysNotSaved,
    /// A move by key moves whichever message has the key when it is applied, and not the one that it names.
    MovedByKeyUnjudged,
    /// A command by key that is repeated under its id is judged again.
    CommandByKeyForgotten,
    /// The terms of the first message, or command, of a batch apply to the whole batch.
    FirstTermsForAll,
    /// Commands by key are done although there was no room for their ids.
    DoneWithoutRoomForIds,
    /// A checkpoint does not save the ids of recent publishes.
    IdsNotSaved,
    /// An occurrence is stored even if it is not the next one of its series.
    OccurrenceUnjudged,
    /// No thread is notified that the next occurrence of a series is pending.
    OwingUntold,
    /// A checkpoint does not save the series.
    RecurringNotSaved,
    /// A hole of a segment is punched when the newest checkpoint names it, though an older one may be used.
    HolePunchedBeforeBothCheckpoints,
    /// The same for a hole of a run.
    RunHolePunchedBeforeBothCheckpoints,
    /// A hole covers the payload of an unfinished message.
    HoleIgnoresUnfinished,
    /// Only a run's own rows decide which of its payloads are needed, though other runs point into it.
    HoleAsksOwnRowsAlone,
    /// A payload that was copied out of a run becomes a hole, though a moved entry still points to it.
    HoleForgetsCopied,
    /// A message that becomes ready while its payload is copied does not hold the file of the original.
    ReadyForgetsCopied,
    /// A checkpoint that copied payloads goes by the position of the feed alone, and not by the ready facts in flight.
    FeedSaysWhatIsKnown,
    /// Retention removes messages that an archive has not read yet.
    ArchiveMarkIgnored,
    /// Zeros are accepted as a record.
    ZerosAccepted,
    /// A client repeats a request whose answer was lost, although the server does not deduplicate it.
    DoubtRepeated,
    /// A client reports a request that it sent and gave up as one that was not sent.
    SentUntold,
    /// A flush of a client confirms messages that were settled after it was requested.
    FlushCoversLater,
    /// A client counts settled messages as durable when the connection is lost before the server confirmed them.
    LostCountsAsSettled,
    /// A subscription that is created again keeps its number, and takes keys of the lost connection for its own.
    NumberKept,
    /// A client hands over messages that waited for the consumer when their connection was lost.
    LostHandedOver,
    /// A client gives the server credit again for messages that are on their way.
    CreditGivenTwice,
    /// A message stays with its consumer although its time to be handled is over.
    HoldNeverEnds,
    /// A message that was passed on when its time was over is acknowledged by the consumer that had it.
    LateAcknowledged,
}

impl Planted {
    /// The fault with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(fault, _)| *fault)
    }
}
