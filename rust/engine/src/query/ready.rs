//! A look at ready messages, without taking them.

use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::store::retry_subject;
use delaymq_core::units::{GroupNumber, Millis, Sequence, SubjectNumber};

use crate::consume::delivery::Payload;
use crate::names::check_name;
use crate::shared::Shared;
use crate::store::Store;

/// A ready message that nobody has taken.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The sequence of the message itself.
    pub sequence: Sequence,
    /// When it was due.
    pub due: Millis,
    /// When it was received.
    pub published: Millis,
    /// The number of the delivery that it waits for, from 1.
    pub attempt: u32,
    /// The subject it was published to.
    pub subject: Arc<str>,
    /// Meta and body.
    pub payload: Payload,
}

impl Store {
    /// The ready messages of a subject, in the order of their delivery, without taking them. For a group: those that
    /// none of its consumers has, retries included. Without a group, or for one that does not exist yet: those that
    /// some group has not finished. Dispatches what is due first.
    ///
    /// # Errors
    /// `InvalidArgument` naming `subject` or `group`; `Poisoned`, `Closed`, `ForkedProcess`; `DamagedPayload`,
    /// `Storage` if a message cannot be read.
    pub fn ready(&self, subject: &str, group: Option<&str>) -> Result<Vec<Ready>> {
        self.shared.check()?;
        check_name("subject", subject)?;
        group.map_or(Ok(()), |group| check_name("group", group))?;
        self.shared.settle()?;
        let entries = self.shared.ready_entries(subject, group)?;
        let mut payloads = self.shared.payloads.reader();
        let read = |(entry, attempt): &(delaymq_core::schedule_log::Entry, u32)| {
            let stored = self.shared.read_whole(&mut payloads, entry, true)?;
            Ok(Ready {
                sequence: entry.payload_sequence(),
                due: entry.due(),
                published: stored.published,
                attempt: *attempt,
                subject: self.shared.names.name_of(stored.subject),
                payload: stored.payload,
            })
        };
        entries.iter().map(read).collect()
    }
}

impl Shared {
    fn ready_entries(
        &self,
        subject: &str,
        group: Option<&str>,
    ) -> Result<Vec<(delaymq_core::schedule_log::Entry, u32)>> {
        let mut guard = self.lock_owner()?;
        let owner = &guard.get()?.owner;
        let state = owner.state();
        let Some(number) = state.subjects.number(subject) else { return Ok(Vec::new()) };
        let of_group = |number: SubjectNumber| -> Option<GroupNumber> { state.group_named(number, group?) };
        let mut found = owner.ready(number, of_group(number))?;
        if let Some(retries) = group.and_then(|group| state.subjects.number(&retry_subject(subject, group)))
            && let Some(group) = of_group(retries)
        {
            found.extend(owner.ready(retries, Some(group))?);
        }
        Ok(found.iter().map(|one| (one.entry, one.attempt)).collect())
    }
}
