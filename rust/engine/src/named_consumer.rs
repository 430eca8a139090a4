//! A consumer that a client named: it outlives its connection, this process and an open of the store,
//! and ends when [`NamedConsumer::end`] says so. What it holds comes again under the offsets that it had.
//!
//! It consumes one subject for one group and nothing else: the retry subject of its group is a subject
//! like others, for a consumer of its own. Its messages are numbered by pull offsets without gaps, but
//! for those that a crash made void and those whose bytes are damaged.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::store::Delivery;
use delaymq_core::units::{GroupNumber, PullOffset, Sequence, SubjectNumber};

use crate::delivery::Delivered;
use crate::listener::Listener;
use crate::options::GroupStart;
use crate::store::Store;

/// The longest name of a consumer, in bytes of UTF-8.
pub const CONSUMER_NAME_BYTES_MAX: usize = 1_024;

/// Who consumes, by the names that a client gave.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConsumerId<'a> {
    /// The subject; one of a group's own (`%RETRY%…`, `%DEAD_RETRY%…`), too.
    pub subject: &'a str,
    /// The group.
    pub group: &'a str,
    /// The consumer, unique in the group.
    pub consumer: &'a str,
}

/// How a named consumer begins, where it is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedOptions {
    /// Where a group that is new starts; one that exists goes on where it is.
    pub start: GroupStart,
    /// How many messages are reserved for it from the start, so that its first pull need not wait for
    /// that: as many as it may have in flight.
    pub in_flight_max: u32,
}

impl Default for NamedOptions {
    fn default() -> Self {
        Self { start: GroupStart::Latest, in_flight_max: 256 }
    }
}

/// What one pull asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PullBounds {
    /// At most this many messages.
    pub count_max: usize,
    /// Payloads of so many bytes together, or one message more: what is over it comes with a later pull.
    pub bytes_max: usize,
    /// The consumer never has more unfinished messages than this.
    pub in_flight_max: u32,
}

/// What becomes of messages that a consumer does not finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryRule {
    /// The group gets it again after so many milliseconds.
    pub delay_ms: u64,
    /// One that was delivered so often is a dead letter instead.
    pub attempts_max: u32,
}

impl Default for RetryRule {
    /// QMQ's: after 5 s, 32 times.
    fn default() -> Self {
        Self { delay_ms: 5_000, attempts_max: 32 }
    }
}

/// Messages with neighbouring pull offsets.
#[derive(Clone, Debug)]
pub struct GivenRun {
    /// The offset of the first; each other has the next one.
    pub first: PullOffset,
    /// The messages, at least one.
    pub messages: Vec<Delivered>,
    /// How each is held, in the same order: small, and all that is needed to read it again or to settle
    /// it.
    pub deliveries: Vec<Delivery>,
}

/// What a pull that does not wait came to.
#[derive(Clone, Debug)]
pub enum TriedRun {
    /// Messages.
    Run(GivenRun),
    /// Nothing now. The listener is told, under the group's token, when there may be something.
    Nothing,
    /// It would have to wait: the waiting twin does.
    WouldWait,
}

/// Messages that were read again.
#[derive(Clone, Debug, Default)]
pub struct ReadAgain {
    /// The first run of neighbours that could be read; `None` where none could.
    pub run: Option<GivenRun>,
    /// Offsets whose messages are damaged and were given up, by a durable fact: nobody holds them now.
    pub damaged: Vec<PullOffset>,
}

/// What a consumer holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// The offset that the next message will have.
    pub next: PullOffset,
    /// What it was given and has not finished. Each counts as one attempt more than when it was given,
    /// since it will be handed over again.
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
}

/// How many subjects and groups may be made for clients that are not known: a message of QMQ or a
/// named consumer that needs one more is refused. All there are count, whoever made them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreationLimits {
    /// Subjects, those of groups' own included; a group of a retry subject comes with it.
    pub subjects_max: u32,
    /// Groups that named consumers begin.
    pub groups_max: u32,
    /// Consumers of one group.
    pub consumers_max: u32,
}

impl Default for CreationLimits {
    fn default() -> Self {
        Self { subjects_max: 100_000, groups_max: 100_000, consumers_max: 10_000 }
    }
}

/// See the module. All methods may be called from any thread; the order of pulls and settlements of
/// one consumer is the caller's matter.
pub struct NamedConsumer {
    _private: (),
}

impl Store {
    /// From now on these limits hold.
    pub fn limit_creation(&self, _limits: CreationLimits) {
        unimplemented!()
    }

    /// The consumer of these names, with its subject and group, each made where it is not there. The
    /// same consumer for everybody who asks for these names. Returns when it is durable: one wait for
    /// the disk, its first reserve included.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group`, `consumer` or `in_flight_max`; `TooLarge` naming
    /// `subjects`, `groups` or `consumers` where no more may be made; `DiskFull`, `Poisoned`, `Closed`,
    /// `ForkedProcess`.
    pub fn named_consumer(&self, _id: ConsumerId<'_>, _options: NamedOptions) -> Result<Arc<NamedConsumer>> {
        unimplemented!()
    }

    /// As [`Self::named_consumer`], where somebody has it already; `None` where nobody has. Never waits.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn try_named_consumer(&self, _id: ConsumerId<'_>) -> Result<Option<Arc<NamedConsumer>>> {
        unimplemented!()
    }

    /// All named consumers there are: after an open, those whose leases begin anew. Waits.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn named_consumers(&self) -> Result<Vec<NamedConsumerListed>> {
        unimplemented!()
    }

    /// Lets a group begin again although named consumers have it: these end, what they hold is the
    /// group's, and the group begins with the earliest message that is kept or with the next one. They
    /// are gone then ([`NamedConsumer::is_gone`]) and begin again as new ones, with offsets above all
    /// that they had. Returns when it is durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `group`, where it is not there or has consumers that no
    /// client named; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn reset_live_group(&self, _subject: &str, _group: &str, _start: GroupStart) -> Result<()> {
        unimplemented!()
    }
}

impl NamedConsumer {
    /// Its names.
    pub fn id(&self) -> ConsumerId<'_> {
        unimplemented!()
    }

    /// The number of its group: one of another life of the group has another.
    pub fn group_number(&self) -> GroupNumber {
        unimplemented!()
    }

    /// The number of its subject.
    pub fn subject_number(&self) -> SubjectNumber {
        unimplemented!()
    }

    /// True where it has ended, or its group has: whoever wants it asks the store for it again. It is
    /// known at the latest from the first call that answers `Closed`.
    pub fn is_gone(&self) -> bool {
        unimplemented!()
    }

    /// From now on this listener is told, under this token, whenever its group gets something new, room
    /// under a consumer's bound included; one listener and token for each group, and the last one counts.
    /// It is told after the news, so who pulled before, found nothing, and waits, misses none.
    ///
    /// # Errors
    /// `ForkedProcess`.
    pub fn watch_by(&self, _listener: &Listener, _token: u64) -> Result<()> {
        unimplemented!()
    }

    /// New messages, without waiting: one run of neighbouring offsets. Where what was assigned is over
    /// the bounds, or could not be read now, it comes first with the next pull.
    ///
    /// # Errors
    /// `InvalidArgument` naming `in_flight_max`; `Poisoned`, `ForkedProcess`; `Closed`, also where it is
    /// gone.
    pub fn try_pull(&self, _bounds: PullBounds) -> Result<TriedRun> {
        unimplemented!()
    }

    /// As [`Self::try_pull`], waiting for what it needs, though not for messages; `None` where there is
    /// nothing now.
    ///
    /// # Errors
    /// As [`Self::try_pull`]; `Storage` where payloads cannot be read now.
    pub fn pull(&self, _bounds: PullBounds) -> Result<Option<GivenRun>> {
        unimplemented!()
    }

    /// All that it holds, to begin with after a reconnect or an open. What was assigned and not handed
    /// over yet is among it, and does not come with a pull any more. Waits for the disk.
    ///
    /// # Errors
    /// `Storage` where the disk cannot be read; `Poisoned`, `ForkedProcess`; `Closed`, also where it is
    /// gone.
    pub fn holding(&self) -> Result<Holding> {
        unimplemented!()
    }

    /// Reads messages that it holds once more: the first of these deliveries, ascending and without gaps,
    /// as far as `bytes_max` goes (one message more at most) and without waiting; `None` where the first
    /// would have to wait. Where the run stops, the rest comes by another call.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn try_read_again(&self, _deliveries: &[Delivery], _bytes_max: usize) -> Result<Option<ReadAgain>> {
        unimplemented!()
    }

    /// As [`Self::try_read_again`], waiting for the disk.
    ///
    /// # Errors
    /// As [`Self::try_read_again`]; `Storage` where the first cannot be read now.
    pub fn read_again(&self, _deliveries: &[Delivery], _bytes_max: usize) -> Result<ReadAgain> {
        unimplemented!()
    }

    /// Finishes these offsets, and gives these deliveries to the group's retry subject, or puts them away
    /// as dead letters: in one submission, all or nothing, which is durable when everything below the
    /// position is visible. What is not held changes nothing. `None` where it would have to wait, and
    /// then nothing was done.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`; `Closed`, also where it is known to be gone.
    pub fn try_settle(
        &self,
        _done: &[Range<PullOffset>],
        _passed_over: &[Delivery],
        _rule: RetryRule,
    ) -> Result<Option<Sequence>> {
        unimplemented!()
    }

    /// As [`Self::try_settle`], waiting for room and for other threads, and never for the disk.
    ///
    /// # Errors
    /// As [`Self::try_settle`].
    pub fn settle(&self, _done: &[Range<PullOffset>], _passed_over: &[Delivery], _rule: RetryRule) -> Result<Sequence> {
        unimplemented!()
    }

    /// Ends it: all that it holds goes to the group's retry subject or becomes dead letters, as the rule
    /// says, and then it is gone; in one submission, durable when everything below the position is
    /// visible. Waits for the disk. `None` where it had ended before.
    ///
    /// # Errors
    /// `Storage` where the disk cannot be read, and then it goes on; `Poisoned`, `Closed`,
    /// `ForkedProcess`.
    pub fn end(&self, _rule: RetryRule) -> Result<Option<Sequence>> {
        unimplemented!()
    }
}
