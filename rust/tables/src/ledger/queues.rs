//! What groups got of a ledger's messages, and how that ended.

use delaymq_core::record::queue::{Acknowledge, Assign, PassOver};
use delaymq_core::record::retry::{Destination, Redrive, Retry};
use delaymq_core::schedule_log::EntryState;
use delaymq_core::store::{State, retry_subject};
use delaymq_core::units::{ConsumerNumber, GroupNumber, PullOffset, Sequence, SubjectNumber};

use crate::ledger::delivery_ledger::Ledger;
use crate::ledger::index::Target;
use crate::ledger::slots::{Delivery, Gone, Slot, Time, Word, delivery_to, found, slot_of};
use crate::read::log_walk::At;
use crate::snapshot::parties::Parties;

impl Ledger {
    /// A consumer was given numbers.
    pub(crate) fn assign(&mut self, parties: &Parties, assign: &Assign<'_>, at: At) {
        let Some((subject, name)) = parties.groups.get(&assign.group) else { return };
        let Some(numbers) = self.numbers.get(subject) else { return };
        if self.gone_groups.contains(&assign.group) {
            return;
        }
        let (slots, deliveries) = (&mut self.slots, &mut self.deliveries);
        let held = self.held.entry(assign.consumer).or_default();
        let mut offset = assign.first_offset;
        for range in assign.numbers.iter() {
            for (number, target) in numbers.between(range.first, range.first.saturating_add(range.count)) {
                let under = offset.plus(number.saturating_sub(range.first));
                let Some(place) = given(slots, deliveries, parties, target, (assign.group, name)) else { continue };
                let Some(delivery) = deliveries.get_mut(place as usize) else { continue };
                if delivery.word != Word::Waits || !delivery.is_under(target, number) {
                    continue;
                }
                if delivery.attempts == 0 && !delivery.is_older {
                    delivery.delivered = Time::of(at.trusted);
                }
                delivery.attempts = delivery.attempts.saturating_add(1);
                delivery.word = Word::Held(assign.consumer, under);
                held.push_back((under, place));
            }
            offset = offset.plus(range.count);
        }
    }

    /// Filters did not let numbers pass that no consumer has: they are finished for the group.
    pub(crate) fn pass_over(&mut self, parties: &Parties, passed_over: &PassOver<'_>, at: At) {
        let group = passed_over.group;
        let Some((subject, name)) = parties.groups.get(&group) else { return };
        let Some(numbers) = self.numbers.get(subject).filter(|_| !self.gone_groups.contains(&group)) else { return };
        let (slots, deliveries) = (&mut self.slots, &mut self.deliveries);
        for range in passed_over.numbers.iter() {
            for (number, target) in numbers.between(range.first, range.first.saturating_add(range.count)) {
                let place = given(slots, deliveries, parties, target, (group, name));
                let delivery = place.and_then(|place| deliveries.get_mut(place as usize));
                if let Some(delivery) = delivery.filter(|one| one.word == Word::Waits && one.is_under(target, number)) {
                    delivery.ends(Word::Filtered, Time::of(at.trusted));
                }
            }
        }
    }

    /// A consumer has finished offsets.
    pub(crate) fn acknowledge(&mut self, acknowledge: &Acknowledge<'_>, at: At) {
        let consumer = acknowledge.consumer;
        let Some(held) = self.held.get_mut(&consumer).filter(|_| !self.gone_groups.contains(&acknowledge.group)) else {
            return;
        };
        let deliveries = &mut self.deliveries;
        for range in acknowledge.offsets.iter() {
            let end = PullOffset(range.first.saturating_add(range.count));
            let from = held.partition_point(|(offset, _)| offset.0 < range.first);
            for (offset, place) in held.range(from..).take_while(|(offset, _)| *offset < end) {
                if let Some(delivery) = deliveries.get_mut(*place as usize)
                    && delivery.word == Word::Held(consumer, *offset)
                {
                    let time = Time::of(at.trusted);
                    if acknowledge.filtered {
                        delivery.was_kept_back();
                        delivery.ends(Word::Filtered, time);
                    } else {
                        delivery.ends(Word::Acknowledged, time);
                    }
                }
            }
        }
        let is_held = |(offset, place): &(PullOffset, u32)| {
            deliveries.get(*place as usize).is_some_and(|delivery| delivery.word == Word::Held(consumer, *offset))
        };
        while held.front().is_some_and(|front| !is_held(front)) {
            held.pop_front();
        }
    }

    /// A consumer gave a message back, or put it away. `is_older` says that its number is of before the log.
    pub(crate) fn retry(&mut self, parties: &Parties, retry: &Retry<'_>, at: At, is_older: bool) {
        let place = self.held_under(retry.consumer, retry.offset).or_else(|| {
            let message = Some(retry.payload_sequence).filter(|message| is_older && self.is_older(*message))?;
            let (subject, _) = parties.groups.get(&retry.group)?;
            self.given_before(message, *subject, retry.number.0, retry.group)
        });
        let Some((place, delivery)) = place.and_then(|at| Some((at, self.deliveries.get_mut(at as usize)?))) else {
            return;
        };
        match retry.destination {
            Destination::Again => {
                delivery.goes_on(at.fact, retry.target);
                self.entries.insert(at.fact, Target::Delivery(place));
            }
            Destination::DeadLetter { .. } => delivery.ends(Word::DeadLetter, Time::of(at.trusted)),
            Destination::Expired { received } => {
                if !received {
                    delivery.was_kept_back();
                }
                delivery.ends(Word::ExpiredDeadLetter, Time::of(at.trusted));
            }
        }
    }

    fn held_under(&self, consumer: ConsumerNumber, offset: PullOffset) -> Option<u32> {
        let held = self.held.get(&consumer)?;
        let place = held.binary_search_by_key(&offset, |(offset, _)| *offset).ok()?;
        let (_, delivery) = held.get(place)?;
        let is_held = self.deliveries.get(*delivery as usize)?.word == Word::Held(consumer, offset);
        is_held.then_some(*delivery)
    }

    /// The delivery of a message that was given before the log begins.
    fn given_before(
        &mut self,
        message: Sequence,
        subject: SubjectNumber,
        number: u64,
        group: GroupNumber,
    ) -> Option<u32> {
        if self.index.get(message).is_none() {
            self.add(message, Slot { sequence: Some(message), ..slot_of(subject, Sequence(0)) });
        }
        let place = self.index.get(message)?;
        let slot = self.slots.get_mut(place as usize)?;
        (slot.is_ready, slot.number) = (true, Some(number));
        let place = delivery_to(slot, &mut self.deliveries, group);
        self.deliveries.get_mut(place as usize)?.is_older = true;
        Some(place)
    }

    /// A dead letter was brought back.
    pub(crate) fn redrive(&mut self, state: &State, parties: &Parties, redrive: &Redrive, at: At) {
        let name = |subject| state.subjects.get(subject).map(|subject| subject.name.as_str());
        let slot = self.index.get(redrive.payload_sequence).and_then(|place| self.slots.get(place as usize));
        let Some((slot, target)) = slot.zip(name(redrive.target)) else { return };
        let Some(subject) = name(slot.subject) else { return };
        let mut next = slot.first_delivery;
        while let Some((place, delivery)) = next.and_then(|at| Some((at, self.deliveries.get_mut(at as usize)?))) {
            let group = parties.groups.get(&delivery.group);
            let is_of = group.is_some_and(|(_, group)| retry_subject(subject, group) == target);
            if is_of && matches!(delivery.word, Word::DeadLetter | Word::ExpiredDeadLetter) {
                self.entries.insert(at.fact, Target::Delivery(place));
                // One that is nothing in the end came too late, unless it was moved.
                if state.schedule.state(at.fact) != EntryState::Nothing {
                    delivery.goes_on(at.fact, redrive.target);
                }
                return;
            }
            next = delivery.next;
        }
    }

    /// Ready messages are finished for all groups that do not hold them, and for the group `own` also if it holds them,
    /// which may have received them if that is true; or one is voided for all.
    pub(crate) fn finish(
        &mut self,
        subject: SubjectNumber,
        (first, end): (u64, u64),
        (why, own): (Gone, Option<(GroupNumber, bool)>),
        at: At,
    ) {
        let Some(numbers) = self.numbers.get(&subject) else { return };
        let (slots, deliveries, time) = (&mut self.slots, &mut self.deliveries, Time::of(at.trusted));
        let word = if why == Gone::Voided { Word::Voided } else { Word::Expired };
        for (number, target) in numbers.between(first, end) {
            let mut next = match target {
                Target::Delivery(place) => Some(place),
                Target::Slot(place) => slots.get_mut(place as usize).and_then(|slot| {
                    if slot.gone == Gone::No {
                        (slot.gone, slot.ended) = (why, time);
                    }
                    slot.first_delivery
                }),
            };
            while let Some(delivery) = next.and_then(|at| deliveries.get_mut(at as usize)) {
                // The numbers of a retry subject are of one group, whose number there is another one.
                let is_own = match target {
                    Target::Delivery(_) => own.is_some(),
                    Target::Slot(_) => own.is_some_and(|(own, _)| own == delivery.group),
                };
                let has = matches!(delivery.word, Word::Held(..)) && (why == Gone::Voided || is_own);
                if delivery.is_under(target, number) && (delivery.word == Word::Waits || has) {
                    if is_own && own.is_some_and(|(_, received)| !received) {
                        delivery.was_kept_back();
                    }
                    delivery.ends(word, time);
                }
                next = delivery.next.filter(|_| matches!(target, Target::Slot(_)));
            }
        }
    }

    /// A consumer ended: its messages return to its group.
    pub(crate) fn consumer_ended(&mut self, consumer: ConsumerNumber) {
        for (offset, place) in self.held.remove(&consumer).unwrap_or_default() {
            if let Some(delivery) = self.deliveries.get_mut(place as usize)
                && delivery.word == Word::Held(consumer, offset)
            {
                delivery.word = Word::Waits;
            }
        }
    }

    /// A fact that ends a group. Apply refuses it while the group is consumed, unless `is_certain`.
    pub(crate) fn group_ended(&mut self, state: &State, group: GroupNumber, at: At, is_certain: bool) {
        let time = Time::of(at.trusted);
        self.ending_facts.insert(at.fact, time);
        if state.groups.contains_key(&group) || self.gone_groups.contains(&group) {
            return;
        }
        self.ended_groups.insert(group, time);
        if is_certain {
            self.gone_groups.insert(group);
        }
    }
}

/// The delivery of a number of a group's subject; `None` if the group gets nothing of it. After a retry the number is
/// finished.
fn given(
    slots: &mut [Slot],
    deliveries: &mut Vec<Delivery>,
    parties: &Parties,
    target: Target,
    (group, name): (GroupNumber, &str),
) -> Option<u32> {
    match target {
        // Another group that reads a retry subject is none of the message's.
        Target::Delivery(place) => {
            let of = parties.groups.get(&deliveries.get(place as usize)?.group);
            of.is_some_and(|(_, of)| of == name).then_some(place)
        }
        Target::Slot(place) => {
            let slot = slots.get_mut(place as usize)?;
            let there = found(slot, deliveries, group);
            // What is gone is finished for a group that has not had it.
            if there.is_none() && slot.gone != Gone::No { None } else { Some(delivery_to(slot, deliveries, group)) }
        }
    }
}
