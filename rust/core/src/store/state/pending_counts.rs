//! How many entries of each subject are pending, and how much in each minute (see [`super::forecast`]), without
//! looking at any of them. Part of the state: a checkpoint has the counts, and the facts behind it go on from there.
//! `apply::pending_changes` raises and lowers them.

use std::collections::BTreeMap;

use crate::dispatch_log::BySubject;
use crate::units::SubjectNumber;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct PendingCounts {
    by_subject: BySubject<u64>,
    /// True where the counts are not known, and must be taken from a scan.
    is_stale: bool,
}

impl PendingCounts {
    /// How many are pending.
    #[inline]
    pub(in crate::store) fn get(&self, subject: SubjectNumber) -> u64 {
        self.by_subject.get(subject).copied().unwrap_or_default()
    }

    /// Takes over what a checkpoint says.
    pub(in crate::store) fn restore(&mut self, subject: SubjectNumber, count: u64) {
        self.by_subject.admit(subject);
        if let Some(known) = self.by_subject.get_mut(subject) {
            *known = count;
        }
    }

    /// An entry came to be pending.
    #[inline]
    pub(in crate::store) fn raise(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_add(1);
        } else {
            self.restore(subject, 1);
        }
    }

    /// So many entries came to be pending.
    pub(in crate::store) fn raise_by(&mut self, subject: SubjectNumber, count: u64) {
        self.restore(subject, self.get(subject).saturating_add(count));
    }

    /// An entry is pending no more.
    #[inline]
    pub(in crate::store) fn lower(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_sub(1);
        }
    }

    /// From now on nothing is known: for who does not ask, and has no use for looking entries up.
    pub(in crate::store) fn forget(&mut self) {
        self.is_stale = true;
    }

    /// True where the counts are what is pending.
    pub(in crate::store) fn are_known(&self) -> bool {
        !self.is_stale
    }

    /// All subjects of which something is pending.
    pub(super) fn to_map(&self) -> BTreeMap<SubjectNumber, u64> {
        self.by_subject.iter().filter(|(_, count)| **count > 0).map(|(subject, count)| (subject, *count)).collect()
    }
}
