//! The newest messages of a subject that is followed, by number.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ready_cursor::ReadyLoad;
use crate::dispatch_log::Posting;
use crate::schedule_log::Entry;
use crate::store::owner::Owner;
use crate::store::state::followed::Newest;
use crate::units::{ReadyNumber, SubjectNumber};

/// The messages of a followed subject from a number on.
#[derive(Debug)]
pub enum ReadFollowed {
    /// Messages with neighbouring numbers, by number.
    Entries(Vec<(ReadyNumber, Entry)>),
    /// Messages in a run, to be read while the owner goes on.
    Load(ReadyLoad),
    /// No message yet.
    Nothing {
        /// The number that the next message will have.
        next: ReadyNumber,
    },
    /// The requested messages are not kept any more.
    BelowFloor {
        /// The first number that is kept.
        floor: ReadyNumber,
    },
}

impl Owner {
    /// Follows the subject as long as `follower` is held. Returns the number that its next message will have.
    pub fn follow(&mut self, subject: SubjectNumber, follower: &Arc<()>) -> ReadyNumber {
        let subjects = &mut self.effects.followed.subjects;
        subjects.retain(|_, newest| newest.follower.strong_count() > 0);
        let kept = subjects.values().map(|newest| newest.entries.len()).sum();
        let new = Newest { follower: Arc::downgrade(follower), entries: VecDeque::new(), is_woken: false };
        subjects.entry(subject).or_insert(new);
        self.effects.followed.kept = kept;
        self.state.dispatch.next_number(subject)
    }

    /// Returns the followed subjects that got new messages since the last call.
    pub fn take_woken_subjects(&mut self) -> Vec<SubjectNumber> {
        let subjects = self.effects.followed.subjects.iter_mut();
        subjects.filter_map(|(subject, newest)| std::mem::take(&mut newest.is_woken).then_some(*subject)).collect()
    }

    /// Reads messages of a followed subject from a number on, up to `count_max`.
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
