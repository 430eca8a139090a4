//! Subjects whose messages somebody reads by their numbers, for no group's account. The newest of each
//! are kept here, so that who keeps up misses none that groups have finished meanwhile. Never saved.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};

use crate::dispatch_log::Posting;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::store::query::ready_cursor::ReadyLoad;
use crate::units::{ReadyNumber, SubjectNumber};

/// Messages that are kept for a followed subject, at most.
const NEWEST_MAX: usize = 4_096;
/// Messages that are kept in all, but for one of each subject.
const KEPT_MAX: usize = 1 << 18;

#[derive(Debug)]
struct Newest {
    /// The subject is followed for as long as somebody has this.
    follower: Weak<()>,
    entries: VecDeque<(ReadyNumber, Entry)>,
    is_woken: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(in crate::store) struct Followed {
    subjects: BTreeMap<SubjectNumber, Newest>,
    kept: usize,
}

impl Followed {
    /// A message has become ready under this number.
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

/// What a followed subject has from a number on.
#[derive(Debug)]
pub enum ReadFollowed {
    /// Messages with neighbouring numbers, by number.
    Entries(Vec<(ReadyNumber, Entry)>),
    /// Messages that lie in a run: read them, with nobody waiting.
    Load(ReadyLoad),
    /// None yet.
    Nothing {
        /// The number that the next one will have.
        next: ReadyNumber,
    },
    /// What was asked for is not kept any more.
    BelowFloor {
        /// The first number that is.
        floor: ReadyNumber,
    },
}

impl Owner {
    /// From now on the subject is followed, for as long as somebody has the follower; the number that
    /// its next message will have.
    pub fn follow(&mut self, subject: SubjectNumber, follower: &Arc<()>) -> ReadyNumber {
        let subjects = &mut self.effects.followed.subjects;
        subjects.retain(|_, newest| newest.follower.strong_count() > 0);
        let kept = subjects.values().map(|newest| newest.entries.len()).sum();
        let new = Newest { follower: Arc::downgrade(follower), entries: VecDeque::new(), is_woken: false };
        subjects.entry(subject).or_insert(new);
        self.effects.followed.kept = kept;
        self.state.dispatch.next_number(subject)
    }

    /// Followed subjects that have got something since the last call.
    pub fn take_woken_subjects(&mut self) -> Vec<SubjectNumber> {
        let subjects = self.effects.followed.subjects.iter_mut();
        subjects.filter_map(|(subject, newest)| std::mem::take(&mut newest.is_woken).then_some(*subject)).collect()
    }

    /// Messages of a followed subject from a number on, up to `count_max`.
    pub fn read_followed(&self, subject: SubjectNumber, from: ReadyNumber, count_max: usize) -> ReadFollowed {
        let dispatch = &self.state.dispatch;
        let next = dispatch.next_number(subject);
        if from >= next || count_max == 0 {
            return ReadFollowed::Nothing { next };
        }
        let newest = self.effects.followed.subjects.get(&subject).map(|newest| &newest.entries);
        let kept_from = newest.and_then(|newest| newest.front()).map_or(next, |(first, _)| *first);
        if from >= kept_from {
            let skipped = usize::try_from(from.since(kept_from)).unwrap_or(usize::MAX);
            let entries = newest.into_iter().flatten().skip(skipped).take(count_max).copied();
            return ReadFollowed::Entries(entries.collect());
        }
        let finished_below = dispatch.finished_below(subject);
        if from < finished_below {
            return ReadFollowed::BelowFloor { floor: finished_below.min(kept_from) };
        }
        let (mut entries, mut number) = (Vec::new(), from);
        while number < next && entries.len() < count_max {
            match dispatch.posting(subject, number) {
                Posting::Entry(entry) => entries.push((number, entry)),
                Posting::InRun { run, count } if entries.is_empty() => {
                    let count = count.min(count_max as u64);
                    return ReadFollowed::Load(ReadyLoad::new(subject, number, run, count));
                }
                Posting::InRun { .. } | Posting::Gone => break,
            }
            number = number.next();
        }
        if entries.is_empty() {
            return ReadFollowed::BelowFloor { floor: number.next() };
        }
        ReadFollowed::Entries(entries)
    }
}

#[cfg(test)]
mod tests {
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
