//! Requests that cancel, move, or store once under an id. Apply decides their outcomes.

use delaymq_core::error::Result;
use delaymq_core::record::meta::MetaView;
use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::Sequence;
use delaymq_core::wire::extension::errors::RemoteError;
use delaymq_core::wire::extension::moves::{Moved, put_moved};
use delaymq_core::wire::extension::publish::{Cancelled, DueTime, put_outcomes, put_receipts};
use delaymq_core::wire::extension::terms::PublishOnTerms;

use super::Server;
use super::steps::{Asker, KeptOnce, Step, due_of, unexpected};
use crate::node::{NewMessage, NewTerms, Node};

/// More ids than a history has, remembered for longer than it lasts: histories of a store forget ids.
const LIMITS: TermsLimits = TermsLimits { keys_max: 1_000, ids_max: 100_000, id_window_ms: 86_400_000 };

impl Server {
    pub(super) fn cancel(&mut self, node: &mut Node, asker: Asker, receipts: &[Receipt]) -> Result<()> {
        let [receipt] = receipts else {
            return self.unsupported(asker, "these histories cancel one message at a time");
        };
        match node.may_be_here(receipt) {
            Ok(true) => self.promise(node, asker, Step::Cancel(*receipt)),
            Ok(false) => self.answer(asker, |out| put_outcomes(out, &[Cancelled::NotFound])),
            Err(error) => self.refuse(asker, &RemoteError::from(&error)),
        }
    }

    pub(super) fn move_one(&mut self, node: &mut Node, asker: Asker, moves: &[(Receipt, DueTime)]) -> Result<()> {
        let [(receipt, due)] = moves else {
            return self.unsupported(asker, "these histories move one message at a time");
        };
        match node.may_be_here(receipt) {
            Ok(true) => self.promise(node, asker, Step::Move(*receipt, due_of(*due))),
            Ok(false) => self.answer(asker, |out| put_moved(out, &[Moved::NotFound])),
            Err(error) => self.refuse(asker, &RemoteError::from(&error)),
        }
    }

    pub(super) fn publish_once(&mut self, node: &mut Node, asker: Asker, asked: &PublishOnTerms<'_>) -> Result<()> {
        let mut messages = Vec::with_capacity(asked.publish.messages.len());
        for (message, terms) in asked.publish.messages.iter().zip(&asked.terms) {
            if let Err(error) = message.check() {
                return self.refuse(asker, &RemoteError::from(&error));
            }
            if let (Some(meta), true) = (MetaView::read(message.meta), terms.deduplicates) {
                let (due, id) = (due_of(message.due), meta.message_id().to_owned());
                messages.push(KeptOnce { due, meta: message.meta.to_vec(), body: message.body.to_vec(), id });
            }
        }
        let subject = asked.publish.messages.first().map(|first| first.subject.to_owned()).unwrap_or_default();
        let is_one_subject = asked.publish.messages.iter().all(|message| message.subject == subject);
        if messages.len() != asked.publish.messages.len() || !is_one_subject {
            let words = "these histories have ids for all messages of a batch, which is of one subject";
            return self.unsupported(asker, words);
        }
        self.promise(node, asker, Step::StoreOnce(subject, messages))
    }

    pub(super) fn keep_cancel(&mut self, node: &mut Node, asker: Asker, command: Sequence) -> Result<Option<Step>> {
        let outcome = match node.take_outcome(command) {
            None => return Ok(Some(Step::Cancelling(command))),
            Some(Outcome::Done) => Cancelled::Done,
            Some(Outcome::AlreadyDispatched) => Cancelled::AlreadyDispatched,
            Some(Outcome::NotFound) => Cancelled::NotFound,
            Some(other) => return Err(unexpected(other)),
        };
        self.answer(asker, |out| put_outcomes(out, &[outcome])).map(|()| None)
    }

    pub(super) fn keep_move(
        &mut self,
        node: &mut Node,
        asker: Asker,
        receipt: Receipt,
        command: Sequence,
    ) -> Result<Option<Step>> {
        let moved = match node.take_outcome(command) {
            None => return Ok(Some(Step::Moving(receipt, command))),
            Some(outcome @ Outcome::Moved(key)) => {
                let new = node.receipt_of(key, receipt.subject, receipt.size);
                Moved::Done(new.ok_or_else(|| unexpected(outcome))?)
            }
            Some(Outcome::AlreadyDispatched) => Moved::AlreadyDispatched,
            Some(Outcome::NotFound) => Moved::NotFound,
            Some(other) => return Err(unexpected(other)),
        };
        self.answer(asker, |out| put_moved(out, &[moved])).map(|()| None)
    }

    pub(super) fn keep_stored_once(
        &mut self,
        node: &mut Node,
        asker: Asker,
        terms: Sequence,
        receipts: Vec<Receipt>,
    ) -> Result<Option<Step>> {
        match node.take_outcome(terms) {
            None => Ok(Some(Step::StoringOnce(terms, receipts))),
            Some(Outcome::Done) => {
                let told: Result<Vec<Receipt>> = receipts.into_iter().map(|receipt| stored(node, receipt)).collect();
                let told = told?;
                self.answer(asker, |out| put_receipts(out, told.into_iter())).map(|()| None)
            }
            Some(other) => Err(unexpected(other)),
        }
    }
}

pub(super) fn store_once(node: &mut Node, subject: String, messages: Vec<KeptOnce>) -> Result<Step> {
    let new = messages.iter().map(|one| {
        let message = NewMessage { subject: &subject, due: one.due, body: &one.body, expires: None, meta: &one.meta };
        let terms = NewTerms { key: None, if_exists: IfExists::Replace, id: Some(one.id.clone()) };
        (message, terms)
    });
    let published = node.publish_on_terms(&new.collect::<Vec<_>>(), LIMITS)?;
    Ok(match published {
        Some(published) => Step::StoringOnce(published.terms, published.receipts),
        None => Step::StoreOnce(subject, messages),
    })
}

/// The receipt of a message that was stored, or of the message that was stored before under its id.
fn stored(node: &mut Node, receipt: Receipt) -> Result<Receipt> {
    match node.take_outcome(receipt.key.sequence) {
        Some(Outcome::Done) => Ok(receipt),
        Some(outcome @ Outcome::There(key, size)) => {
            node.receipt_of(key, receipt.subject, size).ok_or_else(|| unexpected(outcome))
        }
        other => Err(unexpected(other.unwrap_or(Outcome::NotFound))),
    }
}
