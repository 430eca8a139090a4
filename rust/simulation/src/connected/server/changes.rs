//! Requests that move messages, or store them once under their ids. Apply decides their outcomes.

use delaymq_core::error::Result;
use delaymq_core::record::meta::MetaView;
use delaymq_core::record::terms::{IfExists, TermsLimits};
use delaymq_core::store::{Outcome, Receipt};
use delaymq_core::units::{DueKey, Sequence};
use delaymq_core::wire::connection::RequestId;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::moves::{Moved, put_moved};
use delaymq_core::wire::extension::publish::{DueTime, put_receipts};
use delaymq_core::wire::extension::terms::PublishOnTerms;

use super::Server;
use super::pending_replies::{Promise, due_of, unexpected};
use crate::connected::account::LinkId;
use crate::connected::unless_full;
use crate::node::{Due, NewMessage, NewTerms, Node};

/// More ids than a history has, remembered for longer than it lasts: what is forgotten is for other histories.
const LIMITS: TermsLimits = TermsLimits { keys_max: 1_000, ids_max: 100_000, id_window_ms: 86_400_000 };

/// A message with an id, kept until the log's queue has room for it.
pub(super) struct KeptOnce {
    due: Due,
    body: Vec<u8>,
    id: String,
}

/// What is on its way.
pub(super) enum Change {
    /// To be moved.
    Move(Receipt, Due),
    /// Told by what applying the command finds.
    Moving(Receipt, Sequence),
    /// Of this subject, to be stored where nothing of their ids is.
    Store(String, Vec<KeptOnce>),
    /// Told by what applying the terms finds, and then each message.
    Storing(Sequence, Vec<Receipt>),
}

impl Change {
    /// True for what is done though its client is gone.
    pub(super) fn is_kept_for_nobody(&self) -> bool {
        matches!(self, Self::Store(..) | Self::Move(..))
    }
}

impl Server {
    pub(super) fn move_one(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        moves: &[(Receipt, DueTime)],
    ) -> Result<()> {
        let now = node.reading().now;
        let [(receipt, due)] = moves else {
            let words = "these histories move one message at a time";
            return self.refuse(link, id, now, &RemoteError::new(ErrorCode::Other, words));
        };
        match node.may_be_here(receipt) {
            Ok(true) => {
                let change = Change::Move(*receipt, due_of(*due));
                self.promises.push_back(Promise::Change { link, id, change });
                self.keep_promises(node)
            }
            Ok(false) => {
                let mut body = Vec::new();
                put_moved(&mut body, &[Moved::NotFound])?;
                self.answer(link, id, now, &body)
            }
            Err(error) => self.refuse(link, id, now, &RemoteError::from(&error)),
        }
    }

    pub(super) fn publish_once(
        &mut self,
        node: &mut Node,
        link: LinkId,
        id: RequestId,
        asked: &PublishOnTerms<'_>,
    ) -> Result<()> {
        let now = node.reading().now;
        let mut messages = Vec::with_capacity(asked.publish.messages.len());
        for (message, terms) in asked.publish.messages.iter().zip(&asked.terms) {
            if let Err(error) = message.check() {
                return self.refuse(link, id, now, &RemoteError::from(&error));
            }
            if let (Some(meta), true) = (MetaView::read(message.meta), terms.deduplicates) {
                let (due, id) = (due_of(message.due), meta.message_id().to_owned());
                messages.push(KeptOnce { due, body: message.body.to_vec(), id });
            }
        }
        let subject = asked.publish.messages.first().map(|first| first.subject.to_owned()).unwrap_or_default();
        let is_one_subject = asked.publish.messages.iter().all(|message| message.subject == subject);
        if messages.len() != asked.publish.messages.len() || !is_one_subject {
            let words = "these histories have ids for all messages of a batch, which is of one subject";
            return self.refuse(link, id, now, &RemoteError::new(ErrorCode::Other, words));
        }
        self.promises.push_back(Promise::Change { link, id, change: Change::Store(subject, messages) });
        self.keep_promises(node)
    }

    /// Takes a change one step further; gives it back where there is more to be done.
    pub(super) fn keep_change(
        &mut self,
        node: &mut Node,
        (link, id): (LinkId, RequestId),
        change: Change,
    ) -> Result<Option<Promise>> {
        let again = |change| Ok(Some(Promise::Change { link, id, change }));
        match change {
            Change::Move(receipt, due) => again(match unless_full(node.move_to(&receipt, due))? {
                Some(DueKey { sequence, .. }) => Change::Moving(receipt, sequence),
                None => Change::Move(receipt, due),
            }),
            Change::Moving(receipt, command) => {
                let Some(outcome) = node.take_outcome(command) else { return again(Change::Moving(receipt, command)) };
                let mut body = Vec::new();
                put_moved(&mut body, &[moved(node, &receipt, outcome)?])?;
                self.answer(link, id, node.reading().now, &body).map(|()| None)
            }
            Change::Store(subject, messages) => {
                let new = messages.iter().map(|one| {
                    let message = NewMessage { subject: &subject, due: one.due, body: &one.body };
                    let terms = NewTerms { key: None, if_exists: IfExists::Replace, id: Some(one.id.clone()) };
                    (message, terms)
                });
                let published = node.publish_on_terms(&new.collect::<Vec<_>>(), LIMITS)?;
                again(match published {
                    Some(published) => Change::Storing(published.terms, published.receipts),
                    None => Change::Store(subject, messages),
                })
            }
            Change::Storing(terms, receipts) => match node.take_outcome(terms) {
                None => again(Change::Storing(terms, receipts)),
                Some(Outcome::Done) => {
                    let told: Vec<Receipt> =
                        receipts.into_iter().map(|receipt| stored(node, receipt)).collect::<Result<_>>()?;
                    let mut body = Vec::new();
                    put_receipts(&mut body, told.into_iter())?;
                    self.answer(link, id, node.reading().now, &body).map(|()| None)
                }
                Some(other) => Err(unexpected(other)),
            },
        }
    }
}

fn moved(node: &Node, receipt: &Receipt, outcome: Outcome) -> Result<Moved> {
    match outcome {
        Outcome::Moved(key) => {
            node.receipt_of(key, receipt.subject, receipt.size).map(Moved::Done).ok_or_else(|| unexpected(outcome))
        }
        Outcome::AlreadyDispatched => Ok(Moved::AlreadyDispatched),
        Outcome::NotFound => Ok(Moved::NotFound),
        other => Err(unexpected(other)),
    }
}

/// The receipt of a message that was stored, or of the one that was there.
fn stored(node: &mut Node, receipt: Receipt) -> Result<Receipt> {
    match node.take_outcome(receipt.key.sequence) {
        Some(Outcome::Done) => Ok(receipt),
        Some(outcome @ Outcome::There(key, size)) => {
            node.receipt_of(key, receipt.subject, size).ok_or_else(|| unexpected(outcome))
        }
        other => Err(unexpected(other.unwrap_or(Outcome::NotFound))),
    }
}
