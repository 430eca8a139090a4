//! How named consumers begin, and who has them: the same one for everybody who asks for its names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::limits::group_subject;
use delaymq_core::record::name::encode_subject;
use delaymq_core::store::Outcome;
use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::held;
use crate::member::Consuming;
use crate::named_consumer::{
    ConsumerId, CreationLimits, NamedConsumer, NamedConsumerListed, NamedOptions, check_in_flight,
};
use crate::names::Subject;
use crate::options::GroupStart;
use crate::shared::Shared;
use crate::store::Store;

/// Named consumers that somebody has asked for in this process, until they end.
#[derive(Default)]
pub(crate) struct NamedConsumers {
    limits: Mutex<CreationLimits>,
    table: Mutex<Table>,
    /// How many are being made.
    beginning: AtomicU64,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<String, Arc<NamedConsumer>>,
    /// How many of each group.
    counts: HashMap<GroupNumber, usize>,
}

/// Names hold no control characters, so this is one text for each id.
fn key_of(id: ConsumerId<'_>) -> String {
    [id.subject, id.group, id.consumer].join("\0")
}

impl NamedConsumers {
    pub(crate) fn limits(&self) -> CreationLimits {
        *held(&self.limits)
    }

    pub(crate) fn get(&self, id: ConsumerId<'_>) -> Option<Arc<NamedConsumer>> {
        held(&self.table).by_id.get(&key_of(id)).cloned()
    }

    /// Keeps one, unless somebody else was sooner: then that one.
    pub(crate) fn keep(&self, new: NamedConsumer) -> Arc<NamedConsumer> {
        let mut table = held(&self.table);
        let key = key_of(new.id());
        if let Some(there) = table.by_id.get(&key).filter(|there| there.consuming == new.consuming) {
            return Arc::clone(there);
        }
        let new = Arc::new(new);
        let count = table.counts.entry(new.consuming.group).or_default();
        *count = count.saturating_add(1);
        if let Some(before) = table.by_id.insert(key, Arc::clone(&new)) {
            table.uncount(&before);
        }
        new
    }

    /// One that has ended, and the watch over its group where nobody else has it.
    pub(crate) fn forget(&self, gone: &NamedConsumer) {
        let mut table = held(&self.table);
        let key = key_of(gone.id());
        if table.by_id.get(&key).is_some_and(|there| there.consuming == gone.consuming) {
            table.by_id.remove(&key);
            table.uncount(gone);
        }
    }

    /// Those of a group.
    pub(crate) fn of_group(&self, group: GroupNumber) -> Vec<Arc<NamedConsumer>> {
        held(&self.table).by_id.values().filter(|one| one.consuming.group == group).cloned().collect()
    }

    /// Lets go of all: the store closes.
    pub(crate) fn clear(&self) {
        *held(&self.table) = Table::default();
    }
}

impl Table {
    fn uncount(&mut self, gone: &NamedConsumer) {
        let group = gone.consuming.group;
        let left = self.counts.get(&group).map_or(0, |count| count.saturating_sub(1));
        if left > 0 {
            self.counts.insert(group, left);
        } else {
            self.counts.remove(&group);
            gone.shared.subscribers.unwatch_group(group);
        }
    }
}

/// One that is being made.
struct Beginning<'a>(&'a AtomicU64);

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Store {
    /// From now on these limits hold.
    pub fn limit_creation(&self, limits: CreationLimits) {
        *held(&self.shared.named.limits) = limits;
    }

    /// The consumer of these names, with its subject and group, each made where it is not there. The
    /// same consumer for everybody who asks for these names. Returns when it is durable: one wait for
    /// the disk, its first reserve included. A group that is new on its own retry or dead-letter subject
    /// starts with the first message there, whatever the options say.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group`, `consumer` or `in_flight_max`; `TooLarge` naming
    /// `subjects`, `groups` or `consumers` where no more may be made; `DiskFull`, `Poisoned`, `Closed`,
    /// `ForkedProcess`.
    pub fn named_consumer(&self, id: ConsumerId<'_>, options: NamedOptions) -> Result<Arc<NamedConsumer>> {
        self.shared.check()?;
        id.check()?;
        check_in_flight(options.in_flight_max)?;
        match self.shared.named.get(id) {
            Some(there) => Ok(there),
            None => attach(&self.shared, id, options),
        }
    }

    /// All named consumers there are: after an open, those whose leases begin anew. Waits.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
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
                    });
                }
            }
            Ok(listed)
        })
    }
}

fn attach(shared: &Arc<Shared>, id: ConsumerId<'_>, options: NamedOptions) -> Result<Arc<NamedConsumer>> {
    let limits = shared.named.limits();
    let subject = shared.names.subject_within(id.subject, limits.subjects_max)?;
    let others = shared.named.beginning.fetch_add(1, Ordering::SeqCst);
    let _beginning = Beginning(&shared.named.beginning);
    let grows = shared.admit(subject.number, id, limits, others)? || subject.needs_fact;
    let is_own = group_subject(id.subject).is_some_and(|own| own.group == id.group);
    let mut records = Vec::new();
    if subject.needs_fact {
        encode_subject(&mut records, subject.number, &subject.name);
    }
    let start = if is_own { GroupStart::Earliest } else { options.start };
    let (group, consumer) = (id.group, id.consumer);
    encode_attach(
        &mut records,
        &Attach { subject: subject.number, start, block: options.in_flight_max, group, consumer },
    );
    let class = if grows { Class::Growing } else { Class::Finishing };
    let found = shared.ask(&records, 1 + usize::from(subject.needs_fact), class, true)?;
    let Some(Some(Outcome::Attached(group, consumer))) = found.last() else { return Err(Error::Closed) };
    if subject.needs_fact {
        shared.names.submitted(std::slice::from_ref(&subject));
    }
    let subject = Subject { needs_fact: false, ..subject };
    let consuming = Consuming { group: *group, consumer: *consumer };
    Ok(shared.named.keep(NamedConsumer::new(Arc::clone(shared), subject, id, consuming)))
}

impl Shared {
    /// Whether a group or a consumer comes to be by this one, which may be. As many as `others` may come
    /// to be meanwhile, so near a limit one may be refused for whose place nobody asks in the end.
    ///
    /// # Errors
    /// `TooLarge` naming `groups` or `consumers`.
    fn admit(&self, subject: SubjectNumber, id: ConsumerId<'_>, limits: CreationLimits, others: u64) -> Result<bool> {
        let mut guard = self.seat()?;
        let state = guard.get()?.owner.state();
        let group = state.group_named(subject, id.group).and_then(|number| state.groups.get(&number));
        let (argument, there, limit) = match group {
            Some(group) if group.consumers.named(id.consumer, true).is_some() => return Ok(false),
            Some(group) => ("consumers", group.consumers.len(), limits.consumers_max),
            None => ("groups", state.groups.len(), limits.groups_max),
        };
        let found = (there as u64).saturating_add(others).saturating_add(1);
        if found > u64::from(limit) {
            return Err(Error::TooLarge { argument, limit: u64::from(limit), found });
        }
        Ok(true)
    }
}
