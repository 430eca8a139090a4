//! The requests that are not answered yet, and how far each of them is.

use delaymq_core::error::Error;
use delaymq_core::queues::tags::Filter;
use delaymq_core::record::expire::{Expires, OnExpiry};
use delaymq_core::record::recurring::CatchUp;
use delaymq_core::record::terms::IfExists;
use delaymq_core::store::{Outcome, Receipt, Selection, StartAt};
use delaymq_core::units::{GroupNumber, Millis, Sequence};
use delaymq_core::wire::connection::RequestId;
use delaymq_core::wire::extension::publish::DueTime;
use delaymq_core::wire::qmq::send::Failure;

use crate::connected::link::LinkId;
use crate::node::Due;

/// The receiver of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asker {
    pub(super) link: LinkId,
    pub(super) id: RequestId,
}

/// A message that waits for room in the log's queue.
pub(super) struct Kept {
    pub(super) subject: String,
    pub(super) due: Due,
    pub(super) meta: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) expires: Option<(Expires, OnExpiry)>,
}

/// A message with an id that waits for room in the log's queue.
pub(super) struct KeptOnce {
    pub(super) due: Due,
    pub(super) meta: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) id: String,
}

/// A subscription that is being opened.
pub(super) struct Wanted {
    pub(super) number: u32,
    pub(super) selection: Selection,
    /// The first subject, with which it begins.
    pub(super) subject: String,
    pub(super) group: String,
    pub(super) in_flight_max: u32,
    pub(super) credit: u32,
    pub(super) filters: Vec<Filter>,
}

/// A series that waits for room in the log's queue.
pub(super) struct Wish {
    pub(super) named: SeriesKey,
    pub(super) every_ms: u64,
    pub(super) start: Option<Millis>,
    pub(super) catch_up: CatchUp,
    pub(super) if_exists: IfExists,
    pub(super) body: Vec<u8>,
}

/// Subject and name of a series.
pub(super) struct SeriesKey {
    pub(super) subject: String,
    pub(super) name: String,
}

/// The next step of a request.
pub(super) enum Step {
    /// Answer with this body once everything below the sequence is visible.
    Visible(Sequence, Vec<u8>),
    /// Send the settlements that were made before, and wait until they are visible.
    Settled,
    /// Store these messages.
    Store(Vec<Kept>),
    /// Store these messages of a subject, unless messages of their ids are stored.
    StoreOnce(String, Vec<KeptOnce>),
    /// Wait for the outcome of the terms, and then of each message.
    StoringOnce(Sequence, Vec<Receipt>),
    /// Submit a cancel.
    Cancel(Receipt),
    /// Wait for the outcome of the cancel.
    Cancelling(Sequence),
    /// Submit a move.
    Move(Receipt, Due),
    /// Wait for the outcome of the move.
    Moving(Receipt, Sequence),
    /// Submit a consumer of this group.
    Consumer(Wanted, GroupNumber),
    /// Wait for the consumer.
    Beginning(Wanted, GroupNumber, Sequence),
    /// Submit the beginning of a series.
    BeginSeries(Wish),
    /// Submit the end of a series.
    EndSeries(SeriesKey),
    /// Wait for the outcome of a fact about a series.
    Series(SeriesKey, Sequence),
}

impl Step {
    /// True if the step goes on without its client: a message was accepted, or a consumer comes that must be ended.
    pub(super) fn outlives_its_client(&self) -> bool {
        let is_change = matches!(self, Self::Store(..) | Self::StoreOnce(..) | Self::Cancel(..) | Self::Move(..));
        is_change || matches!(self, Self::Beginning(..))
    }
}

/// A consumer of a queue that a subscription waits for.
pub(super) struct Joining {
    pub(super) link: LinkId,
    pub(super) number: u32,
    pub(super) queue: u32,
    pub(super) step: Join,
}

/// The next step of joining a queue.
pub(super) enum Join {
    /// Make the group of this subject.
    Group(String),
    /// Wait for the group.
    Making(Sequence),
    /// Submit a consumer.
    Consumer(GroupNumber),
    /// Wait for the consumer.
    Beginning(GroupNumber, Sequence),
}

/// An answer, or a consumer, that waits for the log.
pub(super) enum Pending {
    Reply(Asker, Step),
    Joining(Joining),
}

/// A message of QMQ that waits for room in the log's queue.
pub(super) struct Waiting {
    pub(super) subject: String,
    pub(super) due: Option<Millis>,
    pub(super) whole: Vec<u8>,
    pub(super) id: String,
}

/// An answer to a QMQ client that waits until everything below a sequence is visible.
pub(super) struct Told {
    pub(super) asker: Asker,
    pub(super) end: Sequence,
    pub(super) body: Vec<u8>,
    /// The body of the answer if the store ends before.
    pub(super) instead: Option<Vec<u8>>,
}

impl Told {
    /// An answer without a body.
    pub(super) fn done(asker: Asker, end: Sequence) -> Self {
        Self { asker, end, body: Vec::new(), instead: None }
    }
}

/// The subject and the group of a reset, and where the group begins again.
pub(super) type ConsumeNames = (String, String, StartAt);

/// Requests of QMQ's clients that are not answered yet.
#[derive(Default)]
pub(super) struct QmqPending {
    pub(super) sends: Vec<(Asker, Vec<Waiting>, Vec<Failure>)>,
    pub(super) told: Vec<Told>,
    /// Groups to reset, and the facts of resets that were submitted.
    pub(super) managing: Vec<(Asker, ConsumeNames, Option<Sequence>)>,
}

impl QmqPending {
    pub(super) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.told.is_empty() && self.managing.is_empty()
    }
}

pub(super) fn unexpected(outcome: Outcome) -> Error {
    Error::corrupt("", 0, "an outcome of what was asked", format!("{outcome:?}"))
}

/// The due time as the node takes it.
pub(super) fn due_of(due: DueTime) -> Due {
    match due {
        DueTime::After(delay_ms) => Due::After(delay_ms),
        DueTime::At(time) => Due::At(time),
    }
}
