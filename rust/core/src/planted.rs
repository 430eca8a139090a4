//! Planted faults: mistakes that a test turns on one at a time, to prove that it finds them. Without
//! the feature `planted` every question is answered `false` when it is compiled.

pub mod failpoint;
pub mod lowered;
pub mod next_format;

macro_rules! faults {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// One mistake that can be turned on.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Planted {
            $($(#[doc = $words])+ $name,)+
        }

        impl Planted {
            /// All of them, by name.
            pub const ALL: &[(Self, &str)] = &[$((Self::$name, stringify!($name)),)+];
        }
    };
}

faults! {
    /// What is written counts as visible before it was synced.
    AckBeforeSync,
    /// The scan takes a batch of which only the header is whole.
    TornTailAccepted,
    /// A message is dispatched one millisecond before it is due.
    OneTickEarly,
    /// An arrival below the feed's position is left to the feed.
    FeedSkipsArrival,
    /// The feed moves on past entries that it has not handed over.
    FeedPassesUnhanded,
    /// Ready messages are handed out before their fact is durable.
    ReadyVisibleBeforeDurable,
    /// A checkpoint is saved before its runs are synced.
    CheckpointBeforeRuns,
    /// A run that is rebuilt lacks its first row.
    RebuiltRowDropped,
    /// Rebuilt runs are named by a checkpoint before their names are durable.
    RebuiltNamedUnsynced,
    /// A cancel is not marked in the run's two bits.
    CancelledBitNotSaved,
    /// A cancel leaves its subject's count of what is pending as it was.
    CountNotLowered,
    /// What ended while a checkpoint wrote its run is counted by the forecast for ever.
    EndedMeanwhileLost,
    /// What ended of a run, and was too much to keep, is counted by the forecast for ever.
    ForgottenEndedCounted,
    /// A cancel leaves the forecast's total of its minute as it was.
    ForecastNotLowered,
    /// A list of what is pending goes on behind the millisecond in which its last page ended.
    ListGoesOnByTime,
    /// A dead letter is brought back again although it was before.
    RedriveUnjudged,
    /// QMQ's D5: what is refused for good is left out of the list of what was not stored.
    RefusedCalledStored,
    /// QMQ's D8 and R6: what a consumer reads is not compared with its check.
    DamageHandedOver,
    /// QMQ's D24: what was dispatched is dispatched again by a fact that says so twice.
    ReadyUnjudged,
    /// QMQ's D26: one bad message fails the whole request, after the others were stored.
    BatchFailsWhole,
    /// QMQ's D30: many messages that nobody took hold back the wheel.
    FullQueueHoldsDispatch,
    /// QMQ's D31: one subject that is not consumed holds back all others.
    SlowSubjectHoldsDispatch,
    /// QMQ's D32: a subject that leads nowhere is waited for.
    UnroutedSubjectHoldsDispatch,
    /// QMQ's D33: what is refused for good is said to be refused for now.
    RefusedForNow,
    /// QMQ's D35: a message without the delay bit is due ten seconds after it came.
    UndelayedWaits,
    /// QMQ's D37: a checkpoint that cannot be read stops the start.
    CheckpointStopsStart,
    /// QMQ's R1: what an acknowledgement passes over is done with.
    PassedOverIsDone,
    /// QMQ's R2: a restart applies no acknowledgements behind its checkpoint.
    AcknowledgementsForgotten,
    /// QMQ's R4: what cannot be read is passed over without a word.
    DamageUncounted,
    /// QMQ's R4: what one group has finished is kept for no other.
    FinishedByOneIsByAll,
    /// QMQ's R6: the check of what a producer sends is not verified.
    SentUnverified,
    /// A consumer's pull offsets begin with 0, although others of its group had them before.
    OffsetsBeginAnew,
    /// A server answers when something is in the log's queue, and does not wait until it is visible.
    AnswerBeforeVisible,
    /// A flush is answered before what was acknowledged is in the log's queue.
    AcknowledgedUnwritten,
    /// A server settles what came together on a connection in another order.
    SettledOutOfOrder,
    /// What is written counts as durable before the sector that it ends in was synced.
    PartialSectorNotSynced,
    /// A folder counts as synced and is not: a new file's name, a rename or a removal may be lost.
    FolderNotSynced,
    /// A suspect tail is sealed where it stands, and not copied: the log goes on over old bytes.
    OldTailAppendedOver,
    /// An opening goes on under the epoch of the one before, and gives its lost sequences out again.
    SequenceReused,
    /// A sync that failed counts as one that worked.
    SyncErrorSwallowed,
    /// A pull is answered under offsets whose reserve is not durable.
    PulledBeforeReserved,
    /// QMQ's R1: what a consumer holds is done with when its lease ends.
    LeaseEndIsDone,
    /// A sign of life of QMQ's clients acknowledges what they hold.
    HeartbeatAcknowledges,
    /// QMQ's R2: a consumer that comes back and says that it received nothing gets nothing again.
    LostFromReceived,
    /// A server forgets a consumer whose lease is over when its end is in the log's queue, and does not wait
    /// until that is durable.
    ForgottenBeforeEnd,
    /// Who waits for a position is not woken when it is reached.
    WaiterNotWoken,
    /// Whether anybody waits for a position is looked up before the position is told.
    WaitersCountedFirst,
    /// Who lets go of the log's writer does not look at what was queued meanwhile.
    QueueLeftBehind,
    /// Who lets go of the owner does not look at what arrived meanwhile.
    InboxLeftBehind,
    /// A failure of the log is not told to those who wait for a position.
    FailureUntold,
    /// What became ready is told to no consumer.
    ConsumersNotTold,
    /// A cancel of what is dispatched already is answered as one that came in time.
    CancelUnjudged,
    /// What a consumer gives back begins again although the consumer does not hold it any more.
    RetryUnjudged,
    /// An entry that begins again says that its payload stands under its own sequence.
    PayloadSequenceLost,
    /// An entry that begins again is ordered by the sequence that its message had before.
    MovedKeepsSequence,
    /// What is given back is not finished where it was.
    GivenBackStays,
    /// What is ready by its own fact is pending in the bits of its window.
    AtOnceLeftPending,
    /// Whether a message is due at once is judged by how far the feed has come, and not by its batch.
    DueByAnotherClock,
    /// What comes while dispatch is held is judged as if it were not.
    HeldNotInHeader,
    /// The clock begins without the last time that the log knows.
    ClockFloorForgotten,
    /// A wall clock that steps ahead is believed.
    StepBelieved,
    /// A batch calls durable what was written before it, synced or not.
    WrittenVouchedFor,
    /// What stands behind a cut in the log is left there.
    LaterSegmentsLeft,
    /// A full segment is not synced before the next one is used.
    RolledUnsynced,
    /// A checkpoint, or an identity, has its name before its bytes are durable.
    NamedBeforeSynced,
    /// The folder of a checkpoint, or of an identity, is not synced behind the rename.
    RenameNotSynced,
    /// QMQ's D11: a checkpoint's position is read after its run was written: what came between is in no
    /// run, and is not replayed.
    CheckpointAfterFlush,
    /// What is decided about entries while their run is written is forgotten.
    DecidedMeanwhileLost,
    /// What is decided about entries while their windows are merged is forgotten.
    MergedAsFrozen,
    /// What is to be loaded gets its name before it was synced.
    StagedUnsynced,
    /// A job that comes again is adopted again, and so is a staged run.
    AdoptsTwice,
    /// An adopted run goes with the checkpoint that was newest when it came, though a replay opens it.
    AdoptedGoesEarly,
    /// A merged run does not hold the runs that its payloads lie in.
    MergeHoldsNothing,
    /// A newer checkpoint that cannot be used is left where it is.
    NewerCheckpointLeft,
    /// An opening trusts folders as it finds them, and syncs none of checkpoints before it removes files.
    FoldersTrustedUnsynced,
    /// Only the newer of the two kept checkpoints holds files back.
    NewestHoldsAlone,
    /// What is old enough is removed, finished or not.
    RetentionByAge,
    /// What is finished is kept for one time, whichever subject it is of.
    RetentionForgetsSubjects,
    /// An open knows of no subject that the segments of its checkpoint have.
    FileSubjectsNotSaved,
    /// QMQ's D3: an opening knows the two newest windows of the schedule, and none before.
    TwoNewestRecovered,
    /// QMQ's D4: what arrives within the slice that was loaded last is left to the feed, which has
    /// read past it.
    CursorRace,
    /// What was reserved and not assigned before a crash is given out again.
    ReserveNotVoid,
    /// In `os` mode a reserve counts before it was synced.
    ReserveUnsynced,
    /// What may have been handed over before a crash comes again without a mark.
    MarkForgotten,
    /// The first retry does not make its group a group of the retry subject.
    RetryGroupNotMade,
    /// What lies below a group's start counts as unfinished by it.
    StartHoldsBack,
    /// A group may start with what is gone.
    StartBelowFloor,
    /// What is put away as a dead letter, as after too many attempts, is nowhere.
    DeadLetterDropped,
    /// An idle log, and one that is closed, does not say how far it is durable.
    WitnessNotWritten,
    /// On a full disk nothing can be finished, either.
    FullDiskStopsFinishing,
    /// Once less was free than the mark, messages are refused for good.
    RefusedForGood,
    /// A receipt of what was lost with its epoch is taken for one of what has its sequence now.
    LostReceiptTaken,
    /// Arrivals below the feed's position stay in memory, however many there are.
    WheelUnbounded,
    /// What is due of a subject that floods goes before what is due of all others.
    FloodGoesFirst,
    /// Subjects that got a lane of the feed together share it for as long as it lasts.
    LaneNeverParts,
    /// A batch is taken for the next one although its chain does not go on from the one before.
    ChainNotCompared,
    /// A record's header is not compared with its check.
    RecordUnchecked,
    /// What is moved to another time stays where it was, too.
    MovedStaysToo,
    /// A run is let go of when all of it was moved away, though that is in no other run yet.
    MoveLosesPayload,
    /// A move that comes again is answered as one of a message that is not known.
    MoveForgotten,
    /// What is moved is not found by its key any more.
    MovedLosesKey,
    /// What is replaced under its key stays pending, too.
    ReplacedStays,
    /// A checkpoint saves no keys of what is pending.
    KeysNotSaved,
    /// What is ready has its key as long as nobody else comes with it.
    ReadyKeepsKey,
    /// A move by a key moves whatever has it by then, and not what it names.
    MovedByKeyUnjudged,
    /// A command by a key that comes again under its id is judged again.
    CommandByKeyForgotten,
    /// What is asked of the first message, or command, of a batch holds for all of it.
    FirstTermsForAll,
    /// Commands by keys are done although there was no room for their ids.
    DoneWithoutRoomForIds,
    /// A checkpoint saves no ids of what was published lately.
    IdsNotSaved,
    /// An occurrence is stored whatever its series waits for.
    OccurrenceUnjudged,
    /// That a series owes its next occurrence is told to nobody.
    OwingUntold,
    /// A checkpoint saves nothing of what recurs.
    RecurringNotSaved,
    /// A hole of a segment is punched when the newest checkpoint names it, though an older one may be used that does not.
    HolePunchedBeforeBothCheckpoints,
    /// The same of a hole of a run.
    RunHolePunchedBeforeBothCheckpoints,
    /// A hole is planned where something unfinished has its payload.
    HoleIgnoresUnfinished,
    /// What is needed of a run's payloads is told by its own rows alone, though others point into it, too.
    HoleAsksOwnRowsAlone,
    /// A payload that was copied out of a run is a hole, though what was moved meanwhile has it there yet.
    HoleForgetsCopied,
    /// What becomes ready while its payload is copied does not hold the file that it is copied out of.
    ReadyForgetsCopied,
    /// What an archive has not got yet goes as if nobody waited for it.
    ArchiveMarkIgnored,
    /// Zeros are taken for a record.
    ZerosAccepted,
}

impl Planted {
    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(fault, _)| *fault)
    }
}

#[cfg(feature = "planted")]
thread_local! {
    static CHOSEN: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// The fault of all threads, as its place in [`Planted`] and one more; 0 is none.
#[cfg(feature = "planted")]
static EVERYWHERE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Turns on one fault for this thread, or none.
#[cfg(feature = "planted")]
pub fn plant(fault: Option<Planted>) {
    CHOSEN.set(fault);
}

/// Turns on one fault for all threads of this process, or none; for what starts its own threads.
#[cfg(feature = "planted")]
pub fn plant_everywhere(fault: Option<Planted>) {
    EVERYWHERE.store(fault.map_or(0, number_of), std::sync::atomic::Ordering::SeqCst);
}

#[cfg(feature = "planted")]
const fn number_of(fault: Planted) -> u32 {
    fault as u32 + 1
}

/// True where this fault was turned on, for this thread or for all.
#[cfg(feature = "planted")]
#[inline]
pub fn is_on(fault: Planted) -> bool {
    CHOSEN.get() == Some(fault) || EVERYWHERE.load(std::sync::atomic::Ordering::Relaxed) == number_of(fault)
}

/// True where this fault was turned on, which this build cannot do.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[expect(clippy::inline_always, reason = "the question must vanish from builds without the feature")]
pub const fn is_on(_fault: Planted) -> bool {
    false
}
