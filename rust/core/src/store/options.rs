//! The limits of an owner: memory, disk, and when it makes a checkpoint.

use crate::error::{Error, Result};
use crate::record::queue::RANGE_BYTES;
use crate::record::ready::READY_ENTRY_BYTES;
use crate::schedule_log::MergeLimits;

/// The limits of an owner, and when it makes a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct OwnerOptions {
    /// The largest submission that the log accepts, in bytes of records. Recovery sets it from the segment size.
    pub records_bytes_max: u64,
    /// Log bytes after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// Facts, and entries that became ready, after which a checkpoint is due.
    pub checkpoint_facts: u64,
    /// How far ahead of now the feed loads entries, in milliseconds.
    pub window_ms: u64,
    /// The most entries that the feed holds.
    pub window_entries_max: usize,
    /// The most entries in memory that no run has yet. A publish beyond that waits for the checkpoint.
    pub recent_entries_max: u64,
    /// The most ready entries that are kept in memory.
    pub ready_entries_max: usize,
    /// A payload due later than this after a checkpoint is copied into its run, in milliseconds.
    pub copy_after_ms: u64,
    /// Finished messages are kept this long, in milliseconds.
    pub keep_finished_ms: u64,
    /// The least number of neighbouring windows of the schedule that are merged; 0 turns merging off.
    pub merge_windows_min: usize,
    /// The most rows of a merged run.
    pub merge_rows_max: u64,
    /// A merge copies the pending payloads of runs with up to so many payload bytes, so that these runs can be removed.
    pub merge_payload_bytes: u64,
    /// A minute in which more messages are due is reported as hot.
    pub hot_minute_messages: u64,
    /// A checkpoint that frees so many bytes is due, however few facts have arrived.
    pub reclaim_bytes: u64,
    /// The least size of a hole in a segment, in bytes; `u64::MAX` turns hole punching off.
    pub hole_bytes_min: u64,
    /// The block size of the disk in bytes. Holes are punched in whole blocks.
    pub hole_block_bytes: u32,
}

/// The default memory of the window, in bytes.
pub const WINDOW_BYTES: u64 = 512 << 20;
/// The least memory of the window: 1,024 entries.
pub const WINDOW_BYTES_MIN: u64 = 128 << 10;
/// The most memory of the window.
pub const WINDOW_BYTES_MAX: u64 = 64 << 30;
/// The most memory that an entry in the feed takes, in bytes. An entry has 36 bytes, and up to 39 in chunks of the
/// wheel. Twice that is needed for a moment, while many entries of one millisecond are sorted or a flood gets its own
/// lane. Arrivals may exceed the window by a quarter before entries are given back to the schedule.
pub const WINDOW_ENTRY_BYTES: u64 = 128;

/// The most entries that one ready fact lists, even if the log accepts larger submissions.
pub(in crate::store) const READY_ENTRIES_MAX: usize = 1 << 14;

/// Ten thousand messages a second for a minute, which a small machine dispatches with room to spare.
pub(super) const HOT_MINUTE_MESSAGES: u64 = 600_000;

impl Default for OwnerOptions {
    fn default() -> Self {
        Self {
            records_bytes_max: 32 << 20,
            checkpoint_bytes: 256 << 20,
            checkpoint_facts: 1 << 20,
            window_ms: 4_000,
            window_entries_max: 4 << 20,
            recent_entries_max: 4 << 20,
            ready_entries_max: 1 << 20,
            copy_after_ms: 600_000,
            keep_finished_ms: 72 * 3_600_000,
            merge_windows_min: 8,
            merge_rows_max: 1 << 20,
            merge_payload_bytes: 8 << 20,
            hot_minute_messages: HOT_MINUTE_MESSAGES,
            reclaim_bytes: 64 << 20,
            hole_bytes_min: 8 << 10,
            hole_block_bytes: 4_096,
        }
    }
}

/// Bytes of a record without its list, rounded up.
const LIST_OVERHEAD_BYTES: u64 = 64;

/// A run of at least this share of `reclaim_bytes` may be rewritten on its own.
const WASTED_SHARE: u64 = 64;

const _: () = assert!(WINDOW_BYTES / WINDOW_ENTRY_BYTES == 4 << 20, "the window of the default options");

impl OwnerOptions {
    /// Limits the feed to as many entries as fit in so many bytes of memory.
    ///
    /// # Errors
    /// `InvalidArgument` naming `window_bytes`.
    pub fn set_window_bytes(&mut self, bytes: u64) -> Result<()> {
        let entries = usize::try_from(bytes / WINDOW_ENTRY_BYTES).unwrap_or(usize::MAX);
        if !(WINDOW_BYTES_MIN..=WINDOW_BYTES_MAX).contains(&bytes) {
            return Err(Error::InvalidArgument {
                argument: "window_bytes",
                expected: format!("{WINDOW_BYTES_MIN} to {WINDOW_BYTES_MAX}"),
                found: bytes.to_string(),
            });
        }
        self.window_entries_max = entries;
        Ok(())
    }

    pub(super) fn merge_limits(&self) -> MergeLimits {
        MergeLimits {
            windows_min: self.merge_windows_min,
            rows_max: self.merge_rows_max,
            wasted_bytes_min: self.reclaim_bytes / WASTED_SHARE,
        }
    }

    /// Returns how many entries one ready fact may list.
    pub(super) fn ready_fact_entries(&self) -> usize {
        let bytes = self.records_bytes_max.saturating_sub(LIST_OVERHEAD_BYTES);
        usize::try_from(bytes / READY_ENTRY_BYTES as u64).unwrap_or(usize::MAX).clamp(1, READY_ENTRIES_MAX)
    }

    /// Returns how many messages one assignment may list if each is a range of its own.
    pub(super) fn assign_fact_numbers(&self) -> usize {
        let bytes = self.records_bytes_max.saturating_sub(LIST_OVERHEAD_BYTES);
        usize::try_from(bytes / RANGE_BYTES as u64).unwrap_or(usize::MAX).max(1)
    }
}
