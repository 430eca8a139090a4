//! The entries that a fact makes ready, as far as the fact alone says it. The state decides whether the fact counts.

use crate::record::retry::{Destination, Retry};
use crate::record::{Fact, RawRecord, decode};
use crate::schedule_log::DUE_MAX;
use crate::store::apply::placement::BatchTime;
use crate::units::{DueKey, Location, Millis, Sequence, SubjectNumber};

/// Where the payload of an entry is, as its fact says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) enum PayloadOf {
    /// In the fact itself: the payload's place, and the bytes of its body.
    Fact(Location, Option<u32>),
    /// The payload is that of the entry itself, which an earlier fact made.
    Entry,
    /// The payload is that of the entry with this key, which was moved.
    Moved(DueKey),
    /// The payload is that of this message.
    Message(Sequence),
}

/// An entry that a fact names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store) struct NamedEntry {
    pub(in crate::store) subject: SubjectNumber,
    pub(in crate::store) key: DueKey,
    pub(in crate::store) attempt: u16,
    pub(in crate::store) payload: PayloadOf,
    /// False if the entry waits for a later fact.
    pub(in crate::store) is_ready: bool,
}

/// Shows the entries of the wanted subjects that a fact makes, or makes ready.
pub(in crate::store) fn each_entry(
    (record, location): (&RawRecord<'_>, Location),
    time: BatchTime,
    is_wanted: impl Fn(SubjectNumber) -> bool,
    show: &mut dyn FnMut(NamedEntry),
) {
    let entry = |subject, due: Millis, attempt, payload, is_at_once| NamedEntry {
        subject,
        key: DueKey { due: due.min(DUE_MAX), sequence: record.sequence },
        attempt,
        payload,
        is_ready: is_at_once || time.is_due(due),
    };
    match decode(record) {
        Some(Fact::Message(message)) if is_wanted(message.subject) => {
            let size = u32::try_from(message.body.len()).ok();
            show(entry(message.subject, message.due, 1, PayloadOf::Fact(location, size), false));
        }
        Some(Fact::Retry(Retry { due, attempt, target, payload_sequence, destination, .. })) if is_wanted(target) => {
            let attempt = u16::try_from(attempt).unwrap_or(u16::MAX);
            let is_at_once = destination != Destination::Again;
            show(entry(target, due, attempt, PayloadOf::Message(payload_sequence), is_at_once));
        }
        Some(Fact::Redrive(redrive)) if is_wanted(redrive.target) => {
            show(entry(redrive.target, redrive.due, 1, PayloadOf::Message(redrive.payload_sequence), false));
        }
        Some(Fact::Ready(list)) => {
            for (key, subject) in list.entries().filter(|(_, of)| is_wanted(*of)) {
                show(NamedEntry { subject, key, attempt: 1, payload: PayloadOf::Entry, is_ready: true });
            }
        }
        fact => {
            if let Some(moved) = fact.and_then(|fact| fact.as_move()).filter(|moved| is_wanted(moved.subject)) {
                show(entry(moved.subject, moved.due, 1, PayloadOf::Moved(moved.target), false));
            }
        }
    }
}
