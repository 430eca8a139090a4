//! PUBLISH and SEND: batches on their way into the log, and the replies that wait for them.

use std::rc::Rc;

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::wire::extension::errors::{Attribute, RemoteError};
use delaymq_core::wire::extension::publish::{DueTime, Publish, put_receipts};
use delaymq_core::wire::extension::terms::PublishOnTerms;
use delaymq_core::wire::fields::put_text;
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::send::{Failure, SendCode, Sent, put_failures};
use delaymq_core::wire::reader::Reader;
use delaymq_core::wire::request::send_code;
use delaymq_engine::{Due, PublishBatch, PublishTerms, Receipts, Ticket};
use tokio::task::spawn_local;

use crate::blocking_pool::Work;
use crate::requests::responder::Responder;
use crate::server_state::ServerState;

/// A batch that is not in the log's queue yet.
pub(crate) struct PublishRequest {
    responder: Responder,
    batch: PublishBatch,
    kind: Kind,
    /// Bytes of the request, which it keeps in memory.
    pub(crate) bytes: usize,
}

enum Kind {
    Own { wants_receipts: bool },
    Qmq(Listing),
}

/// The rows of the answer to a SEND. They keep nothing of its frame, which may be large and part of a larger buffer.
#[derive(Default)]
struct Listing {
    /// The rows of refused messages, encoded.
    refused: Vec<u8>,
    /// The ids of the other messages, each behind its length.
    taken: Vec<u8>,
}

impl Listing {
    /// The rows of all messages, if those that were taken could not be stored.
    fn put_not_stored(&self, out: &mut Vec<u8>, error: &Error) -> Result<()> {
        let mut ids = Reader::new(&self.taken);
        while !ids.is_empty() {
            let failure = Failure::of(ids.text("message_id")?, send_code(error), error);
            put_failures(out, &[failure])?;
        }
        out.extend_from_slice(&self.refused);
        Ok(())
    }

    /// Answers a SEND: the log is durable up to its messages, or will never be.
    fn tell(self, responder: Responder, kept: Result<()>) {
        match kept {
            Ok(()) if !self.refused.is_empty() && is_on(Planted::BatchFailsWhole) => {
                responder.code(answer::BROKER_ERROR);
            }
            Ok(()) => responder.answer_with(|out| {
                out.extend_from_slice(&self.refused);
                Ok(())
            }),
            Err(error) => responder.answer_with(|out| self.put_not_stored(out, &error)),
        }
    }
}

/// A due time, for the store.
pub(crate) const fn due_of(due: DueTime) -> Due {
    match due {
        DueTime::After(delay_ms) => Due::After(delay_ms),
        DueTime::At(time) => Due::At(time),
    }
}

/// Takes a batch of delaymq's own protocol: it is stored whole or not at all.
pub(crate) fn publish(responder: Responder, publish: &Publish<'_>, bytes: usize) {
    let mut batch = responder.state().batch();
    for (index, message) in publish.messages.iter().enumerate() {
        let due = due_of(message.due);
        let pushed = message.check();
        let pushed =
            pushed.and_then(|check| batch.push_checked(message.subject, due, (message.meta, message.body), check));
        if let Err(error) = pushed {
            responder.state().give_back(batch);
            return responder.refused(&RemoteError::from(&error).with(Attribute::Index, index as u64));
        }
    }
    let kind = Kind::Own { wants_receipts: publish.wants_receipts };
    let state = Rc::clone(responder.state());
    state.publish(PublishRequest { responder, batch, kind, bytes });
}

/// As [`publish`], with terms.
pub(crate) fn publish_on_terms(responder: Responder, asked: &PublishOnTerms<'_>, bytes: usize) {
    let mut batch = responder.state().batch();
    let mut terms = asked.terms.iter().peekable();
    for (index, message) in asked.publish.messages.iter().enumerate() {
        let due = due_of(message.due);
        let of_it = terms.next_if(|terms| terms.place as usize == index);
        let of_it = of_it.map_or(PublishTerms::NONE, |terms| PublishTerms {
            key: terms.key,
            if_exists: terms.if_exists,
            deduplicates: terms.deduplicates,
            expires: terms.expires,
        });
        let parts = (message.meta, message.body);
        let pushed = message.check().and_then(|_| batch.push_on_terms(message.subject, due, parts, &of_it));
        if let Err(error) = pushed {
            responder.state().give_back(batch);
            return responder.refused(&RemoteError::from(&error).with(Attribute::Index, index as u64));
        }
    }
    let kind = Kind::Own { wants_receipts: asked.publish.wants_receipts };
    let state = Rc::clone(responder.state());
    state.publish(PublishRequest { responder, batch, kind, bytes });
}

/// Takes messages of a QMQ client: each is stored, or listed in the answer.
pub(crate) fn send(responder: Responder, sent: &[Sent<'_>], bytes: usize) {
    let mut batch = responder.state().batch();
    let (mut refused, mut listing) = (Vec::new(), Listing::default());
    let undelayed_ms = responder.state().options.undelayed_ms;
    for one in sent {
        if let Err(failure) = one.judge() {
            refused.push(failure);
        } else if let Err(error) =
            batch.push_qmq(one.message.subject, one.message.due(), undelayed_ms, one.message.whole)
        {
            // A message that finds no room next to others has room in a request of its own.
            let is_crowded = matches!(error, Error::TooLarge { argument: "messages", .. }) && !batch.is_empty();
            let code = if is_crowded { SendCode::StoreError } else { send_code(&error) };
            refused.push(one.failure(code, &error));
        } else if let Err(error) = put_text(&mut listing.taken, "message_id", one.message.message_id) {
            // No accepted id is so long.
            refused.push(one.failure(SendCode::StoreError, &error));
        }
    }
    if let Err(error) = put_failures(&mut listing.refused, &refused) {
        responder.state().give_back(batch);
        return responder.failed(&error);
    }
    responder.keep(listing.refused.len());
    let state = Rc::clone(responder.state());
    state.publish(PublishRequest { responder, batch, kind: Kind::Qmq(listing), bytes });
}

impl PublishRequest {
    /// Hands the batch to the log's queue. Returns itself if there is no room now.
    pub(crate) fn begin(mut self, state: &ServerState) -> Option<Self> {
        match state.store.try_publish(&mut self.batch) {
            Ok(None) => return Some(self),
            Ok(Some(ticket)) => {
                let (end, responder) = (ticket.end(), self.responder);
                state.promise(
                    end,
                    match self.kind {
                        Kind::Own { wants_receipts } => {
                            let wanted = (wants_receipts || ticket.is_on_terms()).then_some(ticket);
                            Box::new(move |kept| match (kept, wanted) {
                                (Ok(()), Some(ticket)) => tell(responder, ticket, wants_receipts),
                                (Ok(()), None) => responder.answer_with(|out| put_receipts(out, std::iter::empty())),
                                (Err(error), _) => responder.failed(&error),
                            })
                        }
                        Kind::Qmq(listing) => Box::new(move |kept| listing.tell(responder, kept)),
                    },
                );
            }
            Err(error) => match self.kind {
                Kind::Own { .. } => self.responder.failed(&error),
                Kind::Qmq(listing) => listing.tell(self.responder, Err(error)),
            },
        }
        state.give_back(self.batch);
        None
    }

    /// There is no room for another waiting publish.
    pub(crate) fn busy(self, state: &ServerState) {
        state.give_back(self.batch);
        self.responder.busy();
    }
}

/// Tells the receipts of a publish that is durable.
fn tell(responder: Responder, ticket: Ticket, wants_receipts: bool) {
    if !ticket.is_on_terms() {
        return tell_receipts(responder, ticket.receipts(), wants_receipts);
    }
    // The batch must also be applied, which waits for the owner, and not for the disk.
    let state = Rc::clone(responder.state());
    spawn_local(async move {
        let found = state.pool.call(Work::LookUp, move || ticket.receipts()).await;
        tell_receipts(responder, found, wants_receipts);
    });
}

fn tell_receipts(responder: Responder, found: Result<Receipts>, wants_receipts: bool) {
    match found {
        Ok(receipts) if wants_receipts => responder.answer_with(|out| put_receipts(out, receipts.iter())),
        Ok(_) => responder.answer_with(|out| put_receipts(out, std::iter::empty())),
        Err(error) => responder.failed(&error),
    }
}
