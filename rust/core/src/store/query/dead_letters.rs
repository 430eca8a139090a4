//! Dead letters, and the reasons for which messages became dead letters. A dead letter is an entry of its group's
//! dead-letter subject. Only the fact that made it has the reason. The log is therefore kept from that fact on as long
//! as the dead letter is kept ([`crate::store::checkpoint::work`]), and the reason is read from the log.

use std::collections::{BTreeMap, BTreeSet};

use super::log_lookup::{KeptLog, visit_facts};
use crate::dispatch_log::FrozenReady;
use crate::error::Result;
use crate::record::retry::Retry;
use crate::record::{Fact, decode};
use crate::store::names::subject_names::{dead_letter_subject, holds_dead_letters};
use crate::store::owner::Owner;
use crate::store::state::State;
use crate::units::{GroupNumber, ReadyNumber, SegmentNumber, Sequence, SubjectNumber};

/// Where the dead letters of a group are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeadLetterQueue {
    /// The dead-letter subject.
    pub subject: SubjectNumber,
    /// The group there.
    pub group: GroupNumber,
}

/// The reason of a dead letter that a QMQ consumer sent there itself.
pub const SENT_BY_CONSUMER: &str = "sent there by its consumer";

/// The reasons that were found, by the sequence of the dead letter.
pub type DeadLetterReasons = BTreeMap<Sequence, String>;

/// The log as of one moment, to be read while the owner goes on.
#[derive(Clone)]
pub struct LogReading {
    log: KeptLog,
}

impl LogReading {
    /// Returns the reasons of these dead letters. A dead letter whose fact cannot be read is left out. Slow.
    ///
    /// # Errors
    /// Those of the storage, and `Corrupt` if the log is damaged on the way.
    pub fn reasons(&self, wanted: &BTreeSet<Sequence>) -> Result<DeadLetterReasons> {
        let mut reasons = BTreeMap::new();
        visit_facts(&self.log, wanted, &mut |_, record| {
            if !record.payload_is_whole() {
                return;
            }
            let reason = match decode(record) {
                Some(Fact::Retry(Retry { destination, .. })) => destination.reason(),
                // A QMQ client makes a dead letter by sending the message to the dead-letter subject.
                Some(Fact::Message(_)) => Some(SENT_BY_CONSUMER),
                _ => None,
            };
            if let Some(reason) = reason {
                reasons.insert(record.sequence, reason.to_owned());
            }
        })?;
        Ok(reasons)
    }
}

impl State {
    /// Returns where a group's dead letters are. `None` if it never had one.
    pub fn dead_letter_queue(&self, subject: &str, group: &str) -> Option<DeadLetterQueue> {
        let subject = self.subjects.number(&dead_letter_subject(subject, group))?;
        Some(DeadLetterQueue { subject, group: self.group_named(subject, group)? })
    }

    /// Returns the numbers from `first` on that a group has not finished, ascending, at most `limit`.
    pub fn unfinished_numbers(&self, group: GroupNumber, first: ReadyNumber, limit: usize) -> Vec<ReadyNumber> {
        let Some(group) = self.groups.get(&group) else { return Vec::new() };
        let next = self.dispatch.next_number(group.subject);
        let gaps = group.done.gaps(first.0, next.0);
        gaps.into_iter().flat_map(|(first, end)| first..end).map(ReadyNumber).take(limit).collect()
    }
}

impl Owner {
    /// The log as of now.
    pub fn log_reading(&self) -> LogReading {
        LogReading { log: KeptLog::of(&self.effects.storage, &self.state) }
    }
}

/// Returns the segments that have the reasons of dead letters that are about to be written to a run. They are kept as
/// long as the run, since a dead letter is listed with its reason.
pub(in crate::store) fn segments_of_reasons(state: &State, ready: &[FrozenReady]) -> BTreeSet<SegmentNumber> {
    let is_dead = |subject| state.subjects.get(subject).is_some_and(|subject| holds_dead_letters(&subject.name));
    let dead = ready.iter().filter(|ready| is_dead(ready.subject)).flat_map(|ready| ready.entries.iter());
    dead.filter_map(|entry| state.segment_of(entry.sequence())).collect()
}
