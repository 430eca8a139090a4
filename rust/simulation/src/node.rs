//! A node: one store, driven by hand. Everything that the engine does with threads is done step by step, so that a test
//! decides what happens between any two steps.
//!
//! A node decides nothing. Records wait in the queue until [`Node::write_batch`], are invisible until [`Node::sync`]
//! (or, under `Durability::Os`, until written), and change nothing before [`Node::apply`]. Calls that submit a fact
//! return its sequence, under which [`Node::take_outcome`] finds its outcome, or `None` if the fact must wait for room.
//!
//! Every storage call may fail. After an error that poisons, or after the machine was stopped, drop the node and open
//! another.

mod administration;
mod background;
mod by_key;
mod clock;
mod consumers;
mod copies;
mod draft;
mod loads;
mod log;
mod options;
mod pace_model;
mod pending_list;
mod qmq_calls;
mod recurring;
mod submissions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use delaymq_core::clock::{Reading, TrustedClock};
use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{
    AppenderStart, Class, FileEpochSource, GroupCommit, GroupCommitOptions, Identity, LogPosition, SegmentAppender,
    records_max,
};
use delaymq_core::record::command::{EpochStart, encode_epoch_start};
use delaymq_core::record::written_format;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointWork, Delivery, HotMinute, LogEnds, NewStore, Outcome, Owner, OwnerOptions, Proposals, ReceiptBook,
    RecoveryReport, Removable, Rescue, SubjectDirectory, open_identity, recover,
};
use delaymq_core::units::{ConsumerNumber, Epoch, GroupNumber, Millis, Sequence};

pub use self::administration::{AskedExpiry, SeenDeadLetter};
pub use self::background::Punched;
pub use self::by_key::{AskedByKeys, CommandByKey, CommandId, MovedByKey, NewTerms, PublishedOnTerms};
pub use self::consumers::{Expired, Handed, Pulled};
pub use self::loads::{NewRow, stage};
pub use self::log::{AppliedBatch, Label, SentFact};
pub use self::options::{KeptApart, NodeOptions};
use self::pace_model::PaceModel;
pub use self::qmq_calls::{QmqMessage, Settled};
pub use self::recurring::{NewRecurring, ProposedOccurrence};
pub use self::submissions::{Due, NewMessage, Published};
use crate::chance::Chance;
use crate::clock::ClockReading;

/// A consumer of a group.
pub type Place = (GroupNumber, ConsumerNumber);

/// See the module.
pub struct Node {
    storage: Arc<dyn Storage>,
    options: NodeOptions,
    identity: Identity,
    epoch: Epoch,
    nonce: [u8; 16],
    clock: TrustedClock,
    pace: PaceModel,
    reading: Reading,
    /// What the wall clock showed at the last look.
    wall: Millis,
    appender: SegmentAppender,
    /// The log, as the protocol of copies looks at it.
    ends: LogEnds,
    commits: GroupCommit,
    /// Bytes of a submission that waits for a segment; 0 if none waits.
    awaited_bytes: u64,
    /// Written, and not visible yet.
    unreleased: VecDeque<AppliedBatch>,
    /// Visible, and not applied yet.
    inbox: VecDeque<AppliedBatch>,
    applied: Vec<AppliedBatch>,
    owner: Owner,
    proposals: Proposals,
    labels: VecDeque<Label>,
    accepted: usize,
    sent: Vec<SentFact>,
    names: SubjectDirectory,
    receipts: ReceiptBook,
    outcomes: BTreeMap<Sequence, Outcome>,
    woken: BTreeSet<GroupNumber>,
    /// The last pull found messages that are ready and that it may not have yet.
    was_soon: bool,
    /// Assigned, and not handed over, since a payload could not be read.
    unread: BTreeMap<Place, VecDeque<Delivery>>,
    /// How often a pull had to read postings from a run.
    loads: u64,
    checkpoint: Option<CheckpointWork>,
    /// The sequence from which on the log is kept for nodes that lag.
    kept_from: Option<Sequence>,
    retired: Removable,
    punched: Punched,
    merge_failures: Vec<Error>,
    recovered: RecoveryReport,
    first_sequence: Sequence,
}

/// What an opening has found.
struct Opened {
    epoch: Epoch,
    trusted: Millis,
    end: LogPosition,
    ends: LogEnds,
    owner: Owner,
    appender: SegmentAppender,
    report: RecoveryReport,
}

fn names_of(owner: &Owner) -> (SubjectDirectory, ReceiptBook) {
    (SubjectDirectory::of(&owner.state().subjects), owner.receipt_book())
}

impl Node {
    /// Opens the store on this storage, or makes one if there is none. `random` stands for the system's source of
    /// randomness.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: NodeOptions,
        now: ClockReading,
        random: &mut Chance,
    ) -> Result<Self> {
        let new = NewStore { stream: random.bytes16(), node: random.bytes16(), segment_bytes: options.segment_bytes };
        let identity = open_identity(storage.as_ref(), Some(new))?;
        let mut epochs = FileEpochSource::new(Arc::clone(&storage), identity);
        let owner_options = OwnerOptions { records_bytes_max: records_max(identity.segment_bytes), ..options.owner };
        let mut recovered = recover(&storage, &identity, &mut epochs, owner_options, &mut |_| {})?;
        recovered.owner.keep_finished_of(options.kept_apart.times());
        let position = recovered.position;
        let start = AppenderStart {
            stream: identity.stream,
            epoch: recovered.epoch,
            number: recovered.next_segment,
            chain: position.chain,
            next_sequence: position.next_sequence,
            trusted: recovered.trusted,
            segment_bytes: identity.segment_bytes,
            opening_bytes: options.opening_bytes,
            given_bytes: recovered.given_bytes,
        };
        let appender = SegmentAppender::open(Arc::clone(&storage), &start)?;
        let commit_options = GroupCommitOptions::new(options.durability, appender.written(), identity.segment_bytes);
        let opened = Opened {
            epoch: recovered.epoch,
            trusted: recovered.trusted,
            end: position,
            ends: LogEnds::new(recovered.owner.state().epoch_table(), &position),
            owner: recovered.owner,
            appender,
            report: recovered.report,
        };
        let mut node = Self::assemble(storage, options, identity, opened, commit_options, (now, random));
        node.keep_room()?;
        node.begin_epoch(&position)?;
        node.commit()?;
        node.apply(usize::MAX)?;
        node.epoch_begun()?;
        Ok(node)
    }

    fn assemble(
        storage: Arc<dyn Storage>,
        options: NodeOptions,
        identity: Identity,
        opened: Opened,
        commit_options: GroupCommitOptions,
        (now, random): (ClockReading, &mut Chance),
    ) -> Self {
        let mut clock = options.clock(opened.trusted, now);
        let reading = clock.read(now.wall, now.boot_ns);
        let (names, receipts) = names_of(&opened.owner);
        Self {
            storage,
            options,
            identity,
            epoch: opened.epoch,
            nonce: random.bytes16(),
            clock,
            pace: PaceModel::new(now),
            reading,
            wall: now.wall,
            appender: opened.appender,
            ends: opened.ends,
            commits: GroupCommit::new(GroupCommitOptions { marks: options.marks, ..commit_options }),
            awaited_bytes: 0,
            unreleased: VecDeque::new(),
            inbox: VecDeque::new(),
            applied: Vec::new(),
            owner: opened.owner,
            proposals: Proposals::default(),
            labels: VecDeque::new(),
            accepted: 0,
            sent: Vec::new(),
            names,
            receipts,
            outcomes: BTreeMap::new(),
            woken: BTreeSet::new(),
            was_soon: false,
            unread: BTreeMap::new(),
            loads: 0,
            checkpoint: None,
            kept_from: None,
            retired: Removable::default(),
            punched: Punched::default(),
            merge_failures: Vec::new(),
            recovered: opened.report,
            first_sequence: opened.end.next_sequence,
        }
    }

    /// Prepares the room that facts of finishing need. A full disk does not stop an opening.
    fn keep_room(&mut self) -> Result<()> {
        self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        match self.prepare() {
            Err(error) if is_stopped(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Queues the first fact of the epoch, behind the end of the log.
    fn begin_epoch(&mut self, end: &LogPosition) -> Result<()> {
        let mut records = Vec::new();
        let start = EpochStart {
            epoch: self.epoch,
            format_version: written_format(),
            nonce: self.nonce,
            node: self.identity.node,
            previous_epoch: end.epoch,
            previous_chain: end.chain,
            previous_sequence: Sequence(self.first_sequence.0.saturating_sub(1)),
            delay_ms_max: self.options.delay_ms_max,
        };
        encode_epoch_start(&mut records, &start);
        self.submit(&records, 1, Class::Finishing, true)?.ok_or(Error::DiskFull).map(drop)
    }

    /// Proposes what follows from the end of the last process, once the first fact of the epoch is applied.
    fn epoch_begun(&mut self) -> Result<()> {
        (self.names, self.receipts) = names_of(&self.owner);
        self.owner.end_passing_consumers(&mut self.proposals);
        self.label(Label::Other);
        self.send().map(drop)
    }

    /// Reads the clocks and the free space. The calls that follow happen at this time, and with this room.
    pub fn look(&mut self, now: ClockReading) -> Reading {
        (self.reading, self.wall) = (self.clock.read(now.wall, now.boot_ns), now.wall);
        self.pace.look(now, self.clock.accepted(), self.options.clock_accept_after_ms);
        self.look_at_room();
        self.reading
    }

    /// The trusted time of the last look.
    pub fn reading(&self) -> Reading {
        self.reading
    }

    /// The owner.
    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The queue before the log.
    pub fn commits(&self) -> &GroupCommit {
        &self.commits
    }

    /// The log's writer.
    pub fn appender(&self) -> &SegmentAppender {
        &self.appender
    }

    /// How often a pull had to read postings from a run.
    pub fn loads(&self) -> u64 {
        self.loads
    }

    /// The storage.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The identity of the store.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The epoch of this opening.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The first sequence of this opening. Facts that an earlier opening wrote from here on are lost.
    pub fn first_sequence(&self) -> Sequence {
        self.first_sequence
    }

    /// The report of the opening.
    pub fn recovered(&self) -> &RecoveryReport {
        &self.recovered
    }

    /// The rescues of damaged blocks of runs since the last call.
    pub fn take_rescues(&mut self) -> Vec<Rescue> {
        self.owner.take_rescues()
    }

    /// See [`Owner::take_hot_minutes`].
    pub fn take_hot_minutes(&mut self) -> Vec<HotMinute> {
        self.owner.take_hot_minutes()
    }

    /// Closes the store: everything is written, synced and sealed.
    pub fn close(mut self) -> Result<()> {
        self.commits.close();
        self.commit()?;
        self.apply(usize::MAX)?;
        self.appender.seal_and_close(self.commits.visible().location)
    }
}

/// True where the simulated machine ended in this call.
pub fn is_stopped(error: &Error) -> bool {
    matches!(error, Error::Storage { fault: delaymq_core::error::StorageFault::Stopped, .. })
}

/// A result in which `DiskFull` counts as nothing: the submission waits until there is room.
pub fn unless_full<T: Default>(result: Result<T>) -> Result<T> {
    match result {
        Err(Error::DiskFull) => Ok(T::default()),
        other => other,
    }
}
