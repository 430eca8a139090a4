//! Where a group starts: some starts are found by reading the log.

use delaymq_core::error::Result;
use delaymq_core::record::name::GroupStart;
use delaymq_core::store::{StartAt, StartPlan};
use delaymq_core::units::{GroupNumber, SubjectNumber};

use crate::shared::Shared;

/// The group, or the subject of a new group.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StartOf {
    /// That of a new group of the subject.
    Subject(SubjectNumber),
    /// That of an existing group, which is reset.
    Group(GroupNumber),
}

impl Shared {
    /// The start that the fact of a group says. Reads the log without the owner lock where a time or a receipt is
    /// given, which takes as long as reading a segment in most cases.
    ///
    /// # Errors
    /// `InvalidArgument` naming `start` for a receipt at whose message no group can start, or `receipt` for one that no
    /// store gave out; `Storage`.
    pub(crate) fn start_of(&self, of: StartOf, at: StartAt) -> Result<GroupStart> {
        if !matches!(at, StartAt::Earliest | StartAt::Unfinished | StartAt::Latest) {
            // All facts that were accepted before are looked at.
            self.catch_up()?;
        }
        let (now, _) = self.now();
        let mut plan = {
            let mut guard = self.lock_owner()?;
            let owner = &guard.get()?.owner;
            match of {
                StartOf::Subject(subject) => owner.plan_start(subject, at, now)?,
                StartOf::Group(group) => owner.plan_restart(group, at, now)?,
            }
        };
        loop {
            match plan {
                StartPlan::Found(start) => return Ok(start),
                StartPlan::Read(search) => {
                    let piece = search.read()?;
                    plan = self.lock_owner()?.get()?.owner.go_on_with_start(piece)?;
                }
            }
        }
    }
}
