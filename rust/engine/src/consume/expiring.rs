//! Messages that have expired when they were to be handed over: each is finished by a durable fact, and the next takes
//! its place. Every hand-over asks here, a repeated one too.

use std::collections::BTreeMap;

use delaymq_core::error::Result;
use delaymq_core::record::expire::OnExpiry;
use delaymq_core::record::retry::Death;
use delaymq_core::store::{Delivery, Owner, dead_letters_of};
use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::consume::delivery::DeliveryKey;
use crate::consume::named::consumer::NamedConsumer;
use crate::consume::subscription::Subscription;
use crate::drive::driver::LockedOwner;
use crate::files::payload_reader::Stored;
use crate::names::Subject;
use crate::shared::Shared;

/// A message that was assigned to a consumer, and has expired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpiredDelivery {
    delivery: Delivery,
    then: OnExpiry,
}

impl ExpiredDelivery {
    pub(crate) fn of(delivery: Delivery, stored: &Stored) -> Self {
        Self { delivery, then: stored.expiry.map(|expiry| expiry.then).unwrap_or_default() }
    }
}

impl Shared {
    /// True if this message, which is about to be handed over, has expired by the store's trusted clock. A dead letter
    /// does not expire.
    pub(crate) fn has_expired(&self, stored: &Stored, consumed: &Subject) -> bool {
        let Some(expiry) = stored.expiry else { return false };
        dead_letters_of(&consumed.name).is_none() && expiry.is_over(self.time.read().now)
    }

    /// Finishes messages that were to be handed to a consumer of this group, once more if `received`.
    fn drop_expired(&self, group: GroupNumber, received: bool, expired: &[&ExpiredDelivery]) -> Result<()> {
        let mut numbers: BTreeMap<SubjectNumber, Vec<u64>> = BTreeMap::new();
        for one in expired {
            numbers.entry(one.delivery.entry.subject()).or_default().push(one.delivery.number.0);
        }
        let mut guard = self.lock_owner()?;
        let locked = guard.get()?;
        let LockedOwner { proposals, .. } = locked;
        for (subject, numbers) in &mut numbers {
            numbers.sort_unstable();
            Owner::drop_expired((group, received), *subject, numbers, proposals);
        }
        self.send(locked, CommitUrgency::URGENT)?;
        drop(guard);
        self.committer.raise();
        Ok(())
    }
}

/// Those that are dropped, and those that become dead letters.
fn parted<'a>(
    expired: impl Iterator<Item = &'a ExpiredDelivery>,
) -> (Vec<&'a ExpiredDelivery>, Vec<&'a ExpiredDelivery>) {
    expired.partition(|one| one.then == OnExpiry::Drop)
}

impl Subscription {
    /// Finishes assigned messages of these queues, which have expired.
    pub(crate) fn finish_expired(&self, expired: &[(u32, ExpiredDelivery)]) -> Result<()> {
        if expired.is_empty() {
            return Ok(());
        }
        self.shared.metrics.expired.add(expired.len() as u64);
        let (now, _) = self.shared.now();
        let mut by_queue: BTreeMap<u32, Vec<&ExpiredDelivery>> = BTreeMap::new();
        for (queue, one) in expired {
            by_queue.entry(*queue).or_default().push(one);
        }
        for (queue, of_queue) in by_queue {
            let Some(consuming) = self.member.with_queues(|queues| queues.consumer_of(queue)) else { continue };
            let (dropped, dead) = parted(of_queue.into_iter());
            if !dropped.is_empty() {
                self.shared.drop_expired(consuming.group, false, &dropped)?;
            }
            let keyed = |one: &&ExpiredDelivery| (DeliveryKey { queue, offset: one.delivery.offset.0 }, one.delivery);
            let dead: Vec<_> = dead.iter().map(keyed).collect();
            self.member.hand_over(dead.clone());
            for (key, _) in dead {
                self.dead_letter_since(key, Death::Expired { received: false }, now)?;
            }
        }
        Ok(())
    }
}

impl NamedConsumer {
    /// Finishes assigned messages, which have expired; the client may have received them before if `received`.
    pub(crate) fn finish_expired(&self, expired: &[ExpiredDelivery], received: bool) -> Result<()> {
        if expired.is_empty() {
            return Ok(());
        }
        self.shared.metrics.expired.add(expired.len() as u64);
        let (dropped, dead) = parted(expired.iter());
        if !dropped.is_empty() {
            self.shared.drop_expired(self.consuming.group, received, &dropped)?;
        }
        if !dead.is_empty() {
            let dead: Vec<Delivery> = dead.iter().map(|one| one.delivery).collect();
            self.put_away_expired(&dead, received)?;
        }
        Ok(())
    }
}
