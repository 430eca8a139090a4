//! The faults that can be planted in the core, by name.

use delaymq_core::planted::{Planted, plant};

/// Every fault that random histories find, its name, and the number of seeds within which it must be
/// found. Those of QMQ have a test each: `tests/faults_of_qmq.rs`.
pub const FAULTS: [(Planted, &str, u64); 14] = [
    (Planted::AckBeforeSync, "AckBeforeSync", 100),
    (Planted::TornTailAccepted, "TornTailAccepted", 400),
    (Planted::OneTickEarly, "OneTickEarly", 100),
    (Planted::FeedSkipsArrival, "FeedSkipsArrival", 100),
    (Planted::FeedPassesUnhanded, "FeedPassesUnhanded", 100),
    (Planted::ReadyVisibleBeforeDurable, "ReadyVisibleBeforeDurable", 100),
    (Planted::CheckpointBeforeRuns, "CheckpointBeforeRuns", 200),
    (Planted::CancelledBitNotSaved, "CancelledBitNotSaved", 200),
    (Planted::RedriveUnjudged, "RedriveUnjudged", 400),
    (Planted::PartialSectorNotSynced, "PartialSectorNotSynced", 200),
    (Planted::FolderNotSynced, "FolderNotSynced", 200),
    (Planted::OldTailAppendedOver, "OldTailAppendedOver", 2_000),
    (Planted::SequenceReused, "SequenceReused", 200),
    (Planted::SyncErrorSwallowed, "SyncErrorSwallowed", 2_000),
];

/// Faults that histories over connections find, and the number of seeds within which they must.
pub const CONNECTED_FAULTS: [(Planted, &str, u64); 9] = [
    (Planted::AckBeforeSync, "AckBeforeSync", 100),
    (Planted::AnswerBeforeVisible, "AnswerBeforeVisible", 100),
    (Planted::OffsetsBeginAnew, "OffsetsBeginAnew", 200),
    (Planted::SettledOutOfOrder, "SettledOutOfOrder", 200),
    (Planted::PulledBeforeReserved, "PulledBeforeReserved", 600),
    (Planted::LeaseEndIsDone, "LeaseEndIsDone", 600),
    (Planted::HeartbeatAcknowledges, "HeartbeatAcknowledges", 600),
    (Planted::PassedOverIsDone, "PassedOverIsDone", 600),
    (Planted::LostFromReceived, "LostFromReceived", 600),
];

/// The fault of this name, and the number of seeds within which it must be found.
pub fn fault_named(name: &str) -> Option<(Planted, u64)> {
    let mut all = FAULTS.iter().chain(&CONNECTED_FAULTS);
    all.find(|(_, other, _)| *other == name).map(|(fault, _, seeds)| (*fault, *seeds))
}

/// The names of all faults.
pub fn names() -> String {
    let mut names: Vec<&str> = FAULTS.iter().chain(&CONNECTED_FAULTS).map(|(_, name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

/// Plants one fault on this thread for as long as the value lives.
#[derive(Debug)]
pub struct Plant;

impl Plant {
    /// Plants this fault, or none.
    pub fn new(fault: Option<Planted>) -> Self {
        plant(fault);
        Self
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        plant(None);
    }
}
