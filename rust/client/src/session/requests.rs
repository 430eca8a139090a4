//! The requests of a client: those that wait for a connection, and those in progress on one.
//!
//! When a connection is lost, a request in progress is repeated on the next one if that is safe; otherwise it fails
//! as ambiguous.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use delaymq_core::planted::{self, Planted};
use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::{CallId, Caller};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};

use crate::failure::{Failure, Kind};
use crate::options::ClientOptions;
use crate::session::request::{Request, SubscriptionId, Ticket};

/// The age of waiting output is not used: the transport watches the socket.
const UNDATED: Millis = Millis(0);

/// The content of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The command of the request.
    pub command: i16,
    /// The body, undecoded.
    pub body: Bytes,
}

/// An answer or the error of a request.
pub type Outcome = Result<Answer, Failure>;

/// The purpose of an answer.
#[derive(Debug)]
pub(super) enum Purpose<W> {
    /// A caller waits for it.
    Caller(W),
    /// Nothing.
    Nothing,
    /// The connection may be used.
    Hello,
    /// The server has created a subscription under this number.
    Subscribe { id: SubscriptionId, number: u32 },
    /// Redeliveries or dead letters of a subscription are durable.
    Settle { id: SubscriptionId },
    /// The server has messages back that a consumer held for too long.
    PassOn { id: SubscriptionId, keys: Vec<u128> },
    /// Everything that the subscription settled before is durable.
    Flush { id: SubscriptionId, waiter: Option<W>, settled_before: u64, unanswered_before: Vec<Ticket> },
}

/// One request.
#[derive(Debug)]
pub(super) struct Pending<W> {
    pub(super) ticket: Ticket,
    pub(super) request: Request,
    pub(super) purpose: Purpose<W>,
    /// It ends with its connection.
    pub(super) is_of_connection: bool,
    /// It has no answer, except an error.
    pub(super) is_one_way: bool,
    /// Its call on the connection on which it was last sent.
    call: Option<CallId>,
    /// When it was first sent.
    sent_ms: u64,
    /// It may have been executed on a connection that was lost, and is to be repeated.
    is_in_doubt: bool,
}

impl<W> Pending<W> {
    /// True if the request may have been executed, and repeating it could execute it twice.
    fn is_too_late(&self, now_ms: u64) -> bool {
        self.is_in_doubt && now_ms.saturating_sub(self.sent_ms) > self.request.retry_for_ms
    }

    /// True if it was sent and may have changed something.
    fn may_have_changed(&self) -> bool {
        self.call.is_some() && !self.request.reads
    }
}

/// The requests of one session.
#[derive(Debug)]
pub(super) struct Requests<W> {
    /// All nodes, as errors show them.
    nodes: String,
    /// The node of the connection, as errors show it.
    pub(super) node: String,
    timeout: String,
    /// The error that ended the last connection.
    cause: Option<Failure>,
    is_permanent: bool,
    /// A connection takes requests.
    is_connected: bool,
    /// The error of the node of the connection, once it has said that it is not the primary.
    pub(super) not_primary: Option<RemoteError>,
    under_way: BTreeMap<CallId, Pending<W>>,
    waiting: VecDeque<Pending<W>>,
    next_ticket: u64,
    /// When a request was last passed to a connection.
    pub(super) last_sent_ms: u64,
    /// Answers and errors that the session has not handled yet.
    pub(super) finished: VecDeque<(Ticket, Purpose<W>, Outcome)>,
}

impl<W> Requests<W> {
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self {
            nodes: options.address.clone(),
            node: options.address.clone(),
            timeout: options.timeout.clone(),
            cause: None,
            is_permanent: false,
            is_connected: false,
            not_primary: None,
            under_way: BTreeMap::new(),
            waiting: VecDeque::new(),
            next_ticket: 0,
            last_sent_ms: 0,
            finished: VecDeque::new(),
        }
    }

    /// The error that ended the last connection, as text.
    fn reason(&self) -> Option<String> {
        self.cause.as_ref().map(|cause| cause.words().to_owned())
    }

    fn pending(&mut self, request: Request, purpose: Purpose<W>) -> Pending<W> {
        self.next_ticket = self.next_ticket.saturating_add(1);
        Pending {
            ticket: Ticket(self.next_ticket),
            request,
            purpose,
            is_of_connection: false,
            is_one_way: false,
            call: None,
            sent_ms: 0,
            is_in_doubt: false,
        }
    }

    /// Adds a request; `send` sends it in its turn.
    pub(super) fn add(&mut self, request: Request, purpose: Purpose<W>) -> Ticket {
        let pending = self.pending(request, purpose);
        self.queue(pending)
    }

    /// As `add`, for a request that ends with its connection.
    pub(super) fn add_of_connection(&mut self, request: Request, purpose: Purpose<W>) -> Ticket {
        let pending = self.pending(request, purpose);
        self.queue(Pending { is_of_connection: true, ..pending })
    }

    /// As `add_of_connection`, for a request that has no answer, except an error.
    pub(super) fn tell(&mut self, request: Request) {
        let pending = self.pending(request, Purpose::Nothing);
        self.queue(Pending { is_of_connection: true, is_one_way: true, ..pending });
    }

    fn queue(&mut self, pending: Pending<W>) -> Ticket {
        let ticket = pending.ticket;
        match self.cause.clone() {
            Some(cause) if self.is_permanent => self.finish(pending, Err(cause)),
            _ => self.waiting.push_back(pending),
        }
        ticket
    }

    fn finish(&mut self, pending: Pending<W>, outcome: Outcome) {
        self.finished.push_back((pending.ticket, pending.purpose, outcome));
    }

    /// Sends the first request of a connection, ahead of those that wait.
    pub(super) fn send_hello(&mut self, caller: &mut Caller, request: Request, now_ms: u64) {
        let pending = self.pending(request, Purpose::Hello);
        let left = self.sent(caller, Pending { is_of_connection: true, ..pending }, now_ms);
        debug_assert!(left.is_none(), "a new connection has room");
    }

    /// The connection takes requests now. If it leads to another store, requests in doubt fail: that store could not
    /// deduplicate them.
    pub(super) fn begin(&mut self, is_other_store: bool) {
        (self.is_connected, self.is_permanent) = (true, false);
        if !is_other_store {
            return;
        }
        let words = format!("{} has another store now: it may have been done in the one before or not", self.node);
        let reason = self.reason().unwrap_or_default();
        for pending in std::mem::take(&mut self.waiting) {
            if pending.is_in_doubt {
                self.finish(pending, Err(Failure::ambiguous(&words, &reason)));
            } else {
                self.waiting.push_back(pending);
            }
        }
    }

    /// Passes as many requests to the connection as it has room for, in order.
    pub(super) fn send(&mut self, caller: Option<&mut Caller>, now_ms: u64) {
        let Some(caller) = caller.filter(|_| self.is_connected) else { return };
        while let Some(pending) = self.waiting.pop_front() {
            if let Some(left) = self.sent(caller, pending, now_ms) {
                self.waiting.push_front(left);
                return;
            }
        }
    }

    /// Passes a request to the connection; returns it if there is no room now.
    fn sent(&mut self, caller: &mut Caller, mut pending: Pending<W>, now_ms: u64) -> Option<Pending<W>> {
        self.last_sent_ms = now_ms;
        if pending.is_too_late(now_ms) {
            let words = format!("{} was lost for too long to ask again for what it may have done", self.nodes);
            let reason = self.reason().unwrap_or_default();
            self.finish(pending, Err(Failure::ambiguous(words, reason)));
            return None;
        }
        let Request { command, body, .. } = &pending.request;
        let fill = |out: &mut Vec<u8>| {
            out.extend_from_slice(body);
            Ok(())
        };
        if pending.is_one_way {
            // The only error is a frame that is too large, which no request of a subscription is.
            return (caller.tell(*command, UNDATED, fill) == Ok(false)).then_some(pending);
        }
        match caller.ask(*command, UNDATED, fill) {
            Err(error) => self.finish(pending, Err(RemoteError::from(&error).into())),
            Ok(None) => return Some(pending),
            Ok(Some(call)) => {
                if !pending.is_in_doubt {
                    pending.sent_ms = now_ms;
                }
                pending.call = Some(call);
                self.under_way.insert(call, pending);
            }
        }
        None
    }

    /// Handles an answer; it is ignored if its request has been withdrawn.
    pub(super) fn answered(&mut self, call: CallId, answer: Result<Answer, RemoteError>) {
        if let Err(error) = &answer
            && error.code == ErrorCode::NotPrimary
        {
            // No more requests are sent on this connection.
            (self.is_connected, self.cause) = (false, Some(error.clone().into()));
            self.not_primary = Some(error.clone());
        }
        let Some(mut pending) = self.under_way.remove(&call) else { return };
        let outcome = match answer {
            Ok(answer) => Ok(answer),
            Err(error) if may_move(&error, &pending.request) => {
                // It was not executed. The connection is about to end; the request is repeated on the next one.
                pending.call = pending.is_in_doubt.then_some(call);
                self.under_way.insert(call, pending);
                return;
            }
            // The refusal tells nothing about the first attempt.
            Err(error) if pending.is_in_doubt => {
                let words = format!(
                    "{} refused it after a lost answer: it may have been done or not: {}",
                    self.node, error.words
                );
                Err(Failure::ambiguous(words, error.words.as_str()).caused_by(error))
            }
            Err(error) => Err(error.into()),
        };
        self.finish(pending, outcome);
    }

    /// Removes a request, and returns the error that describes its state; `None` if it is answered.
    pub(super) fn withdraw(&mut self, caller: Option<&mut Caller>, ticket: Ticket) -> Option<Failure> {
        if let Some(place) = self.waiting.iter().position(|pending| pending.ticket == ticket) {
            let pending = self.waiting.remove(place)?;
            return Some(self.unanswered(pending.call.is_some(), true, pending.request.reads));
        }
        let call = self.under_way.iter().find(|(_, one)| one.ticket == ticket).map(|(call, _)| *call)?;
        let pending = self.under_way.remove(&call)?;
        if let Some(caller) = caller {
            caller.forget(call);
        }
        let is_untold = planted::is_on(Planted::SentUntold);
        Some(self.unanswered(pending.call.is_some() && !is_untold, is_untold, pending.request.reads))
    }

    /// The error of a request that had no answer in time.
    pub(super) fn unanswered(&self, was_sent: bool, was_waiting: bool, reads: bool) -> Failure {
        let (nodes, node, timeout) = (&self.nodes, &self.node, &self.timeout);
        if !was_sent && !self.is_connected {
            if let Some(said) = self.cause.as_ref().and_then(Failure::not_primary) {
                let words =
                    format!("no node of {nodes} was primary within {timeout}; nothing was done: {}", said.words);
                return RemoteError { words, ..said.clone() }.into();
            }
            let words = format!("no connection to {nodes} within {timeout}; nothing was asked");
            return Failure::Local { kind: Kind::Unreachable, words, reason: self.reason(), cause: None };
        }
        if !was_sent && was_waiting {
            let words = format!("{node} took no more requests within {timeout}; nothing was asked");
            return Failure::new(Kind::TimedOut, words);
        }
        let words = format!("{node} did not answer within {timeout}");
        if reads {
            return Failure::Local { kind: Kind::TimedOut, words, reason: self.reason(), cause: None };
        }
        Failure::ambiguous(format!("{words}: it may have been done or not"), "no answer in time")
    }

    fn take_all(&mut self) -> Vec<Pending<W>> {
        let under_way = std::mem::take(&mut self.under_way).into_values();
        under_way.chain(std::mem::take(&mut self.waiting)).collect()
    }

    /// True if the node, which is not the primary, owes no answer any more that says what became of a request.
    pub(super) fn may_leave(&self) -> bool {
        self.under_way.values().all(|pending| pending.is_in_doubt || !pending.may_have_changed())
    }

    /// Handles a lost or failed connection: each request waits for the next one, or fails. `tries_next`: another node
    /// is tried at once, so a failed connection says nothing about the next one.
    pub(super) fn lose(&mut self, cause: &Failure, was_ready: bool, tries_next: bool) {
        (self.is_connected, self.not_primary) = (false, None);
        let is_told = !tries_next || was_ready || self.cause.is_none() || cause.not_primary().is_some();
        if is_told {
            self.cause = Some(cause.clone());
            self.is_permanent = !tries_next && !was_ready && cause.is_permanent();
        }
        let words =
            format!("the connection to {} was lost before the answer came: it may have been done or not", self.node);
        for mut pending in self.take_all() {
            let is_in_doubt = pending.may_have_changed();
            if pending.is_of_connection || (is_in_doubt && (self.is_permanent || !may_repeat(&pending.request))) {
                self.finish(pending, Err(Failure::ambiguous(&words, cause.words())));
            } else if self.is_permanent {
                self.finish(pending, Err(cause.clone()));
            } else {
                pending.is_in_doubt = is_in_doubt;
                self.waiting.push_back(pending);
            }
        }
    }

    /// Fails all requests, with the reason.
    pub(super) fn end(&mut self, why: &Failure) {
        let words = format!("{} before the answer came: it may have been done or not", why.words());
        for pending in self.take_all() {
            let failure =
                if pending.may_have_changed() { Failure::ambiguous(&words, why.words()) } else { why.clone() };
            self.finish(pending, Err(failure));
        }
    }
}

/// True if the error says that nothing was done, and that another connection may take the request.
fn may_move(error: &RemoteError, request: &Request) -> bool {
    error.code == ErrorCode::NotPrimary || (error.code == ErrorCode::Stopping && request.retry)
}

/// True if the request may be sent again after its answer was lost.
fn may_repeat(request: &Request) -> bool {
    request.retry || planted::is_on(Planted::DoubtRepeated)
}
