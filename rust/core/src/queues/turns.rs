//! The turns of queues: which of many queues is asked next, so that idle queues cost nothing and no queue starves.
//!
//! A queue that is woken waits for its turn, once. Its turn takes it out. A queue that may have more waits again, behind
//! the others.

use std::collections::VecDeque;

use crate::planted::{Planted, is_on};

/// See the module. Queues are numbered from 0.
#[derive(Debug, Default)]
pub struct Turns {
    waiting: VecDeque<u32>,
    /// Whether each queue is in `waiting`.
    is_waiting: Vec<bool>,
}

impl Turns {
    /// The queue may have messages.
    pub fn wake(&mut self, queue: u32) {
        if !self.begins_to_wait(queue) {
            return;
        }
        if is_on(Planted::WokenLastForgotten) {
            self.forget_last();
        }
        self.waiting.push_back(queue);
    }

    /// The queue has messages, and its turn is the next.
    pub fn wake_first(&mut self, queue: u32) {
        if self.begins_to_wait(queue) {
            self.waiting.push_front(queue);
        }
    }

    /// Returns false if the queue waits already.
    fn begins_to_wait(&mut self, queue: u32) -> bool {
        let index = queue as usize;
        if self.is_waiting.len() <= index {
            self.is_waiting.resize(index.saturating_add(1), false);
        }
        self.is_waiting.get_mut(index).is_some_and(|waits| !std::mem::replace(waits, true))
    }

    fn forget_last(&mut self) {
        if let Some(last) = self.waiting.pop_back()
            && let Some(waits) = self.is_waiting.get_mut(last as usize)
        {
            *waits = false;
        }
    }

    /// Takes the queue whose turn it is.
    pub fn take(&mut self) -> Option<u32> {
        let queue = self.waiting.pop_front()?;
        if let Some(waits) = self.is_waiting.get_mut(queue as usize) {
            *waits = false;
        }
        Some(queue)
    }

    /// How many queues wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no queue waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many of `room` messages each waiting queue may give in its turn, at least one.
    pub fn share(&self, room: usize) -> usize {
        room.div_ceil(self.waiting.len().max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_woken_queue_has_one_turn_in_the_order_of_waking() {
        let mut turns = Turns::default();
        for queue in [7, 2, 7, 5, 2] {
            turns.wake(queue);
        }
        assert_eq!((turns.len(), turns.is_empty()), (3, false));
        let order: Vec<u32> = std::iter::from_fn(|| turns.take()).collect();
        assert_eq!(order, [7, 2, 5]);
        assert!(turns.is_empty());
    }

    #[test]
    fn a_queue_that_may_have_more_waits_behind_the_others() {
        let mut turns = Turns::default();
        (0..3).for_each(|queue| turns.wake(queue));
        let mut order = Vec::new();
        for _ in 0..6 {
            let queue = turns.take().unwrap();
            order.push(queue);
            turns.wake(queue);
        }
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_queue_that_was_loaded_is_the_next() {
        let mut turns = Turns::default();
        (0..3).for_each(|queue| turns.wake(queue));
        let first = turns.take().unwrap();
        turns.wake_first(first);
        turns.wake_first(2);
        assert_eq!((turns.len(), turns.take()), (3, Some(first)), "a queue that waits keeps its place");
    }

    #[test]
    fn a_share_is_the_same_for_each_and_never_nothing() {
        let mut turns = Turns::default();
        assert_eq!(turns.share(8), 8);
        (0..3).for_each(|queue| turns.wake(queue));
        assert_eq!([turns.share(9), turns.share(10), turns.share(1), turns.share(0)], [3, 4, 1, 1]);
    }
}
