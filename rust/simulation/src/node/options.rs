//! The options of a node.

use std::collections::BTreeMap;

use delaymq_core::clock::{Remembered, TrustedClock};
use delaymq_core::message_log::{Durability, FreeMarks};
use delaymq_core::store::OwnerOptions;
use delaymq_core::units::Millis;

use crate::clock::ClockReading;

/// What a node is opened with.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Whether an answer waits for the disk.
    pub durability: Durability,
    /// Bytes of a segment.
    pub segment_bytes: u32,
    /// Bytes of the smallest segment, with which each opening begins. Segments do not grow if it is as large as
    /// `segment_bytes`, or larger.
    pub opening_bytes: u32,
    /// The furthest due time ahead that is accepted, in milliseconds.
    pub delay_ms_max: u64,
    /// True where consumers outlive their process, as those of a server do.
    pub keeps_consumers: bool,
    /// Marks of free disk space.
    pub marks: FreeMarks,
    /// Options of the owner.
    pub owner: OwnerOptions,
    /// A subject with a retention time of its own.
    pub kept_apart: KeptApart,
    /// A step of the wall clock is accepted once the wall clock has kept its pace for so many milliseconds; 0 for never.
    pub clock_accept_after_ms: u64,
    /// How far the wall clock is ahead of those of the other nodes of a group, as they have compared them.
    pub clock_ahead_ms: i64,
}

impl NodeOptions {
    /// The clock of a node whose log knows `floor`.
    pub(super) fn clock(&self, floor: Millis, now: ClockReading) -> TrustedClock {
        let accept_after_ms = Some(self.clock_accept_after_ms).filter(|after_ms| *after_ms > 0);
        let clock = match u64::try_from(self.clock_ahead_ms) {
            Ok(ahead_ms) if ahead_ms > 0 => {
                let trusted = Millis(now.wall.0.saturating_sub(ahead_ms));
                let remembered = Remembered { trusted, boot_ns: now.boot_ns };
                TrustedClock::resumed(floor, now.wall, now.boot_ns, remembered)
            }
            _ => TrustedClock::new(floor, now.wall, now.boot_ns),
        };
        clock.accepting_after(accept_after_ms)
    }
}

/// A subject whose finished messages have a retention time of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptApart {
    /// False if the subject is kept like all others.
    pub is_on: bool,
    /// The subject.
    pub subject: &'static str,
    /// The retention time in milliseconds.
    pub keep_ms: u64,
}

impl KeptApart {
    pub(super) fn times(self) -> BTreeMap<String, u64> {
        self.is_on.then(|| (self.subject.to_owned(), self.keep_ms)).into_iter().collect()
    }
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Disk,
            segment_bytes: 8 << 10,
            opening_bytes: u32::MAX,
            delay_ms_max: 315_360_000_000,
            keeps_consumers: false,
            marks: FreeMarks::default(),
            owner: OwnerOptions::default(),
            kept_apart: KeptApart::default(),
            clock_accept_after_ms: 0,
            clock_ahead_ms: 0,
        }
    }
}
