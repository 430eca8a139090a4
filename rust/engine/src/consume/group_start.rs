//! Where groups start: some starts are found by reading the log.

use delaymq_core::error::Result;
use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{GroupStarts, StartAt, StartPlan};
use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::shared::Shared;

impl Shared {
    /// The starts that the facts of new groups of these subjects say. Reads the log without the owner lock where a time
    /// or a receipt is given, once for all subjects, which takes as long as reading a segment in most cases.
    ///
    /// # Errors
    /// `InvalidArgument` naming `start` for a receipt at whose message no group can start, or `receipt` for one that no
    /// store gave out; `Storage`.
    pub(crate) fn starts_of(&self, subjects: &[SubjectNumber], at: StartAt) -> Result<GroupStarts> {
        if subjects.is_empty() {
            return Ok(GroupStarts::default());
        }
        if !matches!(at, StartAt::Earliest | StartAt::Unfinished | StartAt::Latest) {
            // All facts that were accepted before are looked at.
            self.catch_up()?;
        }
        let (now, _) = self.now();
        let mut plan = self.lock_owner()?.get()?.owner.plan_starts(subjects, at, now)?;
        loop {
            match plan {
                StartPlan::Found(starts) => return Ok(starts),
                StartPlan::Read(search) => {
                    let piece = search.read()?;
                    plan = self.lock_owner()?.get()?.owner.go_on_with_start(piece)?;
                }
            }
        }
    }

    /// As [`Self::starts_of`], of one subject.
    pub(crate) fn start_of(&self, subject: SubjectNumber, at: StartAt) -> Result<GroupStart> {
        Ok(self.starts_of(&[subject], at)?.of(subject))
    }

    /// The same for the reset of a group. One that does not exist keeps what is not finished.
    pub(crate) fn restart_of(&self, group: GroupNumber, at: StartAt) -> Result<GroupStart> {
        let subject = self.lock_owner()?.get()?.owner.state().groups.get(&group).map(|group| group.subject);
        subject.map_or(Ok(GroupStart::Unfinished), |subject| self.start_of(subject, at))
    }
}
