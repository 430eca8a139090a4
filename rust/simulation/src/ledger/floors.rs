//! The floors of subjects: everything below one is finished, until a group reads it again.

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
}

impl Topic {
    /// The first message from this number on that a group may read again: those before are all gone.
    pub(super) fn first_again(&self, number: u64) -> u64 {
        let ready = self.ready.len() as u64;
        let all_gone = (0..ready).take_while(|number| self.gone.contains(number)).count() as u64;
        number.max(all_gone).min(ready)
    }
}
