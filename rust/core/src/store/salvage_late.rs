//! Facts behind the first one that is lost. Messages among them are kept, since nobody can say any
//! more which of them were finished; a cancel is believed where it came before its message was due.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::attach::Attach;
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::Entry;
use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Messages, by sequence.
    pub(super) messages: BTreeMap<Sequence, Entry>,
    /// Entries that were certainly cancelled.
    pub(super) cancelled: BTreeSet<Sequence>,
    /// Subjects that were named.
    pub(super) names: BTreeMap<SubjectNumber, String>,
    /// Groups that began.
    pub(super) groups: BTreeSet<(SubjectNumber, String)>,
}

impl Late {
    /// Takes in one record.
    pub(super) fn take(&mut self, record: &RawRecord<'_>, location: Location, trusted: Option<Millis>) {
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
            Fact::Subject { number, name } => {
                self.names.insert(number, name.to_owned());
            }
            Fact::Group { subject, name, .. } | Fact::Attach(Attach { subject, group: name, .. }) => {
                self.groups.insert((subject, name.to_owned()));
            }
            _ => {}
        }
    }
}
