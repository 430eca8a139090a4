//! Administration: groups and subjects are listed and changed, dead letters redriven, messages expired. Apply decides
//! whether a change is allowed.

use delaymq_core::error::{Error, Result};
use delaymq_core::message_log::Class;
use delaymq_core::record::expire::{ExpiredBy, encode_expire};
use delaymq_core::record::name::{GroupEnd, encode_group_end, encode_group_reset};
use delaymq_core::record::queue::{NumberRange, add_to_ranges};
use delaymq_core::store::{GroupListed, Outcome, ReadyPiece, State, SubjectListed, retry_subject};
use delaymq_core::units::{GroupNumber, Millis, SubjectNumber};

use crate::commit::inbox::CommitUrgency;
use crate::commit::submissions::{RegisteredGroup, Registering};
use crate::invalid;
use crate::names::check_name;
use crate::options::StartAt;
use crate::query::report::Report;
use crate::shared::Shared;
use crate::store::Store;

/// The most ranges in one expire fact: 256 KiB of them.
const EXPIRE_RANGES_MAX: usize = 1 << 14;

impl Store {
    /// All groups on subjects of users.
    pub fn groups(&self) -> Result<Vec<GroupListed>> {
        self.look(|state| Ok(state.list_groups()))
    }

    /// All subjects of users.
    pub fn subjects(&self) -> Result<Vec<SubjectListed>> {
        self.look(|state| Ok(state.list_subjects()))
    }

    /// Creates a group without consuming for it, and its subject if that is new. Returns when it is durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `group` if it exists already, or `subject` or `group` for a bad name; `DiskFull`,
    /// `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn start_group(&self, subject: &str, group: &str, start: StartAt) -> Result<()> {
        let shared = self.checked(subject, group)?;
        let retries = shared.names.subject(&retry_subject(subject, group))?;
        let subject_of_group = shared.names.subject(subject)?;
        match shared.register_group(&Registering { subject: subject_of_group, retries }, group, start)? {
            RegisteredGroup { is_new: true, .. } => Ok(()),
            RegisteredGroup { is_new: false, .. } => {
                Err(refused_group("a group that is not there yet", format!("{group:?}, which {subject:?} has")))
            }
        }
    }

    /// Resets a group: it starts again with the earliest kept message, or with the next one. Its retries and dead
    /// letters stay. Returns when it is durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `group` if it does not exist or is consumed; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn reset_group(&self, subject: &str, group: &str, start: StartAt) -> Result<()> {
        let shared = self.checked(subject, group)?;
        let number = self.group_number(subject, group)?;
        let mut records = Vec::new();
        let start = shared.restart_of(number, start)?;
        encode_group_reset(&mut records, number, start);
        judged(shared, &records, subject, group)
    }

    /// Removes a group with its retries and dead letters, which count as finished. Returns when it is durable.
    ///
    /// # Errors
    /// As [`Self::reset_group`].
    pub fn remove_group(&self, subject: &str, group: &str) -> Result<()> {
        let shared = self.checked(subject, group)?;
        let number = self.group_number(subject, group)?;
        let mut records = Vec::new();
        encode_group_end(&mut records, number, GroupEnd::WithItsRetries);
        judged(shared, &records, subject, group)
    }

    /// Expires the ready messages of a subject that were due more than `older_than_ms` ago, if some group has not
    /// finished them and no consumer holds them. Returns how many, when it is durable.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` if it does not exist; `Storage` if a run could not be read, and then nothing
    /// has expired; `Poisoned`, `Closed`, `ForkedProcess`.
    pub fn expire(&self, subject: &str, older_than_ms: u64) -> Result<u64> {
        self.shared.check()?;
        check_name("subject", subject)?;
        let due_before = Millis(self.shared.now().0.0.saturating_sub(older_than_ms));
        let number = self.look(|state| state.subjects.number(subject).ok_or_else(|| unknown_subject(subject)))?;
        let numbers = self.ready_before(number, due_before)?;
        let mut count = 0_u64;
        let ranges_max = self.shared.submission_bytes_max() / (2 * size_of::<NumberRange>());
        for part in numbers.chunks(EXPIRE_RANGES_MAX.min(ranges_max).max(1)) {
            let mut records = Vec::new();
            encode_expire(&mut records, number, ExpiredBy::Operator { due_before }, part);
            if let Some(Some(Outcome::Expired(found))) = self.shared.ask(&records, 1, Class::Finishing, false)?.first()
            {
                count = count.saturating_add(*found);
            }
        }
        if count > 0 {
            self.shared.metrics.expired.add(count);
            self.shared.reports.add(Report::Expired { subject: subject.to_owned(), count, due_before });
        }
        Ok(count)
    }

    /// The ready messages of a subject that were due before this time, as ranges of their numbers. A damaged row is
    /// left to the consumer that pulls it.
    fn ready_before(&self, subject: SubjectNumber, due_before: Millis) -> Result<Vec<NumberRange>> {
        let mut cursor = self.shared.lock_owner()?.get()?.owner.ready_cursor(subject);
        let mut numbers = Vec::new();
        loop {
            let piece = self.shared.lock_owner()?.get()?.owner.look_at_ready(&mut cursor);
            let entries = match piece {
                ReadyPiece::Entries(entries) => entries,
                ReadyPiece::Load(load) => load.read()?.entries,
                ReadyPiece::End => return Ok(numbers),
            };
            let old = entries.into_iter().filter(|(_, entry)| entry.due() < due_before);
            for (number, _) in old {
                add_to_ranges(&mut numbers, number.0);
            }
        }
    }

    /// Calls `look` with the state, after everything before this call is applied, including what consumers have queued.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> Result<T>) -> Result<T> {
        let shared = &self.shared;
        shared.check()?;
        let end = {
            let mut guard = shared.lock_owner()?;
            let locked = guard.get()?;
            shared.propose_settled(locked);
            shared.send(locked, CommitUrgency::URGENT)?;
            shared.with_commits(|commits| commits.next_sequence())
        };
        shared.finish(end)?;
        look(shared.lock_owner()?.get()?.owner.state())
    }

    pub(crate) fn checked(&self, subject: &str, group: &str) -> Result<&Shared> {
        self.shared.check()?;
        check_name("subject", subject)?;
        check_name("group", group)?;
        Ok(&self.shared)
    }

    /// The number of an existing group.
    pub(crate) fn group_number(&self, subject: &str, group: &str) -> Result<GroupNumber> {
        self.look(|state| {
            let number = state.subjects.number(subject).and_then(|number| state.group_named(number, group));
            number.ok_or_else(|| unknown_group(subject, group))
        })
    }
}

/// Submits one change of a group. Returns its result.
fn judged(shared: &Shared, records: &[u8], subject: &str, group: &str) -> Result<()> {
    match shared.ask(records, 1, Class::Finishing, true)?.first().copied().flatten() {
        Some(Outcome::HasConsumers(count)) => {
            let found = format!("{group:?} of {subject:?} with {count} consumers; close their subscriptions first");
            Err(refused_group("a group without consumers", found))
        }
        Some(Outcome::NotFound) => Err(unknown_group(subject, group)),
        _ => Ok(()),
    }
}

pub(crate) fn unknown_group(subject: &str, group: &str) -> Error {
    refused_group("a group of the subject", format!("{group:?}, which {subject:?} does not have"))
}

fn refused_group(expected: &str, found: String) -> Error {
    invalid("group", expected, found)
}

pub(crate) fn unknown_subject(subject: &str) -> Error {
    invalid("subject", "a subject of this store", format!("{subject:?}"))
}
