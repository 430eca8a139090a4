//! The number of pending entries of each subject, kept without reading entries (for minutes see [`super::forecast`]).
//! Part of the state: a checkpoint has the counts, and the facts after it change them. `apply::pending_changes` raises
//! and lowers them.

use std::collections::BTreeMap;

use crate::dispatch_log::BySubject;
use crate::units::SubjectNumber;

/// The pending counts: see the module.
#[derive(Clone, Debug, Default)]
pub(in crate::store) struct PendingCounts {
    by_subject: BySubject<u64>,
    /// True if the counts are unknown and must be made by a scan.
    is_stale: bool,
}

impl PendingCounts {
    /// The number of pending entries of a subject.
    #[inline]
    pub(in crate::store) fn get(&self, subject: SubjectNumber) -> u64 {
        self.by_subject.get(subject).copied().unwrap_or_default()
    }

    /// Restores a count from a checkpoint.
    pub(in crate::store) fn restore(&mut self, subject: SubjectNumber, count: u64) {
        self.by_subject.admit(subject);
        if let Some(known) = self.by_subject.get_mut(subject) {
            *known = count;
        }
    }

    /// Counts an entry that became pending.
    #[inline]
    pub(in crate::store) fn raise(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_add(1);
        } else {
            self.restore(subject, 1);
        }
    }

    /// Counts `count` entries that became pending.
    pub(in crate::store) fn raise_by(&mut self, subject: SubjectNumber, count: u64) {
        self.restore(subject, self.get(subject).saturating_add(count));
    }

    /// Subtracts an entry that is no longer pending.
    #[inline]
    pub(in crate::store) fn lower(&mut self, subject: SubjectNumber) {
        if let Some(count) = self.by_subject.get_mut(subject) {
            *count = count.saturating_sub(1);
        }
    }

    /// Makes the counts unknown, for a caller that does not need them, so that no entries are looked up.
    pub(in crate::store) fn forget(&mut self) {
        self.is_stale = true;
    }

    /// True if the counts are known.
    pub(in crate::store) fn are_known(&self) -> bool {
        !self.is_stale
    }

    /// All subjects with pending entries.
    pub(super) fn to_map(&self) -> BTreeMap<SubjectNumber, u64> {
        self.by_subject.iter().filter(|(_, count)| **count > 0).map(|(subject, count)| (subject, *count)).collect()
    }
}
