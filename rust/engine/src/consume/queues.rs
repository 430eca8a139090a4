//! The queues of a subscription: two for each of its subjects, in which order they are asked, and what ended in them.
//!
//! The subject at place `p` has the queue `2 * p`, and the group's retries of that subject have the next one.

use delaymq_core::queues::turns::Turns;
use delaymq_core::units::{ConsumerNumber, GroupNumber};

use crate::consume::ended_deliveries::{Moved, Settled};

/// A consumer of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GroupConsumer {
    pub(crate) group: GroupNumber,
    pub(crate) consumer: ConsumerNumber,
}

/// The queue of the first subject itself.
pub(crate) const MAIN: u32 = 0;

/// Queues of one subject.
const QUEUES: usize = 2;

/// True for the queue of a retry subject.
pub(crate) const fn is_of_retries(queue: u32) -> bool {
    queue % 2 == 1
}

/// The place of the subject that this queue belongs to.
pub(crate) const fn place_of(queue: u32) -> usize {
    queue as usize / QUEUES
}

#[derive(Default)]
struct Queue {
    consuming: Option<GroupConsumer>,
    /// The group of a retry subject, if it exists.
    retry_group: Option<GroupNumber>,
    /// At most so many messages are in flight.
    in_flight: u64,
    acknowledged: Vec<u64>,
    filtered: Vec<u64>,
    moved: Vec<Moved>,
    is_settling: bool,
}

/// A queue whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) queue: u32,
    pub(crate) consuming: GroupConsumer,
    /// At most so many messages are in flight in the other queues.
    pub(crate) elsewhere: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Queues {
    all: Vec<Queue>,
    turns: Turns,
    /// Queues with messages in flight, as far as it is known.
    busy: Vec<u32>,
    /// The sum over all queues.
    in_flight: u64,
    /// Queues with deliveries that ended and are not sent.
    settling: Vec<u32>,
    /// Queues of retries that have a group and no consumer yet.
    to_join: Vec<u32>,
}

impl Queues {
    /// Adds the queues of one more subject, and returns the number of the first.
    pub(crate) fn add(&mut self, consuming: GroupConsumer) -> u32 {
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(Queue { consuming: Some(consuming), ..Queue::default() });
        self.all.push(Queue::default());
        number
    }

    fn get(&self, queue: u32) -> Option<&Queue> {
        self.all.get(queue as usize)
    }

    fn get_mut(&mut self, queue: u32) -> Option<&mut Queue> {
        self.all.get_mut(queue as usize)
    }

    /// All consumers.
    pub(crate) fn consuming(&self) -> impl Iterator<Item = GroupConsumer> {
        self.all.iter().filter_map(|queue| queue.consuming)
    }

    /// The consumer of a queue.
    pub(crate) fn consumer_of(&self, queue: u32) -> Option<GroupConsumer> {
        self.get(queue)?.consuming
    }

    /// All groups, also those of retries that no consumer of this subscription has joined.
    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupNumber> {
        let of_each = |queue: &Queue| [queue.consuming.map(|one| one.group), queue.retry_group];
        self.all.iter().flat_map(of_each).flatten()
    }

    /// The queue has a consumer from now on, or none.
    pub(crate) fn set_consuming(&mut self, queue: u32, consuming: Option<GroupConsumer>) {
        let Some(there) = self.get_mut(queue) else { return };
        let before = std::mem::replace(&mut there.consuming, consuming);
        let is_known = there.retry_group.is_some() && there.retry_group != before.map(|before| before.group);
        match consuming {
            Some(_) => self.turns.wake(queue),
            // The group was removed. Another one of its name may have been made since.
            None if is_known => self.to_join.push(queue),
            None => {}
        }
    }

    /// The group of a retry subject, if it exists.
    pub(crate) fn retry_group(&self, queue: u32) -> Option<GroupNumber> {
        self.get(queue)?.retry_group
    }

    /// The retry subject has this group from now on.
    pub(crate) fn set_retry_group(&mut self, queue: u32, group: GroupNumber) {
        let Some(there) = self.get_mut(queue) else { return };
        if there.retry_group.replace(group) != Some(group) && there.consuming.is_none() {
            self.to_join.push(queue);
        }
    }

    /// True if a group of retries has no consumer yet.
    pub(crate) fn has_to_join(&self) -> bool {
        !self.to_join.is_empty()
    }

    /// Takes the groups of retries that a consumer is to join, with their queues.
    pub(crate) fn take_to_join(&mut self) -> Vec<(u32, GroupNumber)> {
        let queues = std::mem::take(&mut self.to_join);
        queues.into_iter().filter_map(|queue| Some((queue, self.retry_group(queue)?))).collect()
    }

    /// A consumer is to join these after all.
    pub(crate) fn join_again(&mut self, queues: &[(u32, GroupNumber)]) {
        self.to_join.extend(queues.iter().map(|(queue, _)| *queue));
    }

    /// The queue may have messages.
    pub(crate) fn wake(&mut self, queue: u32) {
        self.turns.wake(queue);
    }

    /// The queue has messages, and is asked next.
    pub(crate) fn wake_first(&mut self, queue: u32) {
        self.turns.wake_first(queue);
    }

    /// How many queues may have messages.
    pub(crate) fn waiting(&self) -> usize {
        self.turns.len()
    }

    /// How many of `room` messages each of these may give in its turn.
    pub(crate) fn share(&self, room: usize) -> usize {
        self.turns.share(room)
    }

    /// Takes the queue whose turn it is.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        loop {
            let queue = self.turns.take()?;
            if let Some(there) = self.get(queue)
                && let Some(consuming) = there.consuming
            {
                return Some(Turn { queue, consuming, elsewhere: self.in_flight.saturating_sub(there.in_flight) });
            }
        }
    }

    /// How many messages may be in flight, all queues together. It falls when the queues are looked at.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// So many messages more are in flight in this queue.
    pub(crate) fn note_assigned(&mut self, queue: u32, count: u64) {
        let Some(there) = self.get_mut(queue) else { return };
        let before = there.in_flight;
        there.in_flight = before.saturating_add(count);
        self.in_flight = self.in_flight.saturating_add(count);
        if before == 0 && count > 0 {
            self.busy.push(queue);
        }
    }

    /// Looks again at how many messages are in flight in each queue.
    pub(crate) fn look_again(&mut self, in_flight: impl Fn(GroupConsumer) -> u64) {
        self.in_flight = 0;
        for queue in std::mem::take(&mut self.busy) {
            let Some(there) = self.all.get_mut(queue as usize) else { continue };
            there.in_flight = there.consuming.map_or(0, &in_flight);
            self.in_flight = self.in_flight.saturating_add(there.in_flight);
            if there.in_flight > 0 {
                self.busy.push(queue);
            }
        }
    }

    /// Notes the end of a delivery.
    pub(crate) fn note_done(&mut self, queue: u32, offset: u64) {
        if let Some(there) = self.settling(queue) {
            there.acknowledged.push(offset);
        }
    }

    /// Notes the end of a delivery whose message the filters did not let pass.
    pub(crate) fn note_filtered(&mut self, queue: u32, offset: u64) {
        if let Some(there) = self.settling(queue) {
            there.filtered.push(offset);
        }
    }

    /// Notes a message that moves to another subject.
    pub(crate) fn note_moved(&mut self, queue: u32, moved: Moved) {
        if let Some(there) = self.settling(queue) {
            there.moved.push(moved);
        }
    }

    fn settling(&mut self, queue: u32) -> Option<&mut Queue> {
        let there = self.all.get_mut(queue as usize)?;
        if !std::mem::replace(&mut there.is_settling, true) {
            self.settling.push(queue);
        }
        Some(there)
    }

    /// Takes the deliveries that ended and are not sent.
    pub(crate) fn take_settled(&mut self) -> Vec<Settled> {
        let mut taken = Vec::with_capacity(self.settling.len());
        for queue in std::mem::take(&mut self.settling) {
            let Some(there) = self.get_mut(queue) else { continue };
            there.is_settling = false;
            let [mut acknowledged, mut filtered] = [&mut there.acknowledged, &mut there.filtered].map(std::mem::take);
            let moved = std::mem::take(&mut there.moved);
            if let Some(GroupConsumer { group, consumer }) = there.consuming {
                acknowledged.sort_unstable();
                filtered.sort_unstable();
                taken.push(Settled { group, consumer, acknowledged, filtered, moved });
            }
        }
        taken
    }
}

#[cfg(test)]
#[path = "queues_tests.rs"]
mod tests;
