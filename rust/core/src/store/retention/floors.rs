//! The lowest floor of all groups of a subject, found without looking at each group each time.
//!
//! A floor only rises, so the noted floor of a group is never above its actual floor, and only the lowest note must be
//! checked. Each check that finds an outdated note is paid for by one rise of a floor.

use std::collections::{BTreeMap, BTreeSet};

use crate::queues::Group;
use crate::units::{GroupNumber, SubjectNumber};

/// A subject with at most this many groups needs no notes.
const FEW_GROUPS: usize = 8;

/// Notes of the floors of groups, by subject; made at first use.
#[derive(Debug, Default)]
pub(in crate::store) struct Floors {
    subjects: BTreeMap<SubjectNumber, BTreeSet<(u64, GroupNumber)>>,
}

impl Floors {
    /// Returns the lowest floor of these groups, which must be all groups of the subject; `None` without a group.
    pub(in crate::store) fn lowest(
        &mut self,
        subject: SubjectNumber,
        numbers: &[GroupNumber],
        groups: &BTreeMap<GroupNumber, Group>,
    ) -> Option<u64> {
        let floor = |number: &GroupNumber| groups.get(number).map(|group| group.done.below());
        if numbers.len() <= FEW_GROUPS {
            return numbers.iter().filter_map(floor).min();
        }
        let all = || numbers.iter().filter_map(|number| Some((floor(number)?, *number))).collect();
        let notes = self.subjects.entry(subject).or_insert_with(all);
        while let Some((noted, number)) = notes.first().copied() {
            match floor(&number) {
                Some(floor) if floor == noted => return Some(floor),
                Some(floor) => {
                    notes.remove(&(noted, number));
                    notes.insert((floor, number));
                }
                None => {
                    notes.remove(&(noted, number));
                }
            }
        }
        None
    }

    /// Must be called when the subject gains or loses a group.
    pub(in crate::store) fn groups_changed(&mut self, subject: SubjectNumber) {
        self.subjects.remove(&subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PullOffset, ReadyNumber};
    use proptest::prelude::*;

    const SUBJECT: SubjectNumber = SubjectNumber(3);

    fn group(number: u32, start: u64) -> Group {
        Group::new(GroupNumber(number), SUBJECT, "billing", ReadyNumber(start), PullOffset(0))
    }

    #[derive(Clone, Copy, Debug)]
    enum Change {
        Begin(u64),
        End(usize),
        Rise(usize, u64),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            2 => (0_u64..50).prop_map(Change::Begin),
            1 => (0_usize..40).prop_map(Change::End),
            6 => (0_usize..40, 1_u64..20).prop_map(|(group, by)| Change::Rise(group, by)),
        ]
    }

    proptest! {
        #[test]
        fn the_lowest_floor_is_what_looking_at_all_groups_finds(changes in prop::collection::vec(change(), 0..120)) {
            let (mut floors, mut groups) = (Floors::default(), BTreeMap::new());
            let (mut numbers, mut next): (Vec<GroupNumber>, u32) = (Vec::new(), 1);
            for change in changes {
                match change {
                    Change::Begin(start) => {
                        groups.insert(GroupNumber(next), group(next, start));
                        numbers.push(GroupNumber(next));
                        floors.groups_changed(SUBJECT);
                        next += 1;
                    }
                    Change::End(at) if at < numbers.len() => {
                        groups.remove(&numbers.remove(at));
                        floors.groups_changed(SUBJECT);
                    }
                    Change::Rise(at, by) if at < numbers.len() => {
                        let done = &mut groups.get_mut(&numbers[at]).unwrap().done;
                        let below = done.below();
                        done.insert_range(below, below + by);
                    }
                    Change::End(_) | Change::Rise(..) => {}
                }
                let expected = groups.values().map(|group| group.done.below()).min();
                prop_assert_eq!(floors.lowest(SUBJECT, &numbers, &groups), expected);
            }
        }
    }

    #[test]
    fn a_group_that_rises_alone_is_not_looked_for_among_all() {
        let mut groups: BTreeMap<GroupNumber, Group> = (1..=1_000).map(|n| (GroupNumber(n), group(n, 0))).collect();
        let numbers: Vec<GroupNumber> = groups.keys().copied().collect();
        let mut floors = Floors::default();
        assert_eq!(floors.lowest(SUBJECT, &numbers, &groups), Some(0));
        for _ in 0..10 {
            let done = &mut groups.get_mut(&GroupNumber(500)).unwrap().done;
            done.insert_range(done.below(), done.below() + 1);
            floors.lowest(SUBJECT, &numbers, &groups);
        }
        // The note of this group is not updated before the floors of the groups before it rise.
        assert!(floors.subjects[&SUBJECT].contains(&(0, GroupNumber(500))));
    }
}
