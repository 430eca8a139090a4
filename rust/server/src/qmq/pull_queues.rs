//! Queues of parked pulls: one for each group with consumers here, and one for each subject with broadcast consumers.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::units::{GroupNumber, SubjectNumber};
use delaymq_engine::SubjectReader;

/// Queues of subjects have group numbers from here on, which no group of a store reaches.
const BROADCAST_GROUPS: u32 = 1 << 31;

/// See the module.
#[derive(Debug)]
pub(crate) struct PullQueue {
    pub(crate) group: GroupNumber,
    pub(crate) subject: SubjectNumber,
    pub(crate) is_broadcast: bool,
    /// The token of the store's wake-ups for this queue.
    pub(crate) token: u64,
    news: Cell<u64>,
}

impl PullQueue {
    /// The queue of a group.
    pub(crate) fn of_group(group: GroupNumber, subject: SubjectNumber, token: u64) -> Self {
        Self { group, subject, is_broadcast: false, token, news: Cell::new(0) }
    }

    fn of_subject(subject: SubjectNumber, token: u64) -> Self {
        let group = GroupNumber(subject.0.saturating_add(BROADCAST_GROUPS));
        Self { group, subject, is_broadcast: true, token, news: Cell::new(0) }
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

/// The reader and the queue of a subject with broadcast consumers.
#[derive(Clone)]
pub(crate) struct Reading {
    pub(crate) reader: Arc<SubjectReader>,
    pub(crate) pull_queue: Rc<PullQueue>,
}

/// All queues.
#[derive(Default)]
pub(crate) struct PullQueues {
    groups: HashMap<GroupNumber, Rc<PullQueue>>,
    subjects: HashMap<String, Reading>,
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

    /// The reader of a subject, if there is one.
    pub(crate) fn reading(&self, subject: &str) -> Option<Reading> {
        self.subjects.get(subject).cloned()
    }

    /// Sets the reader of a subject, for all its broadcast consumers.
    pub(crate) fn read(&mut self, subject: &str, reader: Arc<SubjectReader>, token: u64) -> Reading {
        let pull_queue = Rc::new(PullQueue::of_subject(reader.subject_number(), token));
        let reading = Reading { reader, pull_queue: Rc::clone(&pull_queue) };
        self.subjects.insert(subject.to_owned(), reading.clone());
        self.by_token.insert(token, pull_queue);
        reading
    }

    /// The queue with this token.
    pub(crate) fn by_token(&self, token: u64) -> Option<Rc<PullQueue>> {
        self.by_token.get(&token).cloned()
    }

    /// Forgets queues that no session and no pull uses.
    pub(crate) fn forget_empty(&mut self) {
        // `groups` or `subjects` count one, `by_token` one, and a reader one more.
        self.groups.retain(|_, pull_queue| Rc::strong_count(pull_queue) > 2);
        self.subjects.retain(|_, reading| Rc::strong_count(&reading.pull_queue) > 2);
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

    #[test]
    fn subjects_and_groups_have_numbers_of_their_own() {
        let of_subject = PullQueue::of_subject(SubjectNumber(3), 1);
        assert!(of_subject.is_broadcast && of_subject.group != GroupNumber(3));
        assert_ne!(PullQueue::without_news().group, of_subject.group);
    }
}
