//! Facts after the first lost one. Their messages are kept, since it is unknown which of them were finished. A cancel
//! or a move is trusted if it came before its message was due.

use std::collections::{BTreeMap, BTreeSet};

use super::loads::LateLoads;
use super::series::LateSeries;
use crate::record::attach::Attach;
use crate::record::terms::{ByKey, KeyCommand};
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::{DUE_MAX, Entry};
use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// The content of the facts after the first lost one.
#[derive(Debug, Default)]
pub(in crate::store) struct Late {
    /// Messages, by sequence.
    pub(in crate::store) messages: BTreeMap<Sequence, Entry>,
    /// Entries that were certainly cancelled.
    pub(in crate::store) cancelled: BTreeSet<Sequence>,
    /// Entries that were certainly moved, if they were still pending, and their new keys.
    pub(in crate::store) moved: BTreeMap<Sequence, DueKey>,
    /// Subjects that were named.
    pub(in crate::store) names: BTreeMap<SubjectNumber, String>,
    /// Groups that began.
    pub(in crate::store) groups: BTreeSet<(SubjectNumber, String)>,
    /// The beginnings, occurrences and ends of series.
    pub(in crate::store) series: LateSeries,
    /// Runs that were loaded.
    pub(in crate::store) loads: LateLoads,
}

impl Late {
    /// Adds one record.
    pub(in crate::store) fn take(&mut self, record: &RawRecord<'_>, location: Location, trusted: Option<Millis>) {
        let Some(fact) = decode(record) else { return };
        if let Fact::Message(message) = fact {
            let key = DueKey { due: message.due, sequence: record.sequence };
            self.messages.insert(record.sequence, Entry::new(key, 1, record.sequence, location, message.subject));
            return;
        }
        if !record.payload_is_whole() {
            return;
        }
        match fact {
            Fact::Cancel(cancel) if trusted.is_some_and(|trusted| cancel.target.due > trusted) => {
                self.cancelled.insert(cancel.target.sequence);
            }
            // The command cancels its target, which had the key at that time, or what the target was moved to since.
            Fact::ByKey(ByKey { command: KeyCommand::Cancel, target: Some(target), .. })
                if trusted.is_some_and(|trusted| target.due > trusted) =>
            {
                self.cancelled.insert(target.sequence);
            }
            Fact::Subject { number, name } => {
                self.names.insert(number, name.to_owned());
            }
            Fact::Group { subject, name, .. } | Fact::Attach(Attach { subject, group: name, .. }) => {
                self.groups.insert((subject, name.to_owned()));
            }
            Fact::Adopt(adopt) => self.loads.take(record.sequence, trusted, &adopt),
            Fact::Recur(recur) => self.series.recur(record.sequence, &recur),
            Fact::Occurrence(occurrence) => self.series.occurrence(record.sequence, occurrence),
            fact => {
                let moved = fact.as_move();
                if let Some(moved) = moved.filter(|moved| trusted.is_some_and(|trusted| moved.target.due > trusted)) {
                    // Only the first move of an entry counts: it leaves no entry for another move.
                    let key = DueKey { due: moved.due.min(DUE_MAX), sequence: record.sequence };
                    self.moved.entry(moved.target.sequence).or_insert(key);
                }
            }
        }
    }

    /// Follows an entry to its last move; `None` if it was cancelled before or after a move.
    pub(in crate::store) fn followed(&self, entry: Entry) -> Option<Entry> {
        let mut entry = entry;
        loop {
            if self.cancelled.contains(&entry.sequence()) {
                return None;
            }
            match self.moved.get(&entry.sequence()).filter(|key| key.sequence > entry.sequence()) {
                Some(key) => entry = entry.moved_to(*key),
                None => return Some(entry),
            }
        }
    }
}
