//! Options of opening, publishing and subscribing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::queues::tags::{Filter, check_filters};
use delaymq_core::store::OwnerOptions;
use delaymq_core::units::{Millis, Span};

pub use delaymq_core::message_log::{Durability, FreeMarks};
pub use delaymq_core::record::expire::{Expires, OnExpiry};
pub use delaymq_core::record::limits::{BATCH_MESSAGES_MAX, BODY_BYTES_MAX};
pub use delaymq_core::record::terms::{IfExists, TermsLimits};
pub use delaymq_core::store::{Since, StartAt};

use crate::clock::system_clock::{Clock, SystemClock};
use crate::invalid;

/// Segments hold the largest batch twice. This is also the largest batch.
pub const BATCH_BYTES_MAX: usize = 32 << 20;
/// The most messages that one consumer may hold unacknowledged. A crash may deliver as many again.
pub const IN_FLIGHT_MAX: u32 = 65_535;
/// The smallest segment; tests use it to reach every edge.
pub const SEGMENT_BYTES_MIN: u32 = 64 << 10;
/// The shortest time for which the wall clock keeps its pace until its step is accepted, in milliseconds.
pub const CLOCK_ACCEPT_AFTER_MS_MIN: u64 = 1_000;

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// When publishes, cancels and acknowledgements are answered.
    pub durability: Durability,
    /// Bytes of one log segment, from 64 KiB; fixed when the store is created.
    pub segment_bytes: u32,
    /// The furthest due time of a publish, in milliseconds from now.
    pub delay_ms_max: u64,
    /// How many keys and ids there may be, and how long an id is remembered.
    pub terms: TermsLimits,
    /// When checkpoints are taken, how much memory holds, how long finished messages are kept.
    pub owner: OwnerOptions,
    /// How long finished messages of single subjects are kept, in milliseconds. The others follow the owner's options.
    pub keep_finished_of: BTreeMap<String, u64>,
    /// The marks of free room on the disk; none by default.
    pub marks: FreeMarks,
    /// Creates the store if it does not exist; otherwise refuses.
    pub create: bool,
    /// A step of the wall clock that holds dispatch is accepted once the wall clock has kept pace with the boot-time
    /// clock for so many milliseconds, without another step; `None`, the default: only an operator accepts a step.
    pub clock_accept_after_ms: Option<u64>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Folders that may have a newer database of time zones than this program.
    pub zone_folders: Vec<PathBuf>,
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
            clock_accept_after_ms: None,
            clock: Arc::new(SystemClock),
            zone_folders: Vec::new(),
        }
    }
}

impl Options {
    /// Fails with `InvalidArgument` naming `delay` if that is longer than the longest delay.
    pub(crate) fn check_delay(&self, delay_ms: u64) -> Result<()> {
        if delay_ms <= self.delay_ms_max {
            return Ok(());
        }
        Err(invalid("delay", format!("at most {}", Span(self.delay_ms_max)), Span(delay_ms).to_string()))
    }

    /// Fails with `InvalidArgument` naming `clock_accept_after` if that is shorter than the shortest.
    pub(crate) fn check_accept_after(&self) -> Result<()> {
        match self.clock_accept_after_ms {
            Some(after_ms) if after_ms < CLOCK_ACCEPT_AFTER_MS_MIN => {
                let expected = format!("at least {}", Span(CLOCK_ACCEPT_AFTER_MS_MIN));
                Err(invalid("clock_accept_after", expected, Span(after_ms).to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Fails with `InvalidArgument` if a time is further ahead of `from` than the longest delay.
    pub(crate) fn check_ahead(&self, argument: &'static str, time: Millis, from: Millis) -> Result<()> {
        if time.since(from) <= self.delay_ms_max {
            return Ok(());
        }
        let expected = format!("at most {} ahead", Span(self.delay_ms_max));
        Err(invalid(argument, expected, format!("{} ahead", Span(time.since(from)))))
    }
}

/// When a message is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// So many milliseconds after the store receives it.
    After(u64),
    /// At this time. A time in the past means now.
    At(Millis),
}

/// The terms of a publish: key, id and expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublishTerms<'a> {
    /// Its key: at most one pending message of a subject has it.
    pub key: Option<&'a str>,
    /// What happens if its key is taken.
    pub if_exists: IfExists,
    /// True if a message whose id was published lately is a repetition, and is not stored again.
    pub deduplicates: bool,
    /// When it expires, and the effect.
    pub expires: Option<(Expires, OnExpiry)>,
}

impl PublishTerms<'_> {
    /// No terms: the message is stored.
    pub const NONE: Self = Self { key: None, if_exists: IfExists::Replace, deduplicates: false, expires: None };
}

/// How a subscription begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// Where a new group starts. An existing group goes on where it is.
    pub start: StartAt,
    /// The most messages that this subscription holds unacknowledged.
    pub in_flight_max: u32,
    /// A message must pass all of these; any other is finished for the group.
    pub filters: Vec<Filter>,
    /// A message that was handed over and not settled for so long goes back to the group; `None` is for ever.
    pub handle_within_ms: Option<u64>,
}

impl Default for SubscribeOptions {
    fn default() -> Self {
        Self { start: StartAt::Unfinished, in_flight_max: 256, filters: Vec::new(), handle_within_ms: None }
    }
}

impl SubscribeOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// `InvalidArgument` naming `in_flight_max` or `handle_within`; `TooLarge` naming `filters` or `tags`.
    pub fn check(&self) -> Result<()> {
        check_in_flight(self.in_flight_max)?;
        if self.handle_within_ms == Some(0) {
            return Err(invalid("handle_within", "at least 1 ms", "0 ms"));
        }
        check_filters(&self.filters)
    }
}

/// Fails with `InvalidArgument` naming `in_flight_max`.
pub(crate) fn check_in_flight(in_flight_max: u32) -> Result<()> {
    if (1..=IN_FLIGHT_MAX).contains(&in_flight_max) {
        return Ok(());
    }
    Err(invalid("in_flight_max", format!("1 to {IN_FLIGHT_MAX}"), in_flight_max.to_string()))
}
