//! Broadcast consumers: named consumers that receive every message of a subject, each in a group of its own.
//!
//! In: the consumer. Out: facts that say that it was seen, and that end it together with its group.

use delaymq_core::error::{Error, Result};
use delaymq_core::record::attach::{Attach, encode_attach};
use delaymq_core::record::name::GroupStart;
use delaymq_core::units::Sequence;

use crate::commit::inbox::CommitUrgency;
use crate::consume::member::GroupConsumer;
use crate::consume::named::consumer::NamedConsumer;

impl NamedConsumer {
    /// Its client was seen: a fact says so, with the time, and says whether it is a broadcast consumer. A lease that
    /// outlives this process counts from that time. Never waits, and does nothing if it would have to: then the result
    /// is false.
    ///
    /// # Errors
    /// `Poisoned`, `ForkedProcess`; `Closed`, also if the consumer is gone.
    pub fn try_renew(&self, is_broadcast: bool) -> Result<bool> {
        self.check()?;
        let Some(mut guard) = self.shared.try_lock_owner()? else { return Ok(false) };
        let locked = guard.get()?;
        let GroupConsumer { group, consumer } = self.consuming;
        let there = locked.owner.state().groups.get(&group);
        if there.is_none_or(|there| !there.consumers.contains_key(&consumer)) {
            self.went();
            return Err(Error::Closed);
        }
        let (subject, group, consumer) = (self.subject.number, &*self.group, &*self.name);
        let attach = Attach { subject, start: GroupStart::Latest, block: 0, is_broadcast, group, consumer };
        let mut records = Vec::new();
        encode_attach(&mut records, &attach);
        Ok(self.shared.submit_in_order(locked, &records, 1, CommitUrgency::URGENT)?.is_some())
    }

    /// Ends a broadcast consumer: in one submission, with its group and the group's retries. Returns where that ends in
    /// the log. `None`, and nothing was done, if it is no broadcast consumer, or consumes a group's own subject.
    pub(crate) fn end_broadcast(&self) -> Result<Option<Sequence>> {
        let shared = &self.shared;
        loop {
            let seen = shared.room.count();
            let mut guard = shared.lock_owner()?;
            let locked = guard.get()?;
            let GroupConsumer { group, consumer } = self.consuming;
            let Some(end) = locked.owner.state().broadcast_end(group, consumer) else { return Ok(None) };
            let mut records = Vec::new();
            let count = end.encode(&mut records);
            if let Some(range) = shared.submit_in_order(locked, &records, count, CommitUrgency::URGENT)? {
                locked.owner.broadcast_ends(&end);
                drop(guard);
                for (group, consumer) in end.consumers {
                    let ended = shared.named.of_group(group).into_iter();
                    ended.filter(|one| one.consuming.consumer == consumer).for_each(|one| one.went());
                }
                shared.hasten(range.end);
                return Ok(Some(range.end));
            }
            drop(guard);
            shared.await_room(seen);
        }
    }
}
