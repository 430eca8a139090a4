//! Keys and ids in plain lists. The fates of messages say which message has a key. No entry is ever removed.

use std::collections::BTreeSet;

use delaymq_core::record::command::Move;
use delaymq_core::record::message::Message;
use delaymq_core::record::terms::{ByKey, IfExists, KeyCommand, NameHash, Terms};
use delaymq_core::store::{DispatchedKeys, Keys, Outcome};
use delaymq_core::units::{DueKey, Sequence};

use super::parts::{Came, Known};
use super::{Beginning, Fate, Ledger, Time};

impl Ledger {
    fn holder(&self, key: NameHash) -> Option<Came> {
        let mut keyed = self.names.keyed.iter().rev().filter(|(other, _)| *other == key);
        let last = keyed.next().map(|(_, came)| *came)?;
        self.is_waiting(last.due.sequence).then_some(last)
    }

    pub(super) fn cancel_waiting(&mut self, sequence: Sequence) -> bool {
        let waiting = self.lines.get_mut(&sequence).filter(|line| line.fate == Fate::Waiting);
        waiting.map(|line| line.fate = Fate::Cancelled).is_some()
    }

    fn is_waiting(&self, sequence: Sequence) -> bool {
        self.lines.get(&sequence).is_some_and(|line| line.fate == Fate::Waiting)
    }

    fn keys(&self) -> Vec<(NameHash, Came)> {
        let keyed = self.names.keyed.iter().filter(|(_, came)| self.is_waiting(came.due.sequence));
        keyed.copied().collect()
    }

    pub(super) fn take_terms(&mut self, at: Sequence, terms: &Terms<'_>) {
        self.names.limits = terms.limits;
        self.names.standing = (1..=u64::from(terms.messages)).map(|place| (at.plus(place), None)).collect();
        let (mut keys, mut ids, mut refused) = (0, 0, None);
        for row in terms.rows() {
            self.names.standing.insert(at.plus(u64::from(row.place) + 1), Some(row));
            if row.id.is_some_and(|id| self.names.known(id).is_some()) {
                continue;
            }
            match row.key.map(|key| self.holder(key)) {
                Some(Some(held)) if row.if_exists == IfExists::Refuse => {
                    refused = refused.or(Some(Outcome::KeyTaken(row.place, held.due)));
                }
                Some(None) => keys += 1,
                _ => {}
            }
            ids += usize::from(row.id.is_some());
        }
        let limits = terms.limits;
        let keys_full = keys > 0 && self.keys().len() + keys > limits.keys_max as usize;
        let ids_full = ids > 0 && self.names.count() + ids > limits.ids_max as usize;
        let full = keys_full.then_some(Outcome::KeysFull(limits.keys_max));
        let full = full.or_else(|| ids_full.then_some(Outcome::IdsFull(limits.ids_max)));
        let outcome = refused.or(full).unwrap_or(Outcome::Done);
        self.names.is_refused = outcome != Outcome::Done;
        self.commands.insert(at, outcome);
    }

    pub(super) fn publish(&mut self, at: Sequence, time: Time, message: &Message<'_>) {
        let is_due = time.is_some_and(|now| message.due <= now);
        let size = u32::try_from(message.body.len()).unwrap_or(u32::MAX);
        let begins = Beginning { subject: message.subject, attempt: 1, due: message.due, size };
        let standing = self.names.standing.get(&at).copied();
        if standing.is_some() && self.names.is_refused {
            return;
        }
        if let Some(is_owed) = self.is_owed(at, message.due, message.subject) {
            self.commands.insert(at, if is_owed { Outcome::Done } else { Outcome::NotFound });
            if is_owed {
                self.begin(at, begins, is_due);
            }
            return;
        }
        let Some(Some(terms)) = standing else { return self.begin(at, begins, is_due) };
        let due = DueKey { due: message.due, sequence: at };
        let came = Came { due, subject: message.subject, size };
        let repeated = terms.id.and_then(|id| self.names.known(id));
        let held = terms.key.and_then(|key| self.holder(key));
        let there = repeated.or(held.filter(|_| terms.if_exists != IfExists::Replace));
        if let (Some(id), None) = (terms.id, repeated) {
            let until = self.names.now.plus(self.names.limits.id_window_ms);
            self.names.ids.push((id, Known { message: there.unwrap_or(came), until }));
        }
        let outcome = match (there, held) {
            (Some(there), _) => Outcome::There(there.due, there.size),
            (None, Some(held)) => {
                self.cancel_waiting(held.due.sequence);
                Outcome::Replaced(held.due)
            }
            (None, None) => Outcome::Done,
        };
        self.commands.insert(at, outcome);
        if there.is_none() {
            self.names.keyed.extend(terms.key.map(|key| (key, came)));
            if let Some(key) = terms.key {
                self.names.is_taken(key);
            }
            self.begin(at, begins, is_due);
        }
    }

    /// `None` if the command is not judged, since there is no room for more ids.
    pub(super) fn ask_by_key(&mut self, at: Sequence, time: Time, asked: &ByKey) -> Option<Outcome> {
        let standing = self.names.standing.get(&at).copied();
        if standing.is_some() && self.names.is_refused {
            return None;
        }
        let id = standing.flatten().and_then(|terms| terms.id);
        let is_move = asked.command != KeyCommand::Cancel;
        if let Some(before) = id.and_then(|id| self.names.known(id)) {
            self.names.known_again.insert(at);
            return Some(match before {
                Came::NOTHING => Outcome::NotFound,
                Came::TOO_LATE => Outcome::AlreadyDispatched,
                before if is_move => Outcome::There(before.due, before.size),
                _ => Outcome::Done,
            });
        }
        let held = self.holder(asked.key);
        let (outcome, came) = match (asked.command, held) {
            (_, None) if self.names.dispatched(asked.key).is_some() => {
                (Outcome::AlreadyDispatched, Some(Came::TOO_LATE))
            }
            (_, None) => (Outcome::NotFound, None),
            (KeyCommand::Cancel, Some(held)) => (self.cancel(held.due.sequence), Some(held)),
            // A move names an entry. It is refused if another entry has the key.
            (KeyCommand::Move { .. }, Some(held))
                if asked.target != Some(held.due) || asked.subject != held.subject =>
            {
                return Some(Outcome::NotFound);
            }
            (KeyCommand::Move { due, delay_ms }, Some(held)) => {
                let Came { due: target, subject, size } = held;
                let outcome = self.move_to(at, time, &Move { target, due, delay_ms, subject, size });
                let moved = matches!(outcome, Outcome::Moved(_));
                (outcome, moved.then_some(Came { due: DueKey { due, sequence: at }, ..held }))
            }
        };
        let until = self.names.now.plus(self.names.limits.id_window_ms);
        let known = Known { message: came.unwrap_or(Came::NOTHING), until };
        self.names.ids.extend(id.map(|id| (id, known)));
        Some(outcome)
    }

    /// True if this command got the outcome of an earlier one under its id and did nothing else.
    pub(crate) fn is_known_again(&self, command: Sequence) -> bool {
        self.names.known_again.contains(&command)
    }

    /// A message was moved: it keeps its key under its new sequence.
    pub(super) fn key_goes_along(&mut self, from: Sequence, to: DueKey) {
        let keyed = self.names.keyed.iter().find(|(_, came)| came.due.sequence == from).copied();
        self.names.keyed.extend(keyed.map(|(key, came)| (key, Came { due: to, ..came })));
    }

    /// The differences of the keys of messages that became ready lately.
    pub(super) fn compare_dispatched_keys(&self, theirs: &DispatchedKeys, found: &mut Vec<String>) {
        let keys: BTreeSet<NameHash> = self.names.keyed.iter().map(|(key, _)| *key).collect();
        for key in keys {
            let ours = self.names.dispatched(key).map(|came| (came.due, came.subject, came.size));
            let is = theirs.get(key, self.names.now).map(|named| (named.key, named.subject, named.size));
            if is != ours {
                found.push(format!("dispatched under key {key:?}: ledger {ours:?}, store {is:?}"));
            }
        }
    }

    /// The differences of the keys of pending messages.
    pub(super) fn compare_keys(&self, theirs: &Keys, found: &mut Vec<String>) {
        let ours = self.keys();
        if ours.len() != theirs.len() {
            found.push(format!("keys: ledger {}, store {}", ours.len(), theirs.len()));
        }
        for (key, came) in ours {
            let is = theirs.get(key).map(|named| (named.key, named.subject, named.size));
            if is != Some((came.due, came.subject, came.size)) {
                found.push(format!("key {key:?}: ledger {came:?}, store {is:?}"));
            }
        }
    }
}
