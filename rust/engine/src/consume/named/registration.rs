//! The registration of a named consumer: a fact. No thread waits until it is durable.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::{Class, Submission};
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::limits::group_subject;
use delaymq_core::record::name::encode_subject;
use delaymq_core::store::Outcome;
use delaymq_core::units::{Sequence, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::{Expected, submission};
use crate::consume::member::GroupConsumer;
use crate::consume::named::consumer::{
    ConsumerId, CreationLimits, Holding, NamedConsumer, NamedConsumerListed, NamedOptions,
};
use crate::consume::named::registry::GroupKey;
use crate::held;
use crate::names::Subject;
use crate::options::{StartAt, check_in_flight};
use crate::shared::Shared;
use crate::store::Store;

/// Counts one registration for as long as it lives.
struct Counted {
    shared: Arc<Shared>,
    group: GroupKey,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut under_way = held(&self.shared.named.under_way.0);
        if let Some(counts) = under_way.get_mut(&self.group) {
            counts.consumers = counts.consumers.saturating_sub(1);
            if counts.consumers == 0 {
                under_way.remove(&self.group);
            }
        }
    }
}

/// The fact that registers a consumer, in the log's queue.
struct AttachRequest {
    facts: Expected,
    subject: Subject,
    group: Box<str>,
    consumer: Box<str>,
    _counted: Option<Counted>,
}

/// A named consumer that was asked for. Once everything below its position is visible it exists, and `finish` waits for
/// no sync.
pub struct Registration {
    shared: Arc<Shared>,
    position: Sequence,
    registered: Registered,
}

enum Registered {
    There(Arc<NamedConsumer>),
    AttachRequest(Box<AttachRequest>),
}

impl Store {
    /// Sets the limits, from now on.
    pub fn limit_creation(&self, limits: CreationLimits) {
        self.shared.named.set_limits(limits);
    }

    /// All named consumers. After an open, their leases begin anew. Waits.
    pub fn named_consumers(&self) -> Result<Vec<NamedConsumerListed>> {
        self.look(|state| {
            let mut listed = Vec::new();
            for group in state.groups.values() {
                let Some(subject) = state.subjects.get(group.subject) else { continue };
                for consumer in group.consumers.values().filter(|consumer| consumer.is_lasting) {
                    listed.push(NamedConsumerListed {
                        subject: subject.name.clone(),
                        group: group.name.clone(),
                        consumer: consumer.name.clone(),
                        held: consumer.held.len() as u64,
                        is_broadcast: consumer.is_broadcast,
                        seen: consumer.seen,
                    });
                }
            }
            Ok(listed)
        })
    }

    /// Asks for the consumer of these names, without waiting for a sync. Creates its subject, group and itself if they do
    /// not exist, with its first reserve. All callers with the same names get the same consumer. A new group on its own
    /// retry or dead-letter subject starts with the first message there, whatever the options say.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group`, `consumer` or `in_flight_max`; `TooLarge` naming `subjects`,
    /// `groups` or `consumers` if no more may be created; `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn register_named_consumer(&self, id: ConsumerId<'_>, options: NamedOptions) -> Result<Registration> {
        let shared = &self.shared;
        shared.check()?;
        id.check()?;
        check_in_flight(options.in_flight_max)?;
        let (registered, position) = if let Some(there) = shared.named.get(id) {
            // All earlier decisions for it come before the list of what it holds.
            let Some(position) = shared.send_all(None)? else { return Err(Error::Closed) };
            (Registered::There(there), position)
        } else {
            let asked = AttachRequest::submit(shared, id, options)?;
            let position = asked.end();
            (Registered::AttachRequest(Box::new(asked)), position)
        };
        shared.hasten(position);
        Ok(Registration { shared: Arc::clone(shared), position, registered })
    }
}

impl Registration {
    /// The registration is durable when everything below this position is visible.
    pub fn position(&self) -> Sequence {
        self.position
    }

    /// True if it is a fact: the consumer was not known in this process.
    pub fn is_told(&self) -> bool {
        matches!(self.registered, Registered::AttachRequest(_))
    }

    /// The consumer, and what it holds, as of [`NamedConsumer::holding`]. Waits until the position is visible, and for
    /// the disk if it holds messages.
    ///
    /// # Errors
    /// As [`Store::register_named_consumer`] and [`NamedConsumer::holding`].
    pub fn finish(self) -> Result<(Arc<NamedConsumer>, Holding)> {
        let Self { shared, position, registered } = self;
        let consumer = match registered {
            Registered::There(there) => there,
            Registered::AttachRequest(asked) => asked.finish()?,
        };
        shared.wait_visible(position, None)?;
        shared.apply_until(position)?;
        let holding = consumer.holding_as_applied()?;
        Ok((consumer, holding))
    }
}

impl AttachRequest {
    /// Hands the fact to the log's queue. Waits for room there, and for other threads.
    fn submit(shared: &Arc<Shared>, id: ConsumerId<'_>, options: NamedOptions) -> Result<Self> {
        let subject = shared.names.subject_within(id.subject, shared.named.limits().subjects_max)?;
        let (counted, is_new) = shared.admit(subject.number, id)?;
        let is_own = group_subject(id.subject).is_some_and(|own| own.group == id.group);
        let mut records = Vec::new();
        if subject.needs_fact {
            encode_subject(&mut records, subject.number, &subject.name);
        }
        let start = if is_own { StartAt::Unfinished } else { options.start };
        let start = shared.start_of(subject.number, start)?;
        let (group, consumer) = (id.group, id.consumer);
        let (block, is_broadcast) = (options.in_flight_max, options.is_broadcast);
        let attach = Attach { subject: subject.number, start, block, is_broadcast, group, consumer };
        encode_attach(&mut records, &attach);
        let class = if is_new || subject.needs_fact { Class::Growing } else { Class::Finishing };
        let submission = submission(&records, 1 + usize::from(subject.needs_fact), class);
        let range = shared.submit_expected(Submission { must_sync: true, ..submission }, CommitUrgency::URGENT)?;
        let facts = Expected { shared: Arc::clone(shared), range };
        Ok(Self { facts, subject, group: Box::from(group), consumer: Box::from(consumer), _counted: counted })
    }

    /// The end of the fact in the log.
    fn end(&self) -> Sequence {
        self.facts.range.end
    }

    /// The consumer, once the fact is durable.
    fn finish(self) -> Result<Arc<NamedConsumer>> {
        let shared = &self.facts.shared;
        let found = shared.answers(self.facts.range.clone())?;
        let Some(Some(Outcome::Attached(group, consumer))) = found.last() else { return Err(Error::Closed) };
        if self.subject.needs_fact {
            shared.names.submitted(std::slice::from_ref(&self.subject));
        }
        let subject = Subject { needs_fact: false, ..self.subject.clone() };
        let id = ConsumerId { subject: &self.subject.name, group: &self.group, consumer: &self.consumer };
        let consuming = GroupConsumer { group: *group, consumer: *consumer };
        Ok(shared.named.keep(NamedConsumer::new(Arc::clone(shared), subject, id, consuming)))
    }
}

impl Shared {
    /// Counts a consumer that is about to be registered, if the limits allow it. Returns whether its group is new; a
    /// new consumer of an existing group finishes what is stored. Consumers that are being registered count, for a
    /// moment even twice: near a limit, one may be refused that a little later would not be.
    /// Fails with `TooLarge` naming `groups` or `consumers`.
    fn admit(self: &Arc<Self>, subject: SubjectNumber, id: ConsumerId<'_>) -> Result<(Option<Counted>, bool)> {
        let limits = self.named.limits();
        let key: GroupKey = (subject, Box::from(id.group));
        let mut under_way = held(&self.named.under_way.0);
        let mut guard = self.lock_owner()?;
        let state = guard.get()?.owner.state();
        let others = under_way.get(&key).copied().unwrap_or_default();
        let group = state.group_named(subject, id.group).and_then(|number| state.groups.get(&number));
        let (there, is_new) = match group {
            Some(group) if group.consumers.named(id.consumer, true).is_some() => (None, false),
            Some(group) => (Some(group.consumers.len()), false),
            None => (Some(0), true),
        };
        let groups = state.groups.len();
        drop(guard);
        let refused = |argument, there: usize, others: u64, limit: u32| {
            let (limit, found) = (u64::from(limit), (there as u64).saturating_add(others).saturating_add(1));
            if found > limit { Err(Error::TooLarge { argument, limit, found }) } else { Ok(()) }
        };
        if let Some(there) = there {
            refused("consumers", there, others.consumers, limits.consumers_max)?;
        }
        if is_new && !others.is_new {
            let registered = under_way.values().filter(|counts| counts.is_new).count() as u64;
            refused("groups", groups, registered, limits.groups_max)?;
        }
        if there.is_none() {
            return Ok((None, false));
        }
        let counts = under_way.entry(key.clone()).or_default();
        counts.consumers = counts.consumers.saturating_add(1);
        counts.is_new |= is_new;
        Ok((Some(Counted { shared: Arc::clone(self), group: key }), is_new))
    }
}
