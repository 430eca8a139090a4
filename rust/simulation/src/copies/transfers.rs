//! The snapshots that were offered, and those that nodes receive, as well as files of loads.

use std::collections::BTreeMap;

use delaymq_core::replication::{FilePart, NodeId, SnapshotOffer};
use delaymq_core::run::StagedRun;
use delaymq_core::units::Epoch;

/// The parts of the snapshots that were offered. They come at once, and are as they were when they were offered.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) parts: BTreeMap<u64, Vec<FilePart>>,
    pub(super) number: u64,
    /// What the node at a place receives.
    pub(super) receiving: BTreeMap<usize, Receiving>,
    /// The files of loads that the node at a place lacks, in one life of it.
    pub(super) lacking: BTreeMap<usize, (u64, Vec<StagedRun>)>,
}

pub(super) struct Receiving {
    pub(super) life: u64,
    pub(super) from: NodeId,
    pub(super) exchange: (Epoch, u64),
    pub(super) offer: SnapshotOffer,
}
