//! The registry of named consumers: every caller that asks for the same names gets the same consumer.

use std::collections::HashMap;
use std::sync::Arc;

use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::consume::named::consumer::{ConsumerId, CreationLimits, NamedConsumer};
use crate::held;
use crate::sync::Mutex;

pub(crate) type GroupKey = (SubjectNumber, Box<str>);

/// How many consumers are being registered, by group.
#[derive(Default)]
pub(crate) struct UnderWay(pub(crate) Mutex<HashMap<GroupKey, Counts>>);

#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) consumers: u64,
    /// The group is new, and is created with them.
    pub(crate) is_new: bool,
}

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

    pub(crate) fn set_limits(&self, limits: CreationLimits) {
        *held(&self.limits) = limits;
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
