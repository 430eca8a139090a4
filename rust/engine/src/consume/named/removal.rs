//! For operators: the consumers of a group, and the removal of a consumer whose client does not come back.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::store::{ConsumerListed, RetryRule, consumed_at};

use crate::consume::member::GroupConsumer;
use crate::consume::named::consumer::{ConsumerId, NamedConsumer};
use crate::invalid;
use crate::operate::administration::unknown_group;
use crate::store::Store;

impl Store {
    /// The consumers of a group, including its own retry subject.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `group`, also if it does not exist; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn consumers(&self, subject: &str, group: &str) -> Result<Vec<ConsumerListed>> {
        self.shared.check()?;
        check_qmq_subject("subject", subject)?;
        check_name("group", group)?;
        self.look(|state| state.list_consumers(subject, group).ok_or_else(|| unknown_group(subject, group)))
    }

    /// Ends the consumer of this name everywhere in the group, including the group's retry subject, as
    /// [`Self::end_named_consumer`] does. Returns how many messages it held.
    ///
    /// # Errors
    /// `InvalidArgument` naming `consumer` if there is none; otherwise as [`Self::end_named_consumer`].
    pub fn end_consumer(&self, id: ConsumerId<'_>, rule: RetryRule) -> Result<u64> {
        id.check()?;
        let mut ended = Vec::new();
        for subject in consumed_at(id.subject, id.group) {
            ended.push(self.end_named_consumer(ConsumerId { subject: &subject, ..id }, rule)?);
        }
        ended_of(id, &ended)
    }

    /// Ends the named consumer of these names. The messages that it holds go on as the rule says. Returns when it is
    /// durable, with how many messages it held; `None` if there is none.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject`, `group` or `consumer`; as [`NamedConsumer::end`].
    pub fn end_named_consumer(&self, id: ConsumerId<'_>, rule: RetryRule) -> Result<Option<u64>> {
        let shared = &self.shared;
        shared.check()?;
        id.check()?;
        let Some(consumer) = self.find_named_consumer(id)? else { return Ok(None) };
        let Some((end, held)) = consumer.end_counted(rule)? else { return Ok(None) };
        shared.lead(end);
        shared.wait_visible(end, None)?;
        Ok(Some(held))
    }

    /// The consumer of these names, if it exists: in this process, or from an earlier one.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn find_named_consumer(&self, id: ConsumerId<'_>) -> Result<Option<Arc<NamedConsumer>>> {
        let shared = &self.shared;
        if let Some(there) = shared.named.get(id) {
            return Ok(Some(there));
        }
        let found = self.look(|state| {
            let subject = state.subjects.number(id.subject);
            let group = subject.and_then(|subject| state.group_named(subject, id.group));
            let consumers = group.and_then(|group| state.groups.get(&group)).map(|group| &group.consumers);
            let consumer = consumers.and_then(|consumers| consumers.named(id.consumer, true));
            Ok(group.zip(consumer).map(|(group, consumer)| GroupConsumer { group, consumer }))
        })?;
        let Some(consuming) = found else { return Ok(None) };
        let subject = shared.names.subject(id.subject)?;
        Ok(Some(shared.named.keep(NamedConsumer::new(Arc::clone(shared), subject, id, consuming))))
    }
}

/// How many messages a consumer held, over all subjects in which it was ended.
///
/// # Errors
/// `InvalidArgument` naming `consumer` if it was in none.
pub fn ended_of(id: ConsumerId<'_>, ended: &[Option<u64>]) -> Result<u64> {
    let found = ended.iter().flatten().copied().reduce(u64::saturating_add);
    found.ok_or_else(|| {
        let found = format!("{:?}, which {:?} of {:?} does not have", id.consumer, id.group, id.subject);
        invalid("consumer", "a consumer of the group that a client named", found)
    })
}
