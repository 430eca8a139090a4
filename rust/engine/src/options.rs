//! What a caller chooses when opening, publishing and subscribing.

use std::collections::BTreeMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::store::OwnerOptions;
use delaymq_core::units::Millis;

pub use delaymq_core::message_log::{Durability, FreeMarks};
pub use delaymq_core::record::limits::{BATCH_MESSAGES_MAX, BODY_BYTES_MAX};
pub use delaymq_core::record::name::GroupStart;
pub use delaymq_core::record::terms::{IfExists, TermsLimits};

use crate::clock::system_clock::{Clock, SystemClock};
use crate::consume::named::consumer::check_in_flight;

/// Segments that hold the largest batch twice; also the largest batch.
pub const BATCH_BYTES_MAX: usize = 32 << 20;
/// The most messages that one consumer may hold unacknowledged: what a crash may bring a second time.
pub const IN_FLIGHT_MAX: u32 = 65_535;
/// The smallest segment; tests use it to cross every edge.
pub const SEGMENT_BYTES_MIN: u32 = 64 << 10;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// When publishes, cancels and acknowledgements are answered.
    pub durability: Durability,
    /// Bytes of one log segment, from 64 KiB; fixed when the store is created.
    pub segment_bytes: u32,
    /// The furthest due time ahead that a publish may have, in milliseconds.
    pub delay_ms_max: u64,
    /// How many keys and ids there may be, and how long an id is remembered.
    pub terms: TermsLimits,
    /// When checkpoints are taken, what memory holds, how long finished messages are kept.
    pub owner: OwnerOptions,
    /// How long what is finished of single subjects is kept, in milliseconds; of the others as the owner's options say.
    pub keep_finished_of: BTreeMap<String, u64>,
    /// Of what is free on the disk; none by default.
    pub marks: FreeMarks,
    /// Makes the store where there is none; otherwise an absent one is refused.
    pub create: bool,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Disk,
            segment_bytes: 128 << 20,
            delay_ms_max: 10 * 366 * 24 * 3_600_000,
            terms: TermsLimits::default(),
            owner: OwnerOptions::default(),
            keep_finished_of: BTreeMap::new(),
            marks: FreeMarks::default(),
            create: true,
            clock: Arc::new(SystemClock),
        }
    }
}

/// When a message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// So many milliseconds after the store receives it.
    After(u64),
    /// At this time; the past is now.
    At(Millis),
}

/// On which terms a message is published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishTerms<'a> {
    /// Its key: one pending message of a subject has it, and no other.
    pub key: Option<&'a str>,
    /// What becomes of it where its key is taken.
    pub if_exists: IfExists,
    /// True where a message of the same id, published lately, is the same one, and not stored again.
    pub deduplicates: bool,
}

impl PublishTerms<'_> {
    /// None at all: it is stored.
    pub const NONE: Self = Self { key: None, if_exists: IfExists::Replace, deduplicates: false };
}

/// How a subscription begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Where a group that is new starts; one that exists goes on where it is.
    pub start: GroupStart,
    /// The most messages that this subscription holds unacknowledged.
    pub in_flight_max: u32,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self { start: GroupStart::Earliest, in_flight_max: 256 }
    }
}

impl SubscribeOptions {
    /// Makes sure that a store takes them.
    ///
    /// # Errors
    /// `InvalidArgument` naming `in_flight_max`.
    pub fn check(&self) -> Result<()> {
        check_in_flight(self.in_flight_max)
    }
}
