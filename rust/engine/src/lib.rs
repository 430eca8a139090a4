//! The engine decides when things happen: real files, threads and clocks around the core. Every decision about messages
//! is the core's.
//!
//! A publish: `publish` encodes it, the core's group commit queues it, `commit` writes and syncs it, the inbox carries
//! the visible batch to the owner, and `drive` applies it. When the message is due, the driver proposes a ready fact,
//! which takes the same way, and wakes the subscriptions of `consume` that wait for it.
//!
//! Every call on an open store may fail with `ForkedProcess` in a forked child of the process that opened it, with
//! `Poisoned` after a write or sync has failed, and with `Closed` once it is closed. `# Errors` says what else a call
//! may fail with, and when.
//!
//! Read `store` (the facade), `opening` and `close`, `shared` (the state of all threads, and the order of locks), then
//! the folders in the order of that path. `files`, `clock` and `background` serve all of them. `copies` has what is
//! different in a store whose log other nodes have, too.

mod background;
mod clock;
mod close;
mod commit;
mod consume;
mod copies;
mod drive;
mod event_loop;
#[cfg(feature = "planted")]
mod failpoints;
mod files;
mod names;
mod opening;
mod operate;
mod options;
mod publish;
mod query;
mod shared;
mod store;
mod sync;

use std::sync::PoisonError;

use delaymq_core::error::Error;

use crate::sync::{Mutex, MutexGuard};

pub use delaymq_core::clock::report::{ClockReport, HeldReport};
pub use delaymq_core::record::retry::REASON_BYTES_MAX;
pub use delaymq_core::store::{
    ConsumerListed, FileKind, Gap, GroupListed, HeldSpace, Holder, HolderKind, InspectedFile, InspectedGroup,
    InspectedSubject, Inspection, KeepFinished, KeptForAge, LostMessage, OwnerOptions, Pin, Receipt, RecoveryProgress,
    RetryRule, Salvage, SalvagedGroup, SalvagedSeries, SalvagedSubject, SpaceReason, SubjectListed, Verification,
    VerificationProgress,
};

pub use clock::consumer_presence::Activity;
pub use clock::manual_clock::{MANUAL_TIME_MAX, ManualClock};
pub use clock::system_clock::{Clock, ClockReading, SystemClock};
pub use clock::timed_store::TimedStore;
pub use consume::delivery::{Delivered, DeliveryKey, DeliveryRange, Payload};
pub use consume::named::consumer::{
    CONSUMER_NAME_BYTES_MAX, ConsumerId, CreationLimits, GivenRun, Holding, NamedConsumer, NamedConsumerListed,
    NamedOptions, PullBounds, ReadAgain, TriedRun,
};
pub use consume::named::judging::Judging;
pub use consume::named::registration::Registration;
pub use consume::named::removal::ended_of;
pub use consume::subscription::Subscription;
pub use copies::leading::Leading;
pub use copies::log::DiskWork;
pub use copies::state::{CopyCount, Intake};
pub use copies::waiting_loads::LoadOffer;
pub use event_loop::listener::Listener;
pub use event_loop::nonblocking::Pulled;
pub use event_loop::notifier::{Wake, Wakeup};
pub use files::reader_pin::ReaderPin;
pub use files::storage::FileStorage;
pub use files::store_lock::StoreLock;
pub use names::{NAME_CHARACTERS_MAX, check_name};
pub use opening::random;
pub use operate::dead_letters::DeadLetter;
pub use operate::inspection::{Inspected, inspect, look_pinned, pin_again};
pub use operate::rebuild::{adopt_rebuilt, plan_rebuild, rebuild_piece, refuse_open};
pub use operate::salvage::{SalvageProgress, preview_salvage, salvage_into};
pub use options::{
    BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BODY_BYTES_MAX, CLOCK_ACCEPT_AFTER_MS_MIN, Due, Durability, Expires,
    FreeMarks, IN_FLIGHT_MAX, IfExists, OnExpiry, Options, PublishTerms, SEGMENT_BYTES_MIN, Since, StartAt,
    SubscribeOptions, TermsLimits,
};
pub use publish::batch::{PublishBatch, Receipts, Ticket};
pub use publish::by_key::LookedUpKey;
pub use publish::loads::{LOAD_AGE_MS_MAX, LOAD_JOB_KEPT_MS, LOAD_JOBS_MAX, LOAD_ROWS_MAX, LOAD_RUNS_MAX, Loaded};
pub use publish::recurring::{CatchUp, ExpiresAfter, NewRecurring, RecurringListed, Recurs};
pub use publish::rescheduling::{CancelOutcome, MoveOutcome};
pub use publish::staging::stager_at;
pub use query::metrics::Snapshot;
pub use query::pending::{Fate, LookedUp, Pending, PendingPage, PendingReader};
pub use query::ready::Ready;
pub use query::report::{Report, Status};
pub use store::Store;
#[cfg(feature = "model")]
pub use {commit::waits::models as waits_models, sync::modelled};

/// Locks a mutex, also one whose last holder panicked: under every mutex of this crate the data stays valid after each
/// single change.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An argument is not what it must be.
pub(crate) fn invalid(argument: &'static str, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::InvalidArgument { argument, expected: expected.into(), found: found.into() }
}
