//! The part of a node that differs between kinds of histories: its log, and what it does with it.

use delaymq_core::replication::{FilePart, FilePlace, LogView, NodeId, Promise, SnapshotOffer};
use delaymq_core::run::StagedRun;
use delaymq_core::units::{Epoch, Sequence};

use super::plan::Plan;
use crate::chance::Chance;
use crate::node::AppliedBatch;

/// A place in a log at which it may end: after a batch, or after a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The sequence after it.
    pub end: Sequence,
    /// The chain there.
    pub chain: u32,
    /// True if users wait for what is before it. The first fact of an epoch has no users.
    pub is_awaited: bool,
}

/// All such places of a log, in order.
#[derive(Clone, Debug, Default)]
pub struct Marks(Vec<Mark>);

impl Marks {
    pub(super) fn push(&mut self, mark: Mark) {
        self.0.push(mark);
    }

    /// The sequence after the last fact.
    pub(super) fn end(&self) -> Sequence {
        self.0.last().map_or(Sequence(1), |last| last.end)
    }

    /// The chain before this sequence. `None` if the log does not end there, or is shorter.
    pub(super) fn chain_at(&self, end: Sequence) -> Option<u32> {
        if end <= Sequence(1) {
            return Some(0);
        }
        let place = self.0.partition_point(|mark| mark.end < end);
        self.0.get(place).filter(|mark| mark.end == end).map(|mark| mark.chain)
    }

    /// The places after `from`, up to `end`.
    pub(super) fn between(&self, from: Sequence, end: Sequence) -> impl Iterator<Item = &Mark> {
        let place = self.0.partition_point(|mark| mark.end <= from);
        self.0.iter().skip(place).take_while(move |mark| mark.end <= end)
    }

    /// Forgets everything from `end` on.
    pub(super) fn cut(&mut self, end: Sequence) {
        self.0.truncate(self.0.partition_point(|mark| mark.end <= end));
    }
}

/// What users were answered, and what was done beside them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answered {
    /// Messages that were answered as stored.
    pub stored: u64,
    /// Messages of loads among them.
    pub loaded: u64,
    /// Publishes and cancels that were refused, because there were too few copies.
    pub refused: u64,
    /// Publishes and cancels that were committed on too few copies, so that their users do not know how they ended.
    pub unknown: u64,
    /// Cancels.
    pub cancelled: u64,
    /// Messages that were handed over, each counted once on each machine.
    pub delivered: u64,
    /// Acknowledgements.
    pub acknowledged: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Batches that are not in the log any more, each counted once on each machine.
    pub removed: u64,
}

impl Answered {
    pub(super) fn add(&mut self, more: Self) {
        self.stored += more.stored;
        self.loaded += more.loaded;
        self.refused += more.refused;
        self.unknown += more.unknown;
        self.cancelled += more.cancelled;
        self.delivered += more.delivered;
        self.acknowledged += more.acknowledged;
        self.checkpoints += more.checkpoints;
        self.removed += more.removed;
    }
}

/// See the module. The log of a process that does not run is what its next start would find.
pub trait Machine: LogView {
    /// A machine with an empty disk, which does not run.
    fn new(id: NodeId, seed: u64, plan: &Plan) -> Self;

    /// Where its log may end.
    fn marks(&self) -> &Marks;

    /// Starts the process. Returns the sequence after the last fact that the log itself calls committed.
    fn start(&mut self) -> Sequence;

    /// Ends the process, or the machine. A part of what is not durable is lost.
    fn crash(&mut self, chance: &mut Chance);

    /// The promise that is durable.
    fn promise(&self) -> Promise;

    /// Makes a promise durable. False if the machine has ended meanwhile.
    fn keep_promise(&mut self, promise: Promise) -> bool;

    /// Makes the log durable, unless it is.
    fn sync(&mut self) -> bool;

    /// Follows a primary, or waits for one: what was queued is dropped.
    fn follow(&mut self);

    /// Begins an epoch, whose first fact is appended.
    fn begin(&mut self, epoch: Epoch);

    /// It is this time, and the wall clock of the machine is so far ahead.
    fn look(&mut self, _now_ms: u64, _ahead_ms: i64) {}

    /// Does what users of a primary, with so many calls, and its clock demand. `accepts` says whether the primary takes publishes.
    fn work(&mut self, accepts: bool, calls: u64, chance: &mut Chance);

    /// Does a piece of a checkpoint, in any role.
    fn tend(&mut self, _chance: &mut Chance) {}

    /// Appends what another node sent. False if it does not follow.
    fn append(&mut self, bytes: &[u8]) -> bool;

    /// The files that batches name at which the last append has stopped, because they are not here.
    fn take_lacking(&mut self) -> Vec<StagedRun> {
        Vec::new()
    }

    /// Files of a load, in parts. `None` if one of them is not here.
    fn parts_of(&mut self, _runs: &[StagedRun]) -> Option<Vec<FilePart>> {
        None
    }

    /// Receives files of a load.
    fn receive(&mut self, _runs: &[StagedRun], _parts: &[FilePart]) {}

    /// Removes everything from `end` on, durably. The fact before it has this epoch.
    fn cut(&mut self, epoch: Epoch, end: Sequence);

    /// Takes everything before `end` for committed. `is_enough` says whether there are as many copies as a publish must have.
    fn commit(&mut self, end: Sequence, is_enough: bool);

    /// The log from `first` on, as a message carries it. `None` if its node gets files instead, as the log does not begin before it.
    fn ship(&mut self, first: Sequence) -> Option<Vec<u8>>;

    /// Keeps the log from this sequence on, for nodes that lag. `None` if there is none.
    fn keep_log_from(&mut self, _first: Option<Sequence>) {}

    /// Begins to send a node a snapshot of this number, and no earlier one; `None` if the machine has no files.
    fn snapshot(&mut self, _to: NodeId, _number: u64) -> Option<SnapshotOffer> {
        None
    }

    /// The part of the snapshot of a node that begins there. `None` if that snapshot is not sent any more.
    fn part(&mut self, _to: NodeId, _place: FilePlace) -> Option<FilePart> {
        None
    }

    /// The batches before `end` that the machine has written, also those that its log does not have any more.
    fn written_before(&self, _end: Sequence) -> Vec<AppliedBatch> {
        Vec::new()
    }

    /// Puts the files of a snapshot into the place of its own. The machine that sent it has written these batches. Returns the sequence
    /// after the last fact that is committed; `None` if the machine has ended meanwhile.
    fn adopt(&mut self, _offer: SnapshotOffer, _parts: &[FilePart], _written: Vec<AppliedBatch>) -> Option<Sequence> {
        None
    }

    /// Lets the machine end in the middle of one of its next calls of the disk.
    fn stop_soon(&mut self, _chance: &mut Chance) {}

    /// The machine does not end so any more.
    fn heal(&mut self) {}

    /// True if the machine has ended so.
    fn has_stopped(&self) -> bool {
        false
    }

    /// What its users were answered so far.
    fn answered(&self) -> Answered {
        Answered::default()
    }

    /// Where the machine has found itself wrong, in words.
    fn take_violations(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// True if the machine has done what it will do without users.
    fn is_at_rest(&self) -> bool {
        true
    }

    /// Compares what all machines know when everything is committed and they are equal. Returns what differs, in words.
    fn compare(_machines: &[&Self]) -> Vec<String>
    where
        Self: Sized,
    {
        Vec::new()
    }
}
