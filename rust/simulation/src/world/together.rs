//! Consumers of many subjects: the consumers of one name in a group are one member, which asks only those of its queues
//! that were woken, each in its turn and for its share.

use delaymq_core::units::GroupNumber;

use super::World;
use super::members::Together;
use crate::node::Node;

impl World {
    /// The queues of these groups may have messages.
    pub(super) fn wake_queues(&mut self, groups: &[GroupNumber]) {
        for (index, handle) in self.handles.iter().enumerate() {
            if handle.group_number.is_some_and(|group| groups.contains(&group)) {
                self.together.wake(index);
            }
        }
    }

    /// Every queue may have messages: the store was opened.
    pub(super) fn wake_all_queues(&mut self) {
        self.together = Together::of(&self.handles);
        (0..self.handles.len()).for_each(|index| self.together.wake(index));
    }

    /// Pulls for one consumer, or for all queues of its member.
    pub(super) fn pull(&mut self, index: usize, count_max: usize) {
        if self.plan.pulls_together {
            self.pull_together(index, count_max);
        } else {
            self.pull_one(index, count_max, 0);
        }
    }

    fn pull_together(&mut self, index: usize, count_max: usize) {
        let Some(member) = self.together.member_of(index) else { return };
        let (turns, share) = (member.turns.len(), member.turns.share(count_max));
        let mut left = count_max;
        // A queue that has nothing for now waits again behind this round.
        let mut later = Vec::new();
        for _ in 0..turns {
            let Some(queue) = self.together.member_of(index).and_then(|member| member.turns.take()) else { break };
            let handles = self.together.member_of(index).map(|member| member.handles.clone()).unwrap_or_default();
            let Some(handle) = handles.get(queue as usize).copied() else { continue };
            if self.handles.get(handle).is_none_or(|handle| handle.consumer.is_none()) {
                // It is woken once it has a consumer.
                continue;
            }
            let elsewhere = self.in_flight_of(handles.iter().copied().filter(|other| *other != handle));
            let crashes = self.crashes;
            let got = self.pull_one(handle, share.min(left), elsewhere);
            if self.crashes != crashes {
                return;
            }
            self.check_limit(&handles);
            left = left.saturating_sub(got.unwrap_or_default());
            if got.is_none_or(|got| got > 0) || self.node.as_ref().is_some_and(Node::was_soon) {
                later.push(handle);
            }
            if left == 0 {
                break;
            }
        }
        for handle in later {
            self.together.wake(handle);
        }
    }

    fn in_flight_of(&self, handles: impl Iterator<Item = usize>) -> u64 {
        let Some(node) = &self.node else { return 0 };
        let place = |index: usize| self.handles.get(index).and_then(|one| Some((one.group_number?, one.consumer?)));
        handles.filter_map(place).map(|(group, consumer)| node.owner().in_flight(group, consumer)).sum()
    }

    /// All queues of a member together hold no more than the limit.
    fn check_limit(&mut self, handles: &[usize]) {
        let held = self.in_flight_of(handles.iter().copied());
        if held > u64::from(self.plan.in_flight_max) {
            self.oracle.blame(format!("a member has {held} in flight, more than {}", self.plan.in_flight_max));
        }
    }
}
