//! The options of the scenes' stores, and the names and sizes that scenes share.

use delaymq_core::message_log::Durability;
use delaymq_core::store::OwnerOptions;

use crate::node::NodeOptions;

/// The main subject of every scene. [`GROUP`] is its group.
pub(super) const SUBJECT: &str = "s";
pub(super) const GROUP: &str = "g";
/// The bytes of a body that takes more than one sector.
pub(super) const LONG: usize = 700;
/// A delay that is longer than any scene: a message with this delay stays pending.
pub(super) const FAR_MS: u64 = 86_400_000;

pub(super) fn kept() -> NodeOptions {
    let owner = OwnerOptions {
        checkpoint_bytes: u64::MAX,
        checkpoint_facts: u64::MAX,
        keep_finished_ms: u64::MAX,
        copy_after_ms: FAR_MS,
        ..OwnerOptions::default()
    };
    NodeOptions { owner, ..NodeOptions::default() }
}

pub(super) fn os() -> NodeOptions {
    NodeOptions { durability: Durability::Os, ..kept() }
}

pub(super) fn copying() -> NodeOptions {
    let owner = OwnerOptions { copy_after_ms: 100, ..kept().owner };
    NodeOptions { owner, ..kept() }
}

pub(super) fn lean() -> NodeOptions {
    let owner = OwnerOptions { keep_finished_ms: 0, ready_entries_max: 2, ..copying().owner };
    NodeOptions { owner, ..kept() }
}

/// Each checkpoint merges the runs of earlier checkpoints, with their payloads.
pub(super) fn merging() -> NodeOptions {
    let owner = OwnerOptions { merge_windows_min: 1, reclaim_bytes: 1, ..lean().owner };
    NodeOptions { owner, ..kept() }
}

/// A hole may be as small as one sector.
pub(super) fn hollow() -> NodeOptions {
    let owner = OwnerOptions { reclaim_bytes: 1, hole_bytes_min: 1, hole_block_bytes: 512, ..lean().owner };
    NodeOptions { owner, ..lean() }
}

/// As [`hollow`], and a merge copies no payloads: they stay in their runs.
pub(super) fn hollow_runs() -> NodeOptions {
    let owner = OwnerOptions { merge_payload_bytes: 0, ..hollow().owner };
    NodeOptions { owner, ..hollow() }
}
