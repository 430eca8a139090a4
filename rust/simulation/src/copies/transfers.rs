//! The snapshots that nodes receive, part by part, and the files of loads.

use std::collections::BTreeMap;

use delaymq_core::replication::{FilePart, FilePlace, NodeId, SentFile, SnapshotOffer};
use delaymq_core::run::StagedRun;
use delaymq_core::units::Epoch;

/// See the module.
#[derive(Default)]
pub(super) struct Transfers {
    /// How many snapshots were offered.
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
    /// The parts that have come.
    pub(super) parts: Vec<FilePart>,
}

impl Receiving {
    /// Where the next part begins. `None` if everything has come.
    pub(super) fn next(&self) -> Option<FilePlace> {
        let number_of = |part: &FilePart| match part.place.file {
            SentFile::Snapshot { file, .. } => file,
            SentFile::Load(_) => 0,
        };
        let (begun, offset) = self.parts.last().map_or((0, 0), |last| (number_of(last), last.end()));
        let files = (0_u32..).zip(&self.offer.files).skip(usize::try_from(begun).unwrap_or(usize::MAX));
        let place = |file: u32| FilePlace {
            file: SentFile::Snapshot { number: self.offer.number, file },
            offset: if file == begun { offset } else { 0 },
        };
        files
            .map(|(file, known)| (place(file), known.length))
            .find(|(place, length)| place.offset < *length)
            .map(|(place, _)| place)
    }
}
