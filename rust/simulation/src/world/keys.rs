//! Producers that publish with keys and ids.

use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Sequence;

use super::World;
use super::asked::{Batch, Command, Key};
use crate::node::{NewMessage, NewTerms};

impl World {
    fn new_batch(&mut self) -> Batch {
        let subject = self.some_subject();
        let count = self.chance.one_of(&[1, 1, 1, 2, 3]);
        let mut messages = Vec::new();
        for _ in 0..count {
            let key = self.chance.percent(70).then(|| format!("key-{}", self.chance.below(4)));
            let id = self.chance.percent(50).then(|| format!("id-{}", self.chance.below(6)));
            let if_exists = self.some_if_exists();
            messages.push((self.due(), self.short_body(), NewTerms { key, if_exists, id }));
        }
        Batch { subject, messages }
    }

    pub(super) fn some_if_exists(&mut self) -> IfExists {
        match self.chance.below(4) {
            0 => IfExists::Keep,
            1 => IfExists::Refuse,
            _ => IfExists::Replace,
        }
    }

    /// Publishes messages of one subject on terms, or repeats the last batch.
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
            let message = NewMessage { subject: &batch.subject, due: *due, body, expires: None, meta: b"" };
            (message, terms.clone())
        });
        let new: Vec<_> = new.collect();
        let Some(published) = self.call("publish on terms", |node| node.publish_on_terms(&new, limits)) else { return };
        let Some(published) = published else { return self.prepare() };
        let messages = published.receipts.iter().map(|receipt| receipt.key.sequence).collect();
        self.await_outcome(published.terms, Command::Batch(messages));
        for (receipt, (_, body, terms)) in published.receipts.iter().zip(&batch.messages) {
            let key = receipt.key;
            self.note(&format!("publish {} in {} due {} on {terms:?}", key.sequence, receipt.subject, key.due));
            self.oracle.submitted_on_terms(key.sequence, Self::entry(receipt.subject, key.due, body));
            self.dues.insert(key.due);
            let key = terms.key.clone().map(|name| (batch.subject.clone(), name));
            self.await_outcome(receipt.key.sequence, Command::Publish { receipt: *receipt, key });
        }
        if self.chance.percent(40) {
            self.keyed.again = Some(batch);
        }
    }

    pub(super) fn publish_answered(&mut self, fact: Sequence, receipt: Receipt, key: Option<Key>, outcome: Outcome) {
        if let Outcome::There(..) = outcome {
            return self.oracle.was_not_stored(fact);
        }
        self.oracle.was_stored(fact);
        self.keep(receipt);
        if let Some(key) = key {
            if let Outcome::Replaced(old) = outcome {
                self.ended_by(fact, &key, Some(old.sequence));
            }
            self.keyed.holders.entry(key).or_default().push(fact);
        }
    }

    /// A command has cancelled the message that has this key.
    pub(super) fn ended_by(&mut self, command: Sequence, key: &Key, told: Option<Sequence>) {
        let holder = self.keyed.holders.get(key).and_then(|held| held.last().copied());
        let Some(holder) = holder.filter(|holder| told.is_none_or(|told| told == *holder)) else {
            return self.oracle.blame(format!("{command} ended {told:?} of {key:?}, which {holder:?} has"));
        };
        self.oracle.cancel_submitted(command, holder);
        self.oracle.cancel_answered(command, Outcome::Done);
    }
}
