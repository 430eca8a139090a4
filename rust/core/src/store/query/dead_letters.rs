//! What is known of dead letters. A dead letter is an entry of its group's dead-letter subject; why
//! it died stands in the fact that made it, and in no other place. So the log is kept from that
//! fact on for as long as the dead letter is ([`crate::store::checkpoint::work`] sees to it), and the reason is
//! read from there.

use std::collections::{BTreeMap, BTreeSet};

use super::log_lookup::{KeptLog, visit_facts};
use crate::dispatch_log::FrozenReady;
use crate::error::Result;
use crate::record::retry::{Destination, Retry};
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

/// The log as it was at one moment, to be read with nobody waiting.
#[derive(Clone)]
pub struct LogReading {
    log: KeptLog,
}

impl LogReading {
    /// Why these dead letters died. One whose fact cannot be read is not among them. Slow.
    ///
    /// # Errors
    /// Those of the storage, and `Corrupt` where the log is damaged on the way.
    pub fn reasons(&self, wanted: &BTreeSet<Sequence>) -> Result<DeadLetterReasons> {
        let mut reasons = BTreeMap::new();
        visit_facts(&self.log, wanted, &mut |_, record| {
            if !record.payload_is_whole() {
                return;
            }
            let reason = match decode(record) {
                Some(Fact::Retry(Retry { destination: Destination::DeadLetter { reason }, .. })) => reason,
                // A QMQ client puts a message away by sending it there.
                Some(Fact::Message(_)) => SENT_BY_CONSUMER,
                _ => return,
            };
            reasons.insert(record.sequence, reason.to_owned());
        })?;
        Ok(reasons)
    }
}

impl State {
    /// Where a group's dead letters are; `None` where it never had one.
    pub fn dead_letter_queue(&self, subject: &str, group: &str) -> Option<DeadLetterQueue> {
        let subject = self.subjects.number(&dead_letter_subject(subject, group))?;
        Some(DeadLetterQueue { subject, group: self.group_named(subject, group)? })
    }

    /// The numbers from `first` on that a group has not finished, ascending, at most `limit`.
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

/// The segments that say why messages died that are about to lie in a run: they are held as long as
/// the run is, since a dead letter is told with its reason.
pub(in crate::store) fn segments_of_reasons(state: &State, ready: &[FrozenReady]) -> BTreeSet<SegmentNumber> {
    let is_dead = |subject| state.subjects.get(subject).is_some_and(|subject| holds_dead_letters(&subject.name));
    let dead = ready.iter().filter(|ready| is_dead(ready.subject)).flat_map(|ready| ready.entries.iter());
    dead.filter_map(|entry| state.segment_of(entry.sequence())).collect()
}
