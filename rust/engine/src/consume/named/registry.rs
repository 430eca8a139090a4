//! The registry of named consumers: every caller that asks for the same names gets the same consumer.

use std::collections::HashMap;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::units::GroupNumber;

use crate::consume::named::consumer::{
    ConsumerId, CreationLimits, NamedConsumer, NamedConsumerListed, NamedOptions, check_in_flight,
};
use crate::consume::named::registration::{AttachRequest, UnderWay};
use crate::held;
use crate::store::Store;
use crate::sync::Mutex;

/// Named consumers that this process has asked for, until they end.
#[derive(Default)]
pub(crate) struct NamedConsumers {
    limits: Mutex<CreationLimits>,
    table: Mutex<Table>,
    pub(crate) under_way: UnderWay,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<String, Arc<NamedConsumer>>,
    /// How many consumers of each group.
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

    /// Adds one, unless another thread was faster. Returns the one that is registered.
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

    /// Removes one that has ended, and the watch over its group if no other consumer needs it.
    pub(crate) fn forget(&self, gone: &NamedConsumer) {
        let mut table = held(&self.table);
        let key = key_of(gone.id());
        if table.by_id.get(&key).is_some_and(|there| there.consuming == gone.consuming) {
            table.by_id.remove(&key);
            table.uncount(gone);
        }
    }

    /// The consumers of a group.
    pub(crate) fn of_group(&self, group: GroupNumber) -> Vec<Arc<NamedConsumer>> {
        held(&self.table).by_id.values().filter(|one| one.consuming.group == group).cloned().collect()
    }

    /// Removes all: the store closes.
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

impl Store {
    /// Sets the limits, from now on.
    pub fn limit_creation(&self, limits: CreationLimits) {
        *held(&self.shared.named.limits) = limits;
    }

    /// The consumer of these names. Creates its subject, group and itself if they do not exist. All callers with the
    /// same names get the same consumer. Returns when it is durable, with its first reserve, after one wait for the
    /// disk. A new group on its own retry or dead-letter subject starts with the first message there, whatever the
    /// options say.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group`, `consumer` or `in_flight_max`; `TooLarge` naming `subjects`,
    /// `groups` or `consumers` if no more may be created; `DiskFull`, `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn named_consumer(&self, id: ConsumerId<'_>, options: NamedOptions) -> Result<Arc<NamedConsumer>> {
        self.shared.check()?;
        id.check()?;
        check_in_flight(options.in_flight_max)?;
        if let Some(there) = self.shared.named.get(id) {
            return Ok(there);
        }
        let asked = AttachRequest::submit(&self.shared, id, options)?;
        self.shared.lead(asked.end());
        asked.finish()
    }

    /// All named consumers. After an open, their leases begin anew. Waits.
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
