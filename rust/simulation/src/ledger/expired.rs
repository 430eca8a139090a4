//! Messages that expired, and the number of those of each subject.

use delaymq_core::record::expire::{Expire, ExpiredBy};
use delaymq_core::units::SubjectNumber;

use super::Ledger;

impl Ledger {
    pub(super) fn expire(&mut self, expire: &Expire<'_>) {
        let Some(topic) = self.topics.get_mut(&expire.subject) else { return };
        let (floor, ready) = (topic.floor, topic.ready.len() as u64);
        let by_itself = matches!(expire.by, ExpiredBy::Themselves { .. });
        let mut count = 0;
        for range in expire.numbers.iter() {
            let numbers = range.first..range.first.saturating_add(range.count).min(ready);
            for number in numbers.clone().filter(|number| *number >= floor) {
                let groups = self.groups.iter_mut().filter(|(_, group)| group.subject == expire.subject);
                let (mut has_groups, mut is_new) = (false, false);
                for (group_number, group) in groups {
                    let was_finished = group.is_finished(number);
                    let is_own = matches!(expire.by, ExpiredBy::Themselves { group, .. } if group == *group_number);
                    if is_own {
                        group.give_up(number);
                    } else {
                        group.expire(number);
                    }
                    (has_groups, is_new) = (true, is_new || (!was_finished && group.is_finished(number)));
                }
                let is_gone = topic.gone.contains(&number);
                let is_counted = is_gone && (by_itself || !has_groups);
                count += u64::from((is_new || !has_groups) && !is_counted);
            }
            topic.gone.extend(numbers);
        }
        self.count_expired(expire.subject, count);
    }

    /// Counts what expired in a group's retry subject with the subject that the group consumes.
    pub(super) fn count_expired(&mut self, subject: SubjectNumber, count: u64) {
        let name = self.topics.get(&subject).map_or("", |topic| topic.name.as_str());
        let of_group = ["%RETRY%", "%DEAD_RETRY%"].iter().find_map(|prefix| name.strip_prefix(prefix));
        let consumed = of_group.and_then(|rest| rest.split_once('%')).map(|(consumed, _)| consumed);
        let base = consumed.and_then(|base| self.topics.iter().find(|(_, topic)| topic.name == base));
        let base = base.map_or(subject, |(number, _)| *number);
        if let Some(topic) = self.topics.get_mut(&base) {
            topic.expired += count;
        }
    }
}
