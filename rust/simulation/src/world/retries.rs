//! Messages that a consumer gives back, or makes dead letters.

use delaymq_core::error::Result;
use delaymq_core::record::expire::{EXPIRED_REASON, OnExpiry};
use delaymq_core::store::{dead_letter_subject, retry_subject};
use delaymq_core::units::Sequence;

use super::World;
use super::asked::{Ask, Assigned};
use crate::checker::{Entry, Origin};
use crate::node::{Expired, Node, Place};

/// The call of the store by which a message that expired becomes a dead letter, as a trace names it.
pub(super) const PUT_AWAY_EXPIRED: &str = "put away an expired message";

impl World {
    /// True if the message had expired before it was assigned, so that the store does not hold it for its consumer.
    pub(super) fn is_gone(&self, one: &Assigned) -> bool {
        let assigned = one.fact.unwrap_or(Sequence(u64::MAX));
        self.oracle.is_expired(one.group, one.delivery.entry.sequence(), assigned)
    }

    /// A delivery of a consumer.
    fn some_held(&mut self, index: usize) -> Option<Assigned> {
        let held = self.assigned.values().filter(|one| one.handle == index && !one.is_done && !self.is_gone(one));
        let held: Vec<Assigned> = held.cloned().collect();
        self.chance.pick(&held).cloned()
    }

    /// Gives one message back, or makes it a dead letter.
    pub(super) fn give_some_back(&mut self, index: usize) {
        if self.plan.operator_percent > 0 && self.chance.percent(25) {
            return self.put_away(index);
        }
        let Some(one) = self.some_held(index) else { return };
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let delay_ms = self.chance.one_of(&[0, 1, 5, 40, 3_000]);
        let target = retry_subject(handle.own_subject(), &handle.group);
        let number = self.next_ask;
        let Some(node) = &mut self.node else { return };
        let names = (handle.own_subject(), handle.group.as_str());
        let due = node.reading().now.plus(delay_ms);
        let result = node.give_back(names, (one.group, one.consumer), &one.delivery, delay_ms, number);
        let subject = node.subject_number(&target).unwrap_or_default();
        let attempt = one.delivery.attempt.saturating_add(1);
        let again = Entry::new(subject, due, &one.handed.body, Origin::GivenBack { attempt });
        self.note(&format!("{} {} gives back {} until {due}", one.group, one.consumer, one.delivery.offset));
        self.moved_on(&one, again);
        self.survive("give back", result);
    }

    /// A consumer makes one of its messages a dead letter. If none holds a message, one pulls first.
    pub(super) fn put_some_away(&mut self) {
        let holding = |world: &Self| -> Vec<usize> {
            let held = world.assigned.values().filter(|one| !one.is_done && !world.is_gone(one));
            held.map(|one| one.handle).collect()
        };
        if holding(self).is_empty() {
            self.for_some_consumer(|world, index| world.pull(index, 3));
            self.settle();
        }
        let held = holding(self);
        if let Some(index) = self.chance.pick(&held).copied() {
            self.put_away(index);
        }
    }

    /// Makes one message a dead letter of its group.
    pub(super) fn put_away(&mut self, index: usize) {
        let Some(one) = self.some_held(index) else { return };
        let Some(handle) = self.handles.get(index).cloned() else { return };
        let length = self.chance.one_of(&[0, 10, 400]);
        // Words of a consumer, which are not taken for an expiry.
        let is_misleading = one.delivery.offset.0 % 4 == 3;
        let words = format!("{}{}", one.delivery.offset, "?".repeat(usize::try_from(length).unwrap_or_default()));
        let reason = if is_misleading { EXPIRED_REASON.to_owned() } else { words };
        let target = dead_letter_subject(handle.own_subject(), &handle.group);
        let number = self.next_ask;
        let Some(node) = &mut self.node else { return };
        let names = (handle.own_subject(), handle.group.as_str());
        let due = node.reading().now;
        let result = node.dead_letter(names, (one.group, one.consumer), &one.delivery, &reason, number);
        let subject = node.subject_number(&target).unwrap_or_default();
        let mut dead = Entry::new(subject, due, &one.handed.body, Origin::Dead { attempt: one.delivery.attempt });
        dead.reason = Some(reason);
        self.note(&format!("{} {} puts {} away", one.group, one.consumer, one.delivery.offset));
        self.moved_on(&one, dead);
        self.survive("put away", result);
    }

    /// Messages were to be handed to a consumer and had expired. Some become dead letters. Returns the first error, after
    /// which the caller has to survive: the world has no node here, so it cannot end the machine.
    pub(super) fn take_expired(
        &mut self,
        node: &mut Node,
        index: usize,
        place: Place,
        expired: Vec<Expired>,
    ) -> Result<()> {
        let Some(handle) = self.handles.get(index).cloned() else { return Ok(()) };
        let (group, consumer) = place;
        let mut done = Ok(());
        let subject = node.owner().state().groups.get(&group).map(|group| group.subject).unwrap_or_default();
        for Expired { handed, then, received } in expired {
            let delivery = handed.delivery;
            self.note(&format!("{} has expired for {group} {consumer}: {then:?}", delivery.entry.sequence()));
            let seen = handle.seen((group, consumer), subject, node.reading(), &handed);
            self.oracle.expired_at_hand_over(&seen);
            if then == OnExpiry::Drop {
                continue;
            }
            let (due, names) = (node.reading().now, (handle.own_subject(), handle.group.as_str()));
            let result = node.put_away_expired(names, place, (&delivery, received), self.next_ask);
            let target = node.subject_number(&dead_letter_subject(names.0, names.1)).unwrap_or_default();
            // This time, no consumer received it.
            let attempt = delivery.attempt - 1;
            let mut dead = Entry::new(target, due, &handed.body, Origin::Dead { attempt });
            dead.reason = Some(EXPIRED_REASON.to_owned());
            let one = Assigned { group, consumer, handle: index, delivery, handed, fact: None, is_done: true };
            if self.is_gone(&one) {
                // An operator's expiry is ahead of the assignment in the log, so the retry changes nothing.
                self.ask(Ask::Nothing);
            } else {
                self.moved_on(&one, dead);
            }
            done = done.and(result.map(|_| ()));
        }
        done
    }

    fn moved_on(&mut self, one: &Assigned, mut again: Entry) {
        again.published_to = one.handed.subject;
        let entry = one.delivery.entry.sequence();
        again.expiry = self.oracle.entry(entry).and_then(|entry| entry.expiry);
        self.ask(Ask::GiveBack { group: one.group, entry, again: Box::new(again) });
        if let Some(known) = self.assigned.get_mut(&one.key()) {
            known.is_done = true;
        }
    }
}
