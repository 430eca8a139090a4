//! The events that a node takes, and the actions that it asks for.

use std::collections::BTreeSet;

use super::files::{FilePart, FilePlace, LoadMessage, SnapshotOffer};
use super::history::History;
use super::message::Message;
use super::register::{NodeId, Register};
use super::registrar::{Reading, SwapAnswer};
use crate::message_log::Promise;
use crate::units::{Epoch, Millis, Sequence, Version};

/// The time-outs. They decide when something is tried, and never whether it is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Between two heartbeats of a primary.
    pub heartbeat_ms: u64,
    /// A node of the set that is silent for so long leaves it.
    pub shrink_ms: u64,
    /// A primary that is silent for so long is replaced. Longer than `shrink_ms`, so that a living primary swaps first.
    pub promote_ms: u64,
    /// A primary that has too few copies without the silent nodes lets them go only after so long, if they are enough without
    /// it. Longer than it takes them to hear nothing and to replace it.
    pub forsake_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat_ms: 100, shrink_ms: 1_000, promote_ms: 3_000, forsake_ms: 9_000 }
    }
}

/// The options of a node that is opened.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The node.
    pub id: NodeId,
    /// The stream and the timeline of the group. A register of another one is not believed.
    pub group: ([u8; 16], u32),
    /// A random number, from which the node counts its answers.
    pub random: u64,
    /// The promise in its identity file.
    pub promise: Promise,
    /// The sequence after the last fact that is known to be committed, 1 if none is.
    pub committed: Sequence,
    /// The other nodes that it may hear of.
    pub peers: BTreeSet<NodeId>,
    /// The time-outs.
    pub timing: Timing,
}

/// The log of a node, as far as the protocol looks at it.
pub trait LogView {
    /// Where its epochs began, and its written end.
    fn history(&self) -> History;

    /// The sequence after the last written fact.
    fn end(&self) -> Sequence;

    /// The sequence after the last durable fact.
    fn durable(&self) -> Sequence;
}

/// An event of a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// A message of another node has come.
    Received(NodeId, Message),
    /// The register was read. `None` if it could not be, or if it holds nothing.
    Read(Option<Reading>),
    /// The swap from this version has ended.
    Swapped(Version, SwapAnswer),
    /// The promise of this epoch is durable.
    PromiseKept(Epoch),
    /// The log has grown, or more of it is durable.
    LogChanged,
    /// The log was cut before this sequence, as [`Action::CutAfter`] asked, durably.
    Cut(Sequence),
    /// A batch that [`Action::Append`] gave was refused, because it does not follow the log.
    AppendRefused,
    /// A snapshot of [`Action::ReceiveSnapshot`] has taken the place of the log, durably, while [`super::Node::takes_snapshot`]. Everything
    /// before this sequence is committed.
    SnapshotAdopted(Sequence),
    /// Other nodes belong to the group than before.
    Peers(BTreeSet<NodeId>),
    /// The disk of the node is well, so the node may lead, or it is not, so that the node may not while another node of the
    /// set may. At least one node of a group must be fit.
    Fit(bool),
    /// The wall clock of the node shows this now. It is given with each tick, and compared with those of the other nodes.
    WallClock(Millis),
    /// This node stood still for so many milliseconds, and so heard nobody. Others were not silent for that time. Give it before what
    /// has come meanwhile.
    StoodStill(u64),
    /// An operator asks the primary to hand over to this node.
    SwitchOver(NodeId),
    /// An operator tells the primary that this node is gone for good. If no other node but the primary has what was answered
    /// as stored, the operator must accept (`true`) that it may be lost.
    Remove(NodeId, bool),
    /// An operator tells the primary on how many nodes a publish must be from now on.
    MinCopies(usize),
    /// An operator asks this node to lead, because the primary and, if this node is not in the set, all nodes of the set are
    /// gone for good.
    Promote,
    /// An operator has compared all nodes after the register was restored from a backup, and lets this one go on with the register
    /// of this coordinator. Others believe it once this one has gone on.
    Confirm(u64),
}

/// An action that the caller of a node carries out, in the order given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Sends a message.
    Send(NodeId, Message),
    /// Reads the register, and answers with [`Event::Read`].
    ReadRegister,
    /// Changes the register if it has this version, and answers with [`Event::Swapped`].
    Swap(Version, Register),
    /// Makes the promise durable, after all batches given before, and answers with [`Event::PromiseKept`].
    KeepPromise(Promise),
    /// Begins an epoch: appends its epoch start, and from now on what is decided.
    BeginEpoch(Epoch),
    /// Sends the batches of the log from this sequence on, as [`Message::Batches`] of this epoch and exchange.
    Ship(NodeId, Epoch, u64, Sequence),
    /// Appends these batches of the primary to the log. A batch that names files of a load which are not here waits for them,
    /// with all behind it: it is dropped, and asked for again.
    Append(Vec<u8>),
    /// Receives a snapshot from this primary, in this epoch and exchange, instead of any earlier one: asks for its parts with
    /// [`Message::AskPart`]. The snapshot has everything that the log has, and takes its place.
    ReceiveSnapshot(NodeId, Epoch, u64, SnapshotOffer),
    /// Sends the part of a file that begins there, in this epoch and exchange.
    SendPart(NodeId, Epoch, u64, FilePlace),
    /// A part of a file has come.
    ReceivePart(FilePart),
    /// A message of this node about the files of a load has come, in this epoch and exchange. [`LoadMessage::Hold`] is answered
    /// with [`LoadMessage::Held`] once the files are durable.
    Load(NodeId, Epoch, u64, LoadMessage),
    /// Copies what the log has from this sequence on to a file, then cuts it. The last fact to keep has this epoch.
    CutAfter(Epoch, Sequence),
    /// Everything before this sequence is committed. A publish among it is answered as stored if the copies reach
    /// `min_copies`; otherwise its outcome is unknown to its caller.
    Commit {
        /// The sequence after the last committed fact.
        end: Sequence,
        /// The size of the set that has it.
        copies: usize,
    },
    /// The role has changed. After [`RoleName::Replica`] the caller appends nothing of its own, and has dropped what it
    /// had queued, before the next event.
    Became(RoleName),
    /// The logs of this node and of that one have different facts in one place, or a committed fact would be cut. Neither
    /// log was changed.
    Alarm(NodeId),
}

/// Another copy, as a primary knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyKnown {
    /// Its node.
    pub node: NodeId,
    /// The sequence after the last fact that is durable there. `None` before it said so in this epoch.
    pub durable: Option<Sequence>,
    /// How long it was not heard.
    pub silent_ms: u64,
    /// True if its log is the beginning of the primary's, and grows.
    pub is_matched: bool,
    /// True if its log has other facts in one place, so that it cannot follow.
    pub has_diverged: bool,
    /// How far its wall clock is ahead of the primary's, in milliseconds; less than 0 if it is behind. `None` if it was not
    /// measured lately.
    pub clock_offset_ms: Option<i64>,
    /// True if its clock disagrees with that of the group.
    pub is_clock_apart: bool,
}

/// Why a node does not become primary by itself while another node may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// Its disk has hung.
    Disk,
    /// Its wall clock disagrees with that of the group.
    Clock,
}

/// The role of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleName {
    /// It follows a primary, or waits for one. It decides nothing and answers nothing.
    Replica,
    /// It has claimed the group, and its epoch is not committed yet.
    Promoting,
    /// It decides, and answers.
    Primary,
}
