//! Producers that publish with terms: one message for each key, and no message twice.

use std::collections::BTreeMap;

use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Sequence;

use super::{Kept, World};
use crate::checker::Entry;
use crate::node::{Due, NewMessage, NewTerms};

/// A subject, and a name in it.
pub(super) type Key = (String, String);

/// A batch on terms, as its producer has it.
#[derive(Clone)]
struct Batch {
    subject: String,
    messages: Vec<(Due, Vec<u8>, NewTerms)>,
}

/// A message whose answer is not known.
struct Awaited {
    receipt: Receipt,
    key: Option<Key>,
}

/// What producers know of keys and ids.
#[derive(Default)]
pub(super) struct Keyed {
    /// Messages by the answer that is waited for.
    awaited: BTreeMap<Sequence, Awaited>,
    /// The messages of each batch.
    batches: BTreeMap<Sequence, Vec<Sequence>>,
    /// All that was stored under a key, in order.
    pub(super) holders: BTreeMap<Key, Vec<Sequence>>,
    /// A batch that is published once more, as who has not heard the answer does.
    again: Option<Batch>,
}

impl Keyed {
    /// The log goes on at `first`.
    pub(super) fn reopened(&mut self, first: Sequence) {
        self.awaited.retain(|sequence, _| *sequence < first);
        self.batches.retain(|sequence, _| *sequence < first);
        self.holders.values_mut().for_each(|held| held.retain(|sequence| *sequence < first));
    }

    /// A message was moved, and its key with it.
    pub(super) fn moved(&mut self, from: Sequence, to: Sequence) {
        for held in self.holders.values_mut().filter(|held| held.last() == Some(&from)) {
            held.push(to);
        }
    }
}

impl World {
    fn new_batch(&mut self) -> Batch {
        let subject = Self::subject_name(self.chance.below(self.plan.subjects));
        let count = self.chance.one_of(&[1, 1, 1, 2, 3]);
        let mut messages = Vec::new();
        for _ in 0..count {
            let key = self.chance.percent(70).then(|| format!("key-{}", self.chance.below(4)));
            let id = self.chance.percent(50).then(|| format!("id-{}", self.chance.below(6)));
            let if_exists = match self.chance.below(4) {
                0 => IfExists::Keep,
                1 => IfExists::Refuse,
                _ => IfExists::Replace,
            };
            messages.push((self.due(), self.short_body(), NewTerms { key, if_exists, id }));
        }
        Batch { subject, messages }
    }

    /// Publishes a few messages of one subject on terms, or the same ones once more.
    pub(super) fn publish_on_terms(&mut self) {
        let again = self.keyed.again.take().filter(|_| self.chance.percent(60));
        let batch = match again {
            Some(batch) => batch,
            None => self.new_batch(),
        };
        let limits = TermsLimits {
            keys_max: u32::try_from(self.chance.one_of(&[2, 5, 1_000])).unwrap_or(1),
            ids_max: u32::try_from(self.chance.one_of(&[2, 5, 1_000])).unwrap_or(1),
            id_window_ms: self.plan.id_window_ms,
        };
        let new = batch.messages.iter().map(|(due, body, terms)| {
            let message = NewMessage { subject: &batch.subject, due: *due, body };
            (message, terms.clone())
        });
        let new: Vec<_> = new.collect();
        let Some(node) = &mut self.node else { return };
        let result = node.publish_on_terms(&new, limits);
        let Some(published) = self.survive("publish on terms", result) else { return };
        let Some(published) = published else { return self.prepare() };
        let messages = published.receipts.iter().map(|receipt| receipt.key.sequence).collect();
        self.keyed.batches.insert(published.terms, messages);
        self.commands.insert(published.terms);
        for (receipt, (_, body, terms)) in published.receipts.iter().zip(&batch.messages) {
            let key = receipt.key;
            self.note(&format!("publish {} in {} due {} on {terms:?}", key.sequence, receipt.subject, key.due));
            let entry: Entry = Self::entry(receipt.subject, key.due, body);
            self.oracle.submitted_on_terms(key.sequence, entry);
            self.dues.insert(key.due);
            let key = terms.key.clone().map(|name| (batch.subject.clone(), name));
            self.keyed.awaited.insert(receipt.key.sequence, Awaited { receipt: *receipt, key });
            self.commands.insert(receipt.key.sequence);
        }
        if self.chance.percent(40) {
            self.keyed.again = Some(batch);
        }
    }

    /// True where it was an answer to a publish on terms.
    pub(super) fn key_answered(&mut self, command: Sequence, outcome: Outcome) -> bool {
        if let Some(messages) = self.keyed.batches.remove(&command) {
            if outcome != Outcome::Done {
                for message in messages {
                    self.commands.remove(&message);
                    self.keyed.awaited.remove(&message);
                    self.oracle.was_not_stored(message);
                }
            }
            return true;
        }
        let Some(Awaited { receipt, key }) = self.keyed.awaited.remove(&command) else { return false };
        if let Outcome::There(..) = outcome {
            self.oracle.was_not_stored(command);
            return true;
        }
        self.oracle.was_stored(command);
        self.receipts.push(Kept { receipt, is_here: true });
        if let Some(key) = key {
            if let Outcome::Replaced(old) = outcome {
                self.ended_by(command, &key, Some(old.sequence));
            }
            self.keyed.holders.entry(key).or_default().push(command);
        }
        true
    }

    /// What has this key was cancelled by this command.
    pub(super) fn ended_by(&mut self, command: Sequence, key: &Key, told: Option<Sequence>) {
        let holder = self.keyed.holders.get(key).and_then(|held| held.last().copied());
        let Some(holder) = holder.filter(|holder| told.is_none_or(|told| told == *holder)) else {
            return self.oracle.blame(format!("{command} ended {told:?} of {key:?}, which {holder:?} has"));
        };
        self.oracle.cancel_submitted(command, holder);
        self.oracle.cancel_answered(command, Outcome::Done);
    }
}
