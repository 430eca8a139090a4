//! Subjects that a reader reads by ready numbers, for no group. The newest messages of each are kept in memory, so that
//! a reader that keeps up misses no message that groups have finished in the meantime. Never saved.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Weak;

use crate::schedule_log::Entry;
use crate::units::{ReadyNumber, SubjectNumber};

/// The maximum number of messages kept for one followed subject.
const NEWEST_MAX: usize = 4_096;
/// The maximum number of messages kept in total, except that each subject may always keep one.
const KEPT_MAX: usize = 1 << 18;

#[derive(Debug)]
pub(in crate::store) struct Newest {
    /// The subject is followed while a strong reference to this exists.
    pub(in crate::store) follower: Weak<()>,
    pub(in crate::store) entries: VecDeque<(ReadyNumber, Entry)>,
    pub(in crate::store) is_woken: bool,
}

/// The followed subjects: see the module.
#[derive(Debug, Default)]
pub(in crate::store) struct Followed {
    pub(in crate::store) subjects: BTreeMap<SubjectNumber, Newest>,
    pub(in crate::store) kept: usize,
}

impl Followed {
    /// Notes that a message has become ready with this number.
    pub(in crate::store) fn note(&mut self, number: ReadyNumber, entry: Entry) {
        if self.subjects.is_empty() {
            return;
        }
        let Some(newest) = self.subjects.get_mut(&entry.subject()) else { return };
        if newest.follower.strong_count() == 0 {
            self.kept = self.kept.saturating_sub(newest.entries.len());
            self.subjects.remove(&entry.subject());
            return;
        }
        let is_full = newest.entries.len() >= NEWEST_MAX || self.kept >= KEPT_MAX;
        if !is_full || newest.entries.pop_front().is_none() {
            self.kept = self.kept.saturating_add(1);
        }
        newest.entries.push_back((number, entry));
        newest.is_woken = true;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::units::{DueKey, Location, Millis, Sequence};

    fn entry(subject: u32) -> Entry {
        let key = DueKey { due: Millis(1), sequence: Sequence(1) };
        Entry::new(key, 1, Sequence(1), Location::NOWHERE, SubjectNumber(subject))
    }

    fn follow(followed: &mut Followed, subject: u32) -> Arc<()> {
        let follower = Arc::new(());
        let newest = Newest { follower: Arc::downgrade(&follower), entries: VecDeque::new(), is_woken: false };
        followed.subjects.insert(SubjectNumber(subject), newest);
        follower
    }

    #[test]
    fn the_newest_are_kept_for_each_subject_and_in_all() {
        let mut followed = Followed::default();
        let followers: Vec<_> = (0..66).map(|subject| follow(&mut followed, subject)).collect();
        for number in 0..5_000 {
            (0..66).for_each(|subject| followed.note(ReadyNumber(number), entry(subject)));
        }
        followed.note(ReadyNumber(0), entry(100));
        let counted: usize = followed.subjects.values().map(|newest| newest.entries.len()).sum();
        assert_eq!((counted, followed.kept), (KEPT_MAX, KEPT_MAX));
        assert!(followed.subjects.values().all(|newest| newest.entries.len() <= NEWEST_MAX));
        let last = followed.subjects.values().map(|newest| newest.entries.back().map(|(number, _)| number.0));
        assert!(last.into_iter().all(|last| last == Some(4_999)), "those are the newest");
        drop(followers);
        (0..66).for_each(|subject| followed.note(ReadyNumber(5_000), entry(subject)));
        assert_eq!((followed.subjects.len(), followed.kept), (0, 0), "nobody follows any more");
    }
}
