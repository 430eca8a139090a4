//! What an owner may use of memory and disk, and when it acts.

use crate::error::{Error, Result};
use crate::record::queue::RANGE_BYTES;
use crate::record::ready::READY_ENTRY_BYTES;
use crate::schedule_log::MergeLimits;

/// What an owner may use, and when it checkpoints.
#[derive(Clone, Copy, Debug)]
pub struct OwnerOptions {
    /// The largest submission that the log takes, in bytes of records; recovery sets it to what the
    /// store's segments allow.
    pub records_bytes_max: u64,
    /// Log bytes after which a checkpoint is due.
    pub checkpoint_bytes: u64,
    /// Facts, and entries that became ready, after which a checkpoint is due.
    pub checkpoint_facts: u64,
    /// How far ahead the feed loads, in milliseconds.
    pub window_ms: u64,
    /// Entries that the feed holds at most.
    pub window_entries_max: usize,
    /// So many entries that no run has yet may lie in memory beside those that a checkpoint has written: whoever
    /// publishes more waits for it.
    pub recent_entries_max: u64,
    /// Ready entries kept in memory beside the runs, at most.
    pub ready_entries_max: usize,
    /// A payload due later than this after a checkpoint is copied into its run, in milliseconds.
    pub copy_after_ms: u64,
    /// Finished messages are kept this long, in milliseconds.
    pub keep_finished_ms: u64,
    /// Neighbouring windows of the schedule that are worth a merge; 0 where none ever is.
    pub merge_windows_min: usize,
    /// Rows of a merged run at most.
    pub merge_rows_max: u64,
    /// A merge copies what is pending of runs with payloads of up to so many bytes, so that they go.
    pub merge_payload_bytes: u64,
    /// A minute in which more messages are due is told as hot.
    pub hot_minute_messages: u64,
    /// A checkpoint is due where it gives this much room back, whatever has come, in bytes.
    pub reclaim_bytes: u64,
    /// A hole in a segment has at least so many bytes; `u64::MAX` where none is ever looked for.
    pub hole_bytes_min: u64,
    /// Bytes of a block of the disk: holes are punched in whole blocks.
    pub hole_block_bytes: u32,
}

/// Memory of the window by default, in bytes.
pub const WINDOW_BYTES: u64 = 512 << 20;
/// The least that it may have: 1,024 entries.
pub const WINDOW_BYTES_MIN: u64 = 128 << 10;
/// And the most.
pub const WINDOW_BYTES_MAX: u64 = 64 << 30;
/// What one of the entries that the feed holds costs at most, in bytes. An entry has 36, and up to 39 in chunks of the
/// wheel. Twice that is needed for a moment where much of one millisecond is put in order, and where a flood gets a
/// lane of its own. A quarter more than the window has may arrive before some is given back.
pub const WINDOW_ENTRY_BYTES: u64 = 128;

/// Entries that one ready fact lists, at most, however large the log's submissions may be.
pub(in crate::store) const READY_ENTRIES_MAX: usize = 1 << 14;

/// Ten thousand a second, for a minute: what a small machine hands over with room to spare.
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

/// Bytes of a record beside what it lists, rounded up.
const LIST_OVERHEAD_BYTES: u64 = 64;

/// A run is written again for itself where it is this share of what makes a checkpoint due.
const WASTED_SHARE: u64 = 64;

const _: () = assert!(WINDOW_BYTES / WINDOW_ENTRY_BYTES == 4 << 20, "the window of the default options");

impl OwnerOptions {
    /// The feed holds as many entries as need so many bytes of memory at most.
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

    /// How many entries a ready fact may list so that the log takes it.
    pub(super) fn ready_fact_entries(&self) -> usize {
        let bytes = self.records_bytes_max.saturating_sub(LIST_OVERHEAD_BYTES);
        usize::try_from(bytes / READY_ENTRY_BYTES as u64).unwrap_or(usize::MAX).clamp(1, READY_ENTRIES_MAX)
    }

    /// How many messages one assignment may list, each as a range of its own.
    pub(super) fn assign_fact_numbers(&self) -> usize {
        let bytes = self.records_bytes_max.saturating_sub(LIST_OVERHEAD_BYTES);
        usize::try_from(bytes / RANGE_BYTES as u64).unwrap_or(usize::MAX).max(1)
    }
}
