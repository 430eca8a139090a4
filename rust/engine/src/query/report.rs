//! Reports, which are events for a log, and the status, a snapshot of the store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::message_log::Durability;
use delaymq_core::units::{Epoch, Location, Millis, ReadyNumber, Sequence, Utc};
use thiserror::Error;

use crate::clock::time_zones::ZonesInUse;
use crate::commit::waits::wait_while;
use crate::event_loop::notifier::{Notifier, Notifiers};
use crate::held;
use crate::sync::{Condvar, Instant, Mutex};

/// An event that is worth a line in an operator's log.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Report {
    /// The end of the log was not vouched for: its good part was kept, the rest set aside.
    #[error("the end of the log was not vouched for; set aside: {}", aside.join(", "))]
    TailRepaired {
        /// What was set aside, in words.
        aside: Vec<String>,
    },
    /// A checkpoint could not be read; the other one was used.
    #[error("{path} is unreadable ({reason}); the other checkpoint was used")]
    CheckpointUnreadable {
        /// The file, relative to the store.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A damaged message was voided by a durable fact.
    #[error("{} is damaged and was given up: {reason}", voided(subject, *sequence))]
    Voided {
        /// The subject's name; empty if it is not known.
        subject: String,
        /// The sequence of the damaged payload.
        sequence: Sequence,
        /// What was found where.
        reason: String,
    },
    /// A ready message whose entry cannot be read was voided by a durable fact.
    #[error("ready message {number} of subject {subject:?} is damaged and was given up: {reason}")]
    VoidedReady {
        /// The subject's name; empty if it is not known.
        subject: String,
        /// Its number in the subject.
        number: ReadyNumber,
        /// What was found where.
        reason: String,
    },
    /// An operator expired messages that no consumer had taken.
    #[error("{count} messages of subject {subject:?} that were due before {} have expired", Utc(*due_before))]
    Expired {
        /// The subject's name.
        subject: String,
        /// How many.
        count: u64,
        /// They were due before this.
        due_before: Millis,
    },
    /// A block of a run is damaged. Its entries were read from the log, or are voided by name.
    #[error("{path} is damaged: {reason}")]
    RunDamaged {
        /// The file, relative to the store.
        path: String,
        /// What was found where.
        reason: String,
    },
    /// The disk is full: publishes are refused, everything else goes on.
    #[error("the disk is full: publishes are refused until there is room")]
    DiskFull,
    /// Free room is below the mark for warnings.
    #[error("{free_bytes} bytes of the disk are free, less than the mark of {mark_bytes}")]
    RoomLow {
        /// So much is free.
        free_bytes: u64,
        /// The mark.
        mark_bytes: u64,
    },
    /// Free room is below the mark for refusals: publishes are refused, everything else goes on.
    #[error("{free_bytes} bytes of the disk are free: publishes are refused until there are {mark_bytes}")]
    BelowMark {
        /// So much is free.
        free_bytes: u64,
        /// The mark.
        mark_bytes: u64,
    },
    /// There is room again: publishes are taken.
    #[error("there is room again: publishes are taken")]
    RoomAgain,
    /// The wall clock did not go on as the boot-time clock did, by a second or more.
    #[error("the wall clock stepped {} by {} ms", if *by_ms < 0 { "back" } else { "ahead" }, by_ms.unsigned_abs())]
    ClockStepped {
        /// By so many milliseconds ahead; negative if it went back.
        by_ms: i64,
    },
    /// A step of the wall clock that held dispatch was accepted.
    #[error(
        "{} accepted the wall clock: the trusted clock goes on {by_ms} ms later",
        if *by_pace { "the setting clock_accept_after" } else { "an operator" }
    )]
    ClockAccepted {
        /// By how many milliseconds the trusted clock went ahead.
        by_ms: u64,
        /// True if the wall clock had kept its pace for as long as the option says, and false if an operator accepted it.
        by_pace: bool,
    },
    /// More messages are due in one minute than the options allow for.
    #[error("{messages} messages and more are due within the minute from {} on; spread them, with jitter", Utc(*start))]
    HotMinute {
        /// When it begins.
        start: Millis,
        /// How many were due in it when it was noticed.
        messages: u64,
    },
    /// Dispatch is held because the clock cannot be trusted.
    #[error("dispatch is held: {reason}")]
    DispatchHeld {
        /// Why.
        reason: String,
    },
    /// Dispatch goes on.
    #[error("dispatch goes on")]
    DispatchResumed,
    /// A series pauses until the store is opened again: this release cannot compute when its next message is due.
    #[error(
        "the series {name:?} of subject {subject:?} rests until it is replaced, or the store is opened by who knows its \
         rule: {reason}"
    )]
    SeriesRests {
        /// The subject's name.
        subject: String,
        /// Its name in the subject.
        name: String,
        /// The part of its rule that is wrong.
        reason: String,
    },
    /// A series ended by itself: its rule has no further occurrence.
    #[error("the series {name:?} of subject {subject:?} has ended: its rule does not happen within ten years")]
    SeriesOver {
        /// The subject's name.
        subject: String,
        /// Its name in the subject.
        name: String,
    },
    /// The file system punches no holes: finished parts of a segment or a run stay until the whole file goes.
    #[error("the file system has no holes: what is finished in a file of messages stays until the file goes")]
    NoHoles,
    /// Work in the background failed and is tried again.
    #[error("{work} failed and is tried again: {reason}")]
    BackgroundFailed {
        /// Which work: `checkpoint`, `prepare`, `retire`, `merge`, `free_room`.
        work: &'static str,
        /// What failed.
        reason: String,
    },
    /// A write or sync failed: the store refuses everything until it is opened again.
    #[error("the store stopped: {reason}; open it again")]
    Poisoned {
        /// What failed first.
        reason: String,
    },
}

impl Report {
    /// The kind as one word with underscores, for structured logs.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TailRepaired { .. } => "tail_repaired",
            Self::CheckpointUnreadable { .. } => "checkpoint_unreadable",
            Self::Voided { .. } | Self::VoidedReady { .. } => "voided",
            Self::Expired { .. } => "expired",
            Self::RunDamaged { .. } => "run_damaged",
            Self::DiskFull => "disk_full",
            Self::RoomLow { .. } => "room_low",
            Self::BelowMark { .. } => "below_mark",
            Self::RoomAgain => "room_again",
            Self::ClockStepped { .. } => "clock_stepped",
            Self::ClockAccepted { .. } => "clock_accepted",
            Self::HotMinute { .. } => "hot_minute",
            Self::DispatchHeld { .. } => "dispatch_held",
            Self::DispatchResumed => "dispatch_resumed",
            Self::SeriesRests { .. } => "series_rests",
            Self::SeriesOver { .. } => "series_over",
            Self::NoHoles => "no_holes",
            Self::BackgroundFailed { .. } => "background_failed",
            Self::Poisoned { .. } => "poisoned",
        }
    }
}

fn voided(subject: &str, sequence: Sequence) -> String {
    if subject.is_empty() {
        format!("the pending message of sequence {sequence}")
    } else {
        format!("message {sequence} of subject {subject:?}")
    }
}

/// A snapshot of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a snapshot has as many flags as there are conditions")]
pub struct Status {
    /// When calls return.
    pub durability: Durability,
    /// The stream's identity.
    pub stream: [u8; 16],
    /// This opening's epoch.
    pub epoch: Epoch,
    /// Messages that wait for their time.
    pub pending: u64,
    /// Messages that became ready and that some group has not finished.
    pub ready: u64,
    /// The next sequence that will be given out.
    pub accepted: Sequence,
    /// Facts below this are written.
    pub written: Sequence,
    /// Facts below this are on disk.
    pub synced: Sequence,
    /// Facts below this may be answered.
    pub visible: Sequence,
    /// Facts below this are applied.
    pub applied: Sequence,
    /// Where the next batch goes.
    pub position: Location,
    /// The trusted clock.
    pub now: Millis,
    /// Dispatch is held because the clock cannot be trusted.
    pub held: bool,
    /// Steps of the wall clock of a second and more since this open.
    pub clock_steps: u64,
    /// Steps of the wall clock that were accepted while they held dispatch, since this open.
    pub clock_accepts: u64,
    /// Publishes are refused because the disk is full, or free room is below its mark.
    pub disk_full: bool,
    /// Free room is below the mark for warnings.
    pub room_low: bool,
    /// Free room at the last measurement; `None` if no mark is set.
    pub free_bytes: Option<u64>,
    /// Why the store refuses everything, if it does.
    pub poisoned: Option<String>,
    /// The store is closed.
    pub closed: bool,
    /// How long recovery took at this open.
    pub recovered_in: Duration,
    /// Facts that recovery applied.
    pub recovered_facts: u64,
    /// What this open set aside, in words.
    pub aside: Vec<String>,
    /// The version of the time zone rules that series follow.
    pub zones: ZonesInUse,
    /// Minutes in which more messages are due than the options allow for.
    pub hot_minutes: u64,
    /// Damaged messages that were voided since this open.
    pub voided: u64,
    /// Messages that have expired since this open.
    pub expired: u64,
    /// True if this open created the store.
    pub created: bool,
    /// Counters of the engine.
    pub metrics: crate::query::metrics::Snapshot,
}

/// Reports that were not fetched yet. If nobody fetches them, the oldest are dropped.
#[derive(Default)]
pub(crate) struct Reports {
    waiting: Mutex<VecDeque<Report>>,
    arrived: Condvar,
    notifiers: Arc<Notifiers>,
}

impl Reports {
    const KEPT: usize = 1_024;

    /// No reports yet. The notifiers wake for each.
    pub(crate) fn new(notifiers: Arc<Notifiers>) -> Self {
        Self { notifiers, ..Self::default() }
    }

    pub(crate) fn add(&self, report: Report) {
        self.put(report);
        self.tell();
    }

    /// As [`Self::add`], for a thread that holds a lock that a woken thread may want. Call [`Self::tell`] afterwards.
    pub(crate) fn put(&self, report: Report) {
        let mut waiting = held(&self.waiting);
        if waiting.len() >= Self::KEPT {
            waiting.pop_front();
        }
        waiting.push_back(report);
        self.arrived.notify_all();
    }

    /// Wakes the threads that wait for reports.
    pub(crate) fn tell(&self) {
        self.notifiers.each(Notifier::report);
    }

    pub(crate) fn next(&self, wait: Duration) -> Option<Report> {
        Instant::now().checked_add(wait)?;
        wait_while(&self.arrived, held(&self.waiting), wait, VecDeque::is_empty).pop_front()
    }

    /// Wakes all waiting threads, since the store closes.
    pub(crate) fn wake(&self) {
        self.arrived.notify_all();
    }
}
