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
mod draft;
mod loads;
mod log;
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
    AppenderStart, Class, Durability, FileEpochSource, FreeMarks, GroupCommit, GroupCommitOptions, Identity,
    SegmentAppender, records_max,
};
use delaymq_core::record::command::{EpochStart, encode_epoch_start};
use delaymq_core::record::written_format;
use delaymq_core::storage::Storage;
use delaymq_core::store::{
    CheckpointWork, Delivery, HotMinute, NewStore, Outcome, Owner, OwnerOptions, Proposals, ReceiptBook,
    RecoveryReport, Removable, Rescue, SubjectDirectory, open_identity, recover,
};
use delaymq_core::units::{ConsumerNumber, Epoch, GroupNumber, Millis, Sequence};

pub use self::administration::{AskedExpiry, SeenDeadLetter};
pub use self::background::Punched;
pub use self::by_key::{AskedByKeys, CommandByKey, CommandId, MovedByKey, NewTerms, PublishedOnTerms};
pub use self::consumers::{Expired, Handed, Pulled};
pub use self::loads::{NewRow, stage};
pub use self::log::{AppliedBatch, Label, SentFact};
use self::pace_model::PaceModel;
pub use self::qmq_calls::{QmqMessage, Settled};
pub use self::recurring::{NewRecurring, ProposedOccurrence};
pub use self::submissions::{Due, NewMessage, Published};
use crate::chance::Chance;
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
}

impl NodeOptions {
    /// The clock of a node whose log knows `floor`.
    fn clock(&self, floor: Millis, now: ClockReading) -> TrustedClock {
        let accept_after_ms = Some(self.clock_accept_after_ms).filter(|after_ms| *after_ms > 0);
        TrustedClock::new(floor, now.wall, now.boot_ns).accepting_after(accept_after_ms)
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
    fn times(self) -> BTreeMap<String, u64> {
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
        }
    }
}

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
    appender: SegmentAppender,
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
    retired: Removable,
    punched: Punched,
    merge_failures: Vec<Error>,
    recovered: RecoveryReport,
    first_sequence: Sequence,
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
        let mut commit_options =
            GroupCommitOptions::new(options.durability, appender.written(), identity.segment_bytes);
        commit_options.marks = options.marks;
        let mut clock = options.clock(recovered.trusted, now);
        let reading = clock.read(now.wall, now.boot_ns);
        let (names, receipts) = names_of(&recovered.owner);
        let mut node = Self {
            storage,
            options,
            identity,
            epoch: recovered.epoch,
            nonce: random.bytes16(),
            clock,
            pace: PaceModel::new(now),
            reading,
            appender,
            commits: GroupCommit::new(commit_options),
            awaited_bytes: 0,
            unreleased: VecDeque::new(),
            inbox: VecDeque::new(),
            applied: Vec::new(),
            owner: recovered.owner,
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
            retired: Removable::default(),
            punched: Punched::default(),
            merge_failures: Vec::new(),
            recovered: recovered.report,
            first_sequence: position.next_sequence,
        };
        node.keep_room()?;
        node.begin_epoch(position.epoch, position.chain)?;
        Ok(node)
    }

    /// Prepares the room that facts of finishing need. A full disk does not stop an opening.
    fn keep_room(&mut self) -> Result<()> {
        self.commits.room(self.appender.tail_room(), self.appender.stock_rooms());
        match self.prepare() {
            Err(error) if is_stopped(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes the epoch's first fact, durably, and what follows from the end of the last process.
    fn begin_epoch(&mut self, previous_epoch: Epoch, previous_chain: u32) -> Result<()> {
        let mut records = Vec::new();
        let start = EpochStart {
            epoch: self.epoch,
            format_version: written_format(),
            nonce: self.nonce,
            node: self.identity.node,
            previous_epoch,
            previous_chain,
            previous_sequence: Sequence(self.first_sequence.0.saturating_sub(1)),
            delay_ms_max: self.options.delay_ms_max,
        };
        encode_epoch_start(&mut records, &start);
        self.submit(&records, 1, Class::Finishing, true)?.ok_or(Error::DiskFull)?;
        self.commit()?;
        self.apply(usize::MAX)?;
        self.receipts = self.owner.receipt_book();
        self.owner.end_passing_consumers(&mut self.proposals);
        self.label(Label::Other);
        self.send().map(drop)
    }

    /// Reads the clocks and the free space. The calls that follow happen at this time, and with this room.
    pub fn look(&mut self, now: ClockReading) -> Reading {
        self.reading = self.clock.read(now.wall, now.boot_ns);
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
