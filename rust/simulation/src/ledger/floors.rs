//! The floors of subjects: everything below one is finished.

use super::Ledger;
use super::group::Members;

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
            topic.gone.extend(topic.floor..floor);
            topic.floor = floor;
        }
    }
}
