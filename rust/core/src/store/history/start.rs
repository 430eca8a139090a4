//! Where a user lets a group start, and the number that its fact says.

use crate::record::limits::group_subject;
use crate::record::name::GroupStart;
use crate::store::owner::Owner;
use crate::store::retention::kept_files::first_kept;
use crate::units::{GroupNumber, SubjectNumber};

/// A message that is kept for less than this from now on is not read again: its files may go before the group starts.
const MARGIN_MS: u64 = 100;

/// Where a group starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StartAt {
    /// At the earliest message that is kept, even if all groups have finished it.
    Earliest,
    /// At the first message that some group has not finished.
    #[default]
    Unfinished,
    /// At the next message that becomes ready.
    Latest,
}

impl Owner {
    /// The start that the fact of a group says. Retries and dead letters are never read again: they belong to a group.
    pub fn group_start(&self, subject: SubjectNumber, at: StartAt) -> GroupStart {
        match at {
            StartAt::Unfinished => GroupStart::Unfinished,
            StartAt::Latest => GroupStart::Latest,
            StartAt::Earliest => self.earliest(subject),
        }
    }

    /// The same for the reset of a group; a group that does not exist keeps what is not finished.
    pub fn group_restart(&self, group: GroupNumber, at: StartAt) -> GroupStart {
        let group = self.state.groups.get(&group);
        group.map_or(GroupStart::Unfinished, |group| self.group_start(group.subject, at))
    }

    /// The first message of the first segment that is young enough for the subject.
    fn earliest(&self, subject: SubjectNumber) -> GroupStart {
        let state = &self.state;
        let known = state.subjects.get(subject);
        if known.is_none_or(|known| group_subject(&known.name).is_some()) {
            return GroupStart::Unfinished;
        }
        let keeping = self.keeping_in(MARGIN_MS);
        let first = first_kept(&state.segments, subject, &keeping);
        let finished_below = state.dispatch.finished_below(subject);
        first.filter(|first| *first < finished_below).map_or(GroupStart::Unfinished, GroupStart::Number)
    }
}
