//! PUBLISH and SEND: batches on their way into the log, and the replies that wait for them.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::wire::extension::errors::{Attribute, RemoteError};
use delaymq_core::wire::extension::publish::{DueTime, Publish, Published, put_receipts};
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

/// Messages, and bytes of requests, that are gathered before they are handed to the log.
const GATHERED_MESSAGES_MAX: usize = 256;
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// A batch that is not in the log's queue yet.
pub(crate) struct PublishRequest {
    batch: PublishBatch,
    kind: Kind,
    /// Bytes of the requests, which it keeps in memory.
    pub(crate) bytes: usize,
}

enum Kind {
    /// Requests of delaymq's own protocol. Each is answered with the receipts of its messages, in order.
    Own(Vec<OwnReply>),
    Qmq(Responder, Listing),
}

/// The reply to one request of delaymq's own protocol.
struct OwnReply {
    responder: Responder,
    wants_receipts: bool,
    /// The number of its messages.
    count: usize,
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

/// Takes a batch of delaymq's own protocol: it is stored whole or not at all. Requests of one message, of all connections
/// of a turn, go to the log together.
pub(crate) fn publish(responder: Responder, publish: &Publish<'_>, bytes: usize) {
    let wants_receipts = publish.wants_receipts;
    if let [message] = publish.messages.as_slice() {
        return gather(OwnReply { responder, wants_receipts, count: 1 }, message, bytes);
    }
    let mut batch = responder.state().batch();
    for (index, message) in publish.messages.iter().enumerate() {
        if let Err(error) = push(&mut batch, message) {
            responder.state().give_back(batch);
            return responder.refused(&RemoteError::from(&error).with(Attribute::Index, index as u64));
        }
    }
    let state = Rc::clone(responder.state());
    let kind = Kind::Own(vec![OwnReply { responder, wants_receipts, count: publish.messages.len() }]);
    state.publish(PublishRequest { batch, kind, bytes });
}

fn push(batch: &mut PublishBatch, message: &Published<'_>) -> Result<()> {
    let check = message.check()?;
    batch.push_checked(message.subject, due_of(message.due), (message.meta, message.body), check)
}

/// Adds the only message of a request to those that are gathered.
fn gather(reply: OwnReply, message: &Published<'_>, bytes: usize) {
    let state = Rc::clone(reply.responder.state());
    let mut pushed = state.gather(|gathered| push(&mut gathered.batch, message));
    if let Err(Error::TooLarge { argument: "messages", .. }) = pushed {
        // It has room without those before it.
        state.publish_gathered();
        pushed = state.gather(|gathered| push(&mut gathered.batch, message));
    }
    if let Err(error) = pushed {
        return reply.responder.refused(&RemoteError::from(&error).with(Attribute::Index, 0));
    }
    let is_full = state.gather(|gathered| {
        gathered.bytes = gathered.bytes.saturating_add(bytes);
        if let Kind::Own(replies) = &mut gathered.kind {
            replies.push(reply);
        }
        gathered.batch.len() >= GATHERED_MESSAGES_MAX || gathered.bytes >= GATHERED_BYTES_MAX
    });
    if is_full {
        state.publish_gathered();
    }
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
    let state = Rc::clone(responder.state());
    let (wants_receipts, count) = (asked.publish.wants_receipts, asked.publish.messages.len());
    let kind = Kind::Own(vec![OwnReply { responder, wants_receipts, count }]);
    state.publish(PublishRequest { batch, kind, bytes });
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
    state.publish(PublishRequest { batch, kind: Kind::Qmq(responder, listing), bytes });
}

impl PublishRequest {
    /// Nothing is gathered yet.
    pub(crate) fn gathering(batch: PublishBatch) -> Self {
        Self { batch, kind: Kind::Own(Vec::new()), bytes: 0 }
    }

    /// The messages that are added next count their delays from now.
    pub(crate) fn renew_time(&mut self) {
        self.batch.renew_time();
    }

    /// How many requests are answered by it.
    pub(crate) fn count(&self) -> usize {
        if let Kind::Own(replies) = &self.kind { replies.len() } else { 1 }
    }

    /// Hands the batch to the log's queue. Returns itself if there is no room now.
    pub(crate) fn begin(mut self, state: &ServerState) -> Option<Self> {
        match state.store.try_publish(&mut self.batch) {
            Ok(None) => return Some(self),
            Ok(Some(ticket)) => {
                let (end, requests) = (ticket.end(), self.count());
                let store = Arc::clone(&state.store);
                state.promise_all(
                    end,
                    requests,
                    match self.kind {
                        Kind::Own(replies) => {
                            let is_wanted = ticket.is_on_terms() || replies.iter().any(|reply| reply.wants_receipts);
                            let wanted = is_wanted.then_some(ticket);
                            Box::new(move |kept| match (store.outcome_of(end, kept), wanted) {
                                (Ok(()), Some(ticket)) => tell(replies, ticket),
                                (Ok(()), None) => replies.into_iter().for_each(OwnReply::done),
                                (Err(error), _) => replies.into_iter().for_each(|reply| reply.failed(&error)),
                            })
                        }
                        Kind::Qmq(responder, listing) => {
                            Box::new(move |kept| listing.tell(responder, store.outcome_of(end, kept)))
                        }
                    },
                );
            }
            Err(error) => match self.kind {
                Kind::Own(replies) => replies.into_iter().for_each(|reply| reply.failed(&error)),
                Kind::Qmq(responder, listing) => listing.tell(responder, Err(error)),
            },
        }
        state.give_back(self.batch);
        None
    }

    /// There is no room for another waiting publish.
    pub(crate) fn busy(self, state: &ServerState) {
        state.give_back(self.batch);
        match self.kind {
            Kind::Own(replies) => replies.into_iter().for_each(|reply| reply.responder.busy()),
            Kind::Qmq(responder, _) => responder.busy(),
        }
    }
}

impl OwnReply {
    /// Answers without receipts.
    fn done(self) {
        self.responder.answer_with(|out| put_receipts(out, std::iter::empty()));
    }

    fn failed(self, error: &Error) {
        self.responder.failed(error);
    }
}

/// Tells the receipts of publishes that are durable.
fn tell(replies: Vec<OwnReply>, ticket: Ticket) {
    let Some(first) = replies.first().filter(|_| ticket.is_on_terms()) else {
        return tell_receipts(replies, &ticket.receipts());
    };
    // The batch must also be applied, which waits for the owner, and not for the disk.
    let state = Rc::clone(first.responder.state());
    spawn_local(async move {
        let found = state.pool.call(Work::LookUp, move || ticket.receipts()).await;
        tell_receipts(replies, &found);
    });
}

fn tell_receipts(replies: Vec<OwnReply>, found: &Result<Receipts>) {
    let mut told = 0_usize;
    for reply in replies {
        let (first, count) = (told, reply.count);
        told = told.saturating_add(count);
        match found {
            Ok(receipts) if reply.wants_receipts => {
                reply.responder.answer_with(|out| put_receipts(out, receipts.some(first, count)));
            }
            Ok(_) => reply.done(),
            Err(error) => reply.failed(error),
        }
    }
}
