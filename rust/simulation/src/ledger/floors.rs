//! The floors of subjects: everything below one is finished, until a group reads it again. And what filters finish.

use delaymq_core::record::queue::PassOver;

use super::group::Members;
use super::{Ledger, Topic};

impl Ledger {
    /// Raises the floor of each subject to the first message that a group has not finished, or without a group to the
    /// first that is not voided.
    pub(super) fn raise_floors(&mut self) {
        for (number, topic) in &mut self.topics {
            let groups = self.groups.values_mut().filter(|group| group.subject == *number);
            let ready = topic.ready.len() as u64;
            let kept = |number: &u64| !topic.gone.contains(number);
            let least = groups.map(Members::lowest_unfinished).min();
            let least = least.or_else(|| (topic.floor..ready).find(kept)).unwrap_or(ready);
            let floor = least.min(ready).max(topic.floor);
            topic.floor = floor;
        }
    }

    /// Filters did not let messages pass that are ready.
    pub(super) fn pass_over(&mut self, passed_over: &PassOver<'_>) {
        let subject = self.groups.get(&passed_over.group).map(|members| members.subject);
        let ready = subject.and_then(|subject| self.topics.get(&subject)).map_or(0, |topic| topic.ready.len());
        self.with(passed_over.group, |members| members.pass_over(passed_over, ready as u64));
    }
}

impl Topic {
    /// The first message from this number on that a group may read again: those before are all gone.
    pub(super) fn first_again(&self, number: u64) -> u64 {
        let ready = self.ready.len() as u64;
        let all_gone = (0..ready).take_while(|number| self.gone.contains(number)).count() as u64;
        number.max(all_gone).min(ready)
    }
}
