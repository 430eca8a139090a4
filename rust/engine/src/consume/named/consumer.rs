//! A consumer that a client named. It outlives its connection, this process and an open of the store, and lives until
//! [`NamedConsumer::end`]. Messages that it holds come again under the offsets that they had.
//!
//! It consumes one subject for one group. To consume the retry subject of its group, use another named consumer. Pull
//! offsets number its messages without gaps, except for those that a crash voided, those whose bytes are damaged and those
//! that had expired. Messages that do not pass its filters have none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::store::{Delivery, LoadRequest};
use delaymq_core::units::{GroupNumber, Millis, PullOffset, SubjectNumber};

use crate::consume::delivery::Delivered;
use crate::consume::member::GroupConsumer;
use crate::event_loop::listener::Listener;
use crate::invalid;
use crate::names::Subject;
use crate::options::StartAt;
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64, Mutex};

/// The longest name of a consumer, in bytes of UTF-8.
pub const CONSUMER_NAME_BYTES_MAX: usize = 1_024;

/// A named consumer, by the names that a client gave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConsumerId<'a> {
    /// The subject. It may be one of a group's own subjects (`%RETRY%…`, `%DEAD_RETRY%…`).
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
    /// The consumer, unique in the group.
    pub consumer: &'a str,
}

impl ConsumerId<'_> {
    /// Fails with `InvalidArgument` naming `subject`, `group` or `consumer`.
    pub(crate) fn check(&self) -> Result<()> {
        check_qmq_subject("subject", self.subject)?;
        check_name("group", self.group)?;
        let name = self.consumer;
        if name.is_empty() || name.len() > CONSUMER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            let expected = format!("1 to {CONSUMER_NAME_BYTES_MAX} bytes of text without control characters");
            return Err(invalid("consumer", expected, format!("{} bytes", name.len())));
        }
        Ok(())
    }
}

/// Options of a new named consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedOptions {
    /// Where a new group starts. An existing group goes on where it is.
    pub start: StartAt,
    /// How many messages are reserved from the start, so that the first pull does not wait for a reserve: as many as
    /// may be in flight.
    pub in_flight_max: u32,
    /// It receives every message of the subject: its group is its own, and ends with it.
    pub is_broadcast: bool,
}

impl Default for NamedOptions {
    fn default() -> Self {
        Self { start: StartAt::Latest, in_flight_max: 256, is_broadcast: false }
    }
}

/// The bounds of one pull.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PullBounds {
    /// At most this many messages.
    pub count_max: usize,
    /// The payloads have at most so many bytes together, or there is one message more; a later pull brings the rest.
    pub bytes_max: usize,
    /// The consumer never has more unfinished messages than this.
    pub in_flight_max: u32,
}

/// Messages with neighbouring pull offsets.
#[derive(Clone, Debug)]
pub struct GivenRun {
    /// The offset of the first message. The others follow densely.
    pub first: PullOffset,
    /// The messages, at least one.
    pub messages: Vec<Delivered>,
    /// The delivery of each message, in the same order: all that is needed to read it again or to settle it.
    pub deliveries: Vec<Delivery>,
}

/// The result of a pull that does not wait.
#[derive(Clone, Debug)]
pub enum TriedRun {
    /// Messages.
    Run(GivenRun),
    /// Nothing now. The listener is woken, under the group's token, when there may be something.
    Nothing,
    /// As `Nothing`, but something is ready. It can be pulled once facts on their way are durable, and the listener is
    /// woken then. [`NamedConsumer::pull`] waits for that.
    Soon,
    /// It would have to wait: use [`NamedConsumer::pull`].
    WouldWait,
}

/// Messages that were read again.
#[derive(Clone, Debug, Default)]
pub struct ReadAgain {
    /// The first run of neighbours that could be read; `None` if none could.
    pub run: Option<GivenRun>,
    /// Offsets whose messages are damaged or have expired. They were finished by a durable fact, and no consumer holds
    /// them now.
    pub finished: Vec<PullOffset>,
}

/// The messages that a consumer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The offset that the next message will have.
    pub next: PullOffset,
    /// The unfinished messages. Each counts one attempt more than when it was pulled, since it will be handed over
    /// again.
    pub held: BTreeMap<PullOffset, Delivery>,
}

/// A named consumer, as a list has it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "as in ConsumerId")]
pub struct NamedConsumerListed {
    pub subject: String,
    pub group: String,
    pub consumer: String,
    /// How many messages it holds.
    pub held: u64,
    /// See [`NamedOptions::is_broadcast`].
    pub is_broadcast: bool,
    /// The trusted time at which a fact last said that its client was seen.
    pub seen: Millis,
}

/// How many subjects and groups clients may create. A message of QMQ or a named consumer that needs one more is
/// refused. All existing ones count, whoever created them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreationLimits {
    /// Subjects, including groups' own. A group of a retry subject comes with it.
    pub subjects_max: u32,
    /// Groups that named consumers create.
    pub groups_max: u32,
    /// Consumers of one group.
    pub consumers_max: u32,
}

impl Default for CreationLimits {
    fn default() -> Self {
        Self { subjects_max: 100_000, groups_max: 100_000, consumers_max: 10_000 }
    }
}

/// Messages that are assigned and not handed over.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    pub(crate) unread: VecDeque<Delivery>,
    /// The load of a pull that may not wait. The next pull that may wait reads it first: it has the indexes of a group
    /// that reads the log again.
    pub(crate) unread_load: Option<LoadRequest>,
}

/// See the module. All methods may be called from any thread; the order of pulls and settlements of
/// one consumer is the caller's matter.
pub struct NamedConsumer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) subject: Subject,
    pub(crate) group: Box<str>,
    pub(crate) name: Box<str>,
    pub(crate) consuming: GroupConsumer,
    pub(crate) hands: Mutex<InFlight>,
    /// Messages that filters kept back and nobody has counted yet.
    pub(crate) passed_over: AtomicU64,
    is_gone: AtomicBool,
}

impl NamedConsumer {
    pub(crate) fn new(shared: Arc<Shared>, subject: Subject, id: ConsumerId<'_>, consuming: GroupConsumer) -> Self {
        let (group, name) = (Box::from(id.group), Box::from(id.consumer));
        let (hands, passed_over, is_gone) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
        Self { shared, subject, group, name, consuming, hands, passed_over, is_gone }
    }

    /// Its names.
    pub fn id(&self) -> ConsumerId<'_> {
        ConsumerId { subject: &self.subject.name, group: &self.group, consumer: &self.name }
    }

    /// The number of its group. A group that was removed and created again has another number.
    pub fn group_number(&self) -> GroupNumber {
        self.consuming.group
    }

    /// The number of its subject.
    pub fn subject_number(&self) -> SubjectNumber {
        self.subject.number
    }

    /// True if it has ended, or its group has: ask the store for it again. The first call that fails with `Closed` sets
    /// this, at the latest.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// It has ended: the registry forgets it.
    pub(crate) fn went(&self) {
        self.is_gone.store(true, Ordering::SeqCst);
        self.shared.named.forget(self);
    }

    /// Fails with `Poisoned`, `ForkedProcess`; `Closed`, also where it is gone.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared.check()?;
        if self.is_gone() { Err(Error::Closed) } else { Ok(()) }
    }

    /// From now on this listener is woken, under this token, when its group gets something new, or room under a
    /// consumer's bound. Each group has one listener and token; the last one counts. The wake-up comes after the event,
    /// so a caller that pulls, finds nothing and waits misses none.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, listener: &Listener, token: u64) -> Result<()> {
        self.shared.guard.check()?;
        self.shared.subscribers.watch_group(self.consuming.group, listener.notifier(), token);
        Ok(())
    }
}
