//! The state that all threads of an open store share, and the order of locks.
//!
//! | lock | guards | may be taken while holding |
//! |---|---|---|
//! | `hands` | what one named consumer was assigned | nothing |
//! | `writer` | the appender | `hands` |
//! | `unreleased` | batches that are written and not visible, and their order in the inbox | `hands`, `writer` |
//! | `under_way` | how many named consumers are being registered | nothing |
//! | `owner_lock` | the owner, proposals not yet accepted | `hands`, `under_way` |
//! | `outcomes` | outcomes that a caller waits for | `owner_lock` |
//! | `queue` | group commit | any of the above |
//! | `reported`, `remembering` | what was reported of the clock; the file `clock` | all others |
//! | all others | themselves alone | any of the above |

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{GroupCommit, Stream, records_max};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::storage::Storage;
use delaymq_core::store::ReceiptBook;
use delaymq_core::units::{Millis, Sequence};

use crate::background::thread::Background;
use crate::clock::store_time::Time;
use crate::clock::time_zones::TimeZones;
use crate::commit::committer::{Queue, Unreleased, Writer};
use crate::commit::inbox::Inbox;
use crate::commit::outcomes::Outcomes;
use crate::commit::waits::{EventCount, Positions, Signal, Waited};
use crate::commit::write_back::WriteBack;
use crate::consume::named::registry::NamedConsumers;
use crate::consume::subscribers::Subscribers;
use crate::copies::state::Copies;
use crate::drive::driver::LockedOwner;
use crate::event_loop::notifier::Notifiers;
use crate::files::payload_cache::Payloads;
use crate::files::store_lock::ProcessGuard;
use crate::held;
use crate::names::Names;
use crate::options::Options;
use crate::publish::receipts::Issuer;
use crate::query::metrics::Metrics;
use crate::query::report::{Report, Reports};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex};

/// See the module.
pub(crate) struct Shared {
    pub(crate) guard: ProcessGuard,
    pub(crate) options: Options,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) log_stream: Stream,
    pub(crate) segment_bytes: u32,
    pub(crate) time: Time,
    pub(crate) time_zones: TimeZones,
    pub(crate) names: Names,
    pub(crate) issuer: Arc<Issuer>,
    /// Set once the epoch has begun.
    pub(crate) receipts: OnceLock<ReceiptBook>,
    /// How many consumers were registered in this epoch: a part of their names.
    pub(crate) consumers: AtomicU64,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) writer: Mutex<Option<Writer>>,
    pub(crate) unreleased: Mutex<VecDeque<Unreleased>>,
    pub(crate) unreleased_bytes: AtomicUsize,
    pub(crate) owner_lock: Mutex<Option<LockedOwner>>,
    pub(crate) inbox: Inbox,
    pub(crate) outcomes: Outcomes,
    pub(crate) positions: Positions,
    pub(crate) room: EventCount,
    pub(crate) notifiers: Arc<Notifiers>,
    pub(crate) committer: Signal,
    pub(crate) driver: Signal,
    pub(crate) helper: Signal,
    pub(crate) background: Background,
    pub(crate) write_back: WriteBack,
    pub(crate) subscribers: Subscribers,
    pub(crate) named: NamedConsumers,
    pub(crate) payloads: Payloads,
    pub(crate) reports: Reports,
    pub(crate) metrics: Metrics,
    /// The additional state of a store that leads copies.
    pub(crate) copies: Option<Copies>,
    pub(crate) poison: OnceLock<String>,
    pub(crate) closing: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl Shared {
    /// Fails with `ForkedProcess`, `Poisoned` or `Closed` if the store takes no work; with `NotPrimary` before the epoch
    /// of a store that leads has begun.
    pub(crate) fn check(&self) -> Result<()> {
        self.guard.check()?;
        self.check_poison()?;
        if self.closing.load(Ordering::SeqCst) { Err(Error::Closed) } else { self.check_begun() }
    }

    /// Fails with `Poisoned` if a write or sync has failed.
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// The first failure of a write or a sync, or of applying what was written. All waiters are woken, and nothing is
    /// answered from then on.
    pub(crate) fn fail(&self, error: &Error) {
        let reason = match error {
            // Not a failure: the store was closed on another thread.
            Error::Closed => return,
            Error::Poisoned { reason } => reason.clone(),
            other => other.to_string(),
        };
        if self.poison.set(reason.clone()).is_err() {
            return;
        }
        held(&self.queue).commits.failed(&reason);
        self.reports.add(Report::Poisoned { reason });
        if !is_on(Planted::FailureUntold) {
            self.positions.end();
        }
        self.room.notify_all();
        self.subscribers.notify_all();
        self.committer.raise();
        self.driver.raise();
        self.helper.raise();
        if let Some(copies) = &self.copies {
            copies.tell();
        }
    }

    /// The trusted time, and the millisecond from which delays count. That is the next one if this one has begun, so
    /// that no delay is too short.
    pub(crate) fn now(&self) -> (Millis, Millis) {
        let (reading, clock) = self.time.read_with_wall();
        (reading.now, reading.now.plus(u64::from(clock.is_within())))
    }

    /// The largest submission, in bytes of encoded records.
    pub(crate) fn submission_bytes_max(&self) -> usize {
        usize::try_from(records_max(self.segment_bytes)).unwrap_or(usize::MAX)
    }

    /// True if everything below `until` may be answered.
    pub(crate) fn is_visible(&self, until: Sequence) -> bool {
        self.positions.visible() >= until
    }

    /// Waits until everything below `until` is visible; false at the timeout.
    /// Fails with `Poisoned`, `ForkedProcess`; `Closed` if the store closed without writing it.
    pub(crate) fn wait_visible(&self, until: Sequence, timeout: Option<Duration>) -> Result<bool> {
        if self.is_visible(until) {
            return Ok(true);
        }
        self.guard.check()?;
        match self.positions.wait(until, timeout) {
            Waited::Reached => Ok(true),
            Waited::TimedOut => Ok(false),
            Waited::Ended => {
                self.check_poison()?;
                Err(Error::Closed)
            }
        }
    }

    /// Calls `look` with the queue's group commit.
    pub(crate) fn with_commits<T>(&self, look: impl FnOnce(&mut GroupCommit) -> T) -> T {
        look(&mut held(&self.queue).commits)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
