//! When it happens: real files, threads and clocks around the core. A decision in here is a defect.
//!
//! The path of a publish: `publish` encodes, the core's group commit queues, a committing thread
//! writes and syncs, the `inbox` carries the visible batch to whoever drives the owner, the owner
//! applies it; when its time has come the driver proposes a ready fact, which takes the same way,
//! and wakes the `subscription`s that wait for it.

mod administration;
mod asking;
mod attaching;
mod attendance;
mod background;
mod beginning;
mod blocks;
mod burying;
mod by_key;
mod clock;
mod committer;
mod crowd;
mod dead_letters;
mod delivery;
mod driver;
mod ending;
#[cfg(feature = "planted")]
mod failpoints;
mod files;
mod forecast;
mod free_room;
mod giving_up;
mod inbox;
mod inspect;
mod letting_go;
mod listener;
mod loading;
mod lock;
mod manual_clock;
mod mapping;
mod member;
mod metrics;
mod moving;
mod named_consumer;
mod named_pull;
mod named_settling;
mod names;
mod notifier;
mod occurring;
mod offset_hasher;
mod on_terms;
mod opening;
mod options;
mod outcomes;
mod pacing;
mod payload_reader;
mod payloads;
mod pending;
mod preparing;
mod publish;
mod punching;
mod reader_pin;
mod reading;
mod ready;
mod rebuilding;
mod receipts;
mod recurring;
mod remembered_clock;
mod report;
mod rescheduling;
mod salvage;
mod settled;
mod settling;
mod shared;
mod staging;
mod store;
mod subject_reader;
mod subscribers;
mod subscription;
mod sync;
mod timekeeping;
mod unblocked;
mod waiting;
mod write_back;

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

pub use delaymq_core::record::retry::REASON_BYTES_MAX;
pub use delaymq_core::store::{
    ConsumerListed, FileKind, Gap, GroupListed, HeldSpace, Holder, HolderKind, InspectedFile, InspectedGroup,
    InspectedSubject, Inspection, KeepFinished, KeptForAge, LostMessage, OwnerOptions, Pin, Receipt, RecoveryProgress,
    RetryRule, Salvage, SalvagedGroup, SalvagedSeries, SalvagedSubject, SpaceReason, SubjectListed, Verification,
    VerificationProgress,
};

pub use attendance::Activity;
pub use beginning::Beginning;
pub use clock::{Clock, ClockReading, SystemClock};
pub use dead_letters::DeadLetter;
pub use delivery::{Delivered, DeliveryKey, DeliveryRange, Payload};
pub use ending::ended_of;
pub use files::FileStorage;
pub use inspect::{Inspected, inspect, look_pinned, pin_again};
pub use listener::Listener;
pub use loading::{LOAD_AGE_MS_MAX, LOAD_JOB_KEPT_MS, LOAD_JOBS_MAX, LOAD_ROWS_MAX, LOAD_RUNS_MAX, Loaded};
pub use manual_clock::{MANUAL_TIME_MAX, ManualClock, TimedStore};
pub use metrics::Snapshot;
pub use named_consumer::{
    CONSUMER_NAME_BYTES_MAX, ConsumerId, CreationLimits, GivenRun, Holding, NamedConsumer, NamedConsumerListed,
    NamedOptions, PullBounds, ReadAgain, TriedRun,
};
pub use names::{NAME_CHARACTERS_MAX, check_name};
pub use notifier::{Tidings, Wake};
pub use options::{
    BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BODY_BYTES_MAX, Due, Durability, FreeMarks, GroupStart, IN_FLIGHT_MAX,
    IfExists, Options, PublishTerms, SEGMENT_BYTES_MIN, SubscribeOptions, TermsLimits,
};
pub use pending::{Fate, LookedUp, Pending, PendingPage, PendingReader};
pub use publish::{PublishBatch, Receipts, Ticket};
pub use reader_pin::ReaderPin;
pub use ready::Ready;
pub use rebuilding::{adopt_rebuilt, plan_rebuild, rebuild_piece, refuse_open};
pub use recurring::{CatchUp, NewRecurring, RecurringListed, Recurs};
pub use report::{Report, Status};
pub use rescheduling::{CancelOutcome, MoveOutcome};
pub use salvage::{SalvageProgress, look_for_salvage, salvage_into};
pub use staging::stager_at;
pub use store::Store;
pub use subject_reader::{ReadNumbers, SubjectReader};
pub use subscription::Subscription;
#[cfg(feature = "model")]
pub use sync::modelled;
pub use unblocked::Pulled;

/// Locks a mutex whose data stays whole when a holder panics: every change under it is one that
/// later holders can live with.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
