//! The snapshots that were offered, and those that nodes receive.

use std::collections::BTreeMap;

use delaymq_core::replication::{NodeId, SnapshotOffer, SnapshotPiece};
use delaymq_core::units::Epoch;

/// The parts of the snapshots that were offered. They come at once, and are as they were when they were offered.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) parts: BTreeMap<u64, Vec<SnapshotPiece>>,
    pub(super) number: u64,
    /// What the node at a place receives.
    pub(super) receiving: BTreeMap<usize, Receiving>,
}

pub(super) struct Receiving {
    pub(super) life: u64,
    pub(super) from: NodeId,
    pub(super) exchange: (Epoch, u64),
    pub(super) offer: SnapshotOffer,
}
