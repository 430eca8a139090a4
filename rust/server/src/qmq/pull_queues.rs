//! Queues of parked pulls: one for each group with consumers here.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use delaymq_core::units::{GroupNumber, SubjectNumber};

/// See the module.
#[derive(Debug)]
pub(crate) struct PullQueue {
    pub(crate) group: GroupNumber,
    pub(crate) subject: SubjectNumber,
    /// The token of the store's wake-ups for this queue.
    pub(crate) token: u64,
    news: Cell<u64>,
}

impl PullQueue {
    /// The queue of a group.
    pub(crate) fn of_group(group: GroupNumber, subject: SubjectNumber, token: u64) -> Self {
        Self { group, subject, token, news: Cell::new(0) }
    }

    /// The queue of pulls that can get nothing: it is never woken.
    pub(crate) fn without_news() -> Self {
        Self::of_group(GroupNumber(0), SubjectNumber(0), 0)
    }

    /// How often there was something new.
    pub(crate) fn news(&self) -> u64 {
        self.news.get()
    }

    /// There is something new.
    pub(crate) fn add_news(&self) {
        self.news.set(self.news.get().wrapping_add(1));
    }
}

/// All queues.
#[derive(Default)]
pub(crate) struct PullQueues {
    groups: HashMap<GroupNumber, Rc<PullQueue>>,
    by_token: HashMap<u64, Rc<PullQueue>>,
}

impl PullQueues {
    /// The queue of a group. Creates it with this token if there is none.
    pub(crate) fn of_group(&mut self, group: GroupNumber, subject: SubjectNumber, token: u64) -> Rc<PullQueue> {
        if let Some(pull_queue) = self.groups.get(&group) {
            return Rc::clone(pull_queue);
        }
        let pull_queue = Rc::new(PullQueue::of_group(group, subject, token));
        self.groups.insert(group, Rc::clone(&pull_queue));
        self.by_token.insert(token, Rc::clone(&pull_queue));
        pull_queue
    }

    /// The queue with this token.
    pub(crate) fn by_token(&self, token: u64) -> Option<Rc<PullQueue>> {
        self.by_token.get(&token).cloned()
    }

    /// Forgets queues that no session and no pull uses.
    pub(crate) fn forget_empty(&mut self) {
        // `groups` counts one, and `by_token` one.
        self.groups.retain(|_, pull_queue| Rc::strong_count(pull_queue) > 2);
        self.by_token.retain(|_, pull_queue| Rc::strong_count(pull_queue) > 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_desk_stays_for_as_long_as_somebody_is_there() {
        let mut pull_queues = PullQueues::default();
        let (group, subject) = (GroupNumber(3), SubjectNumber(2));
        let pull_queue = pull_queues.of_group(group, subject, 7);
        assert!(Rc::ptr_eq(&pull_queue, &pull_queues.of_group(group, subject, 9)));
        pull_queues.forget_empty();
        pull_queues.by_token(7).unwrap().add_news();
        assert_eq!((pull_queue.news(), pull_queues.by_token(9).is_none()), (1, true));
        drop(pull_queue);
        pull_queues.forget_empty();
        assert!(pull_queues.by_token(7).is_none());
        assert_eq!(pull_queues.of_group(group, subject, 9).news(), 0);
    }
}
