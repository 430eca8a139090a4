//! The state of one client, without a socket, thread or clock: the caller passes bytes and the time.
//!
//! Enter: requests, and bytes and lost connections as a transport reports them. Leave: bytes to send, one answer or
//! error for each request, and news of subscriptions.
//!
//! A session outlives its connections. Requests wait until there is a connection, and subscriptions are created again
//! on each. Read this file first, then `requests` (what waits for an answer, and what a lost connection means for it),
//! `subscription` (messages delivered), `settling` (messages settled), `holding` (messages held for too long),
//! `subscriptions`, the calls of a consumer, `liveness` with `timers`, and `ending`.
//! Times are milliseconds of one monotonic clock that the caller chooses.

mod arrival;
mod ending;
mod holding;
mod liveness;
mod request;
mod requests;
mod settling;
mod subscription;
mod subscriptions;
mod timers;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::Result as CoreResult;
use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::{Caller, CallerLimits, Heard, told};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::{Hello, Welcome};
use delaymq_core::wire::extension::{EXTENSION_VERSION, HELLO};

pub use self::arrival::Arrival;
pub(crate) use self::request::CLIENT_CLOSED;
pub use self::request::{Closing, Report, Request, SubscriptionId, Ticket};
pub use self::requests::{Answer, Outcome};
pub use self::settling::SETTLED_MAX;
pub use self::subscription::SubscriptionRequest;

use self::arrival::Arrivals;
use self::requests::{Purpose, Requests};
use self::subscription::SubscriptionState;
use self::timers::{Timer, Timers};
use crate::failure::{Failure, Kind};
use crate::options::ClientOptions;

/// How long acknowledgements are collected before they are sent.
const SOON_MS: u64 = 2;
/// How often the client asks the server whether acknowledgements are durable.
const CONFIRM_MS: u64 = 1_000;
/// The stream before the first connection.
const NO_STREAM: [u8; 16] = [0; 16];

/// See the module. `W` is what a caller waits with, which comes back with the answer.
#[derive(Debug)]
pub struct Session<W> {
    options: ClientOptions,
    hello: Request,
    caller: Option<Caller>,
    /// The server has answered the hello of this connection.
    is_ready: bool,
    stream: [u8; 16],
    delay_ms_max: u64,
    closed: Option<Failure>,
    opened: Option<W>,
    /// When a node first answered that it is not the primary, while no connection was made yet.
    awaits_since_ms: Option<u64>,
    requests: Requests<W>,
    next_number: u32,
    next_id: u64,
    subscriptions: BTreeMap<SubscriptionId, SubscriptionState<W>>,
    by_number: BTreeMap<u32, SubscriptionId>,
    /// Refused temporarily, to be requested again.
    refused: BTreeSet<SubscriptionId>,
    /// With settlements to send.
    dirty: BTreeSet<SubscriptionId>,
    timers: Timers,
    /// The last time that the server sent, and when it came.
    server_clock: (Millis, u64),
    heard_ms: u64,
    is_pinged: bool,
    completed: Vec<(W, Outcome)>,
    news: BTreeSet<SubscriptionId>,
    reports: Vec<Report>,
}

impl<W> Session<W> {
    /// Begins without a connection. `opened` gets the result of the first one.
    ///
    /// # Errors
    /// `TooLarge` naming `token`.
    pub fn new(options: ClientOptions, opened: W) -> CoreResult<Self> {
        let (version_min, version_max) = (EXTENSION_VERSION, EXTENSION_VERSION);
        let mut body = Vec::new();
        Hello { version_min, version_max, client: &options.client, token: &options.token }.put(&mut body)?;
        Ok(Self {
            hello: Request::new(HELLO, body),
            requests: Requests::new(&options),
            options,
            caller: None,
            is_ready: false,
            stream: NO_STREAM,
            delay_ms_max: u64::MAX,
            closed: None,
            opened: Some(opened),
            awaits_since_ms: None,
            next_number: 1,
            next_id: 1,
            subscriptions: BTreeMap::new(),
            by_number: BTreeMap::new(),
            refused: BTreeSet::new(),
            dirty: BTreeSet::new(),
            timers: Timers::default(),
            server_clock: (Millis(0), 0),
            heard_ms: 0,
            is_pinged: false,
            completed: Vec::new(),
            news: BTreeSet::new(),
            reports: Vec::new(),
        })
    }

    /// The error of a closed client.
    ///
    /// # Errors
    /// Why it is closed.
    pub fn check(&self) -> Result<(), Failure> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// True once the server has answered the hello of this connection.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The stream of the server's store; zeros before the first connection.
    pub const fn stream(&self) -> [u8; 16] {
        self.stream
    }

    /// The longest delay of the server's store, in milliseconds.
    pub const fn delay_ms_max(&self) -> u64 {
        self.delay_ms_max
    }

    /// The store's trusted clock: the last time that the server sent, plus the time since.
    pub fn now(&self, now_ms: u64) -> Millis {
        let (sent, at) = self.server_clock;
        Millis(sent.0.saturating_add(now_ms.saturating_sub(at)))
    }

    // Requests.

    /// Sends a request, now or when there is a connection.
    ///
    /// # Errors
    /// The client is closed.
    pub fn ask(&mut self, request: Request, waiter: W, now_ms: u64) -> Result<Ticket, Failure> {
        self.check()?;
        let ticket = self.requests.add(request, Purpose::Caller(waiter));
        self.advance(now_ms);
        Ok(ticket)
    }

    /// Removes a request whose caller waits no longer, and returns the error that describes its state; `None` if the
    /// request is answered: its outcome is, or was, among [`Self::take_completed`].
    pub fn withdraw(&mut self, ticket: Ticket) -> Option<Failure> {
        self.requests.withdraw(self.caller.as_mut(), ticket)
    }

    // Connections.

    /// The node of the next connection, as errors show it, and how long it may take to answer the hello.
    pub fn connects_to(&mut self, node: &str, hello_ms: u64) {
        self.options.hello_ms = hello_ms;
        node.clone_into(&mut self.requests.node);
    }

    /// Begins a new connection with a hello.
    pub fn begin(&mut self, limits: CallerLimits, now_ms: u64) {
        let mut caller = Caller::new(limits);
        (self.heard_ms, self.is_pinged) = (now_ms, false);
        self.timers.set(Timer::Hello, now_ms.saturating_add(self.options.hello_ms));
        self.requests.send_hello(&mut caller, self.hello.clone(), now_ms);
        self.caller = Some(caller);
    }

    /// Handles received bytes.
    ///
    /// # Errors
    /// They are invalid, or an error of the server, such as that it is not the primary: close the connection, then call
    /// [`Self::lost`] or [`Self::lost_one`].
    pub fn receive(&mut self, bytes: &[u8], now_ms: u64) -> Result<(), Failure> {
        self.heard_ms = now_ms;
        let mut rest = bytes;
        while let Some(caller) = self.caller.as_mut() {
            let taken = caller.receive(rest);
            rest = rest.get(taken..).unwrap_or_default();
            let heard = self.hear(now_ms);
            if let Err(violation) = heard {
                self.advance(now_ms);
                let node = &self.requests.node;
                let words = format!("{node} sent what no delaymq server sends: {}", violation.words);
                return Err(Failure::new(Kind::Protocol, words).caused_by(violation));
            }
            self.handle_finished(now_ms)?;
            if rest.is_empty() {
                break;
            }
        }
        self.advance(now_ms);
        self.leave(now_ms)
    }

    /// Handles all complete frames. Fails if the server sent what none sends.
    fn hear(&mut self, now_ms: u64) -> Result<(), RemoteError> {
        while let Some(caller) = self.caller.as_mut() {
            match caller.hear().map_err(|malformed| RemoteError::from(&malformed))? {
                None => break,
                Some(Heard::Answer { call, command, code, body }) => {
                    self.requests.answered(call, told(code, &body).map(|body| Answer { command, body }));
                }
                Some(Heard::Deliver(body)) => {
                    // Earlier answers are handled first, such as that to the subscribe of these messages.
                    if let Err(failure) = self.handle_finished(now_ms) {
                        return Err(as_remote(failure));
                    }
                    self.delivered(Arrivals::read(self.stream, &body)?, now_ms);
                }
            }
        }
        Ok(())
    }

    fn delivered(&mut self, arrivals: Arrivals, now_ms: u64) {
        let Some(id) = self.by_number.get(&arrivals.number) else { return };
        let Some(state) = self.subscriptions.get_mut(id) else { return };
        self.server_clock = (arrivals.now, now_ms);
        if state.delivered(arrivals.messages, now_ms) {
            self.news.insert(*id);
        }
        if let Some(end) = state.next_hold_ms() {
            self.timers.set_earlier(Timer::PassOn, end);
        }
    }

    // Output and results.

    /// The bytes to be written, in order.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.caller.iter().flat_map(Caller::output)
    }

    /// The number of bytes to be written.
    pub fn output_bytes(&self) -> usize {
        self.caller.as_ref().map_or(0, Caller::output_bytes)
    }

    /// The first `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize) {
        if let Some(caller) = self.caller.as_mut() {
            caller.sent(count);
        }
    }

    /// The answers and errors since the last call.
    pub fn take_completed(&mut self) -> Vec<(W, Outcome)> {
        std::mem::take(&mut self.completed)
    }

    /// The subscriptions for whose consumers there is news since the last call.
    pub fn take_news(&mut self) -> BTreeSet<SubscriptionId> {
        std::mem::take(&mut self.news)
    }

    /// The reports since the last call.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Handles finished requests and sends as many as there is room for, until nothing is left to do.
    fn advance(&mut self, now_ms: u64) {
        loop {
            // A hello is refused only in `receive`, which handles it itself.
            let _refused = self.handle_finished(now_ms);
            self.requests.send(self.caller.as_mut(), now_ms);
            if self.requests.finished.is_empty() {
                return;
            }
        }
    }

    /// Handles finished requests. Fails if the hello was refused.
    fn handle_finished(&mut self, now_ms: u64) -> Result<(), Failure> {
        while let Some((ticket, purpose, outcome)) = self.requests.finished.pop_front() {
            match purpose {
                Purpose::Caller(waiter) => self.completed.push((waiter, outcome)),
                Purpose::Nothing => {}
                Purpose::Hello => self.greeted(outcome, now_ms)?,
                Purpose::Subscribe { id, number } => self.subscribe_answered(id, number, outcome, now_ms),
                Purpose::Settle { id } => {
                    if let Some(state) = self.subscriptions.get_mut(&id) {
                        state.settled(ticket, outcome);
                    }
                }
                Purpose::PassOn { id, keys } => self.passed_on(id, keys, &outcome, now_ms),
                Purpose::Flush { id, waiter, settled_before, unanswered_before } => {
                    let outcome = match self.subscriptions.get_mut(&id) {
                        Some(state) => state.flushed(outcome, waiter.is_some(), settled_before, &unanswered_before),
                        None => outcome,
                    };
                    self.completed.extend(waiter.map(|waiter| (waiter, outcome)));
                }
            }
        }
        Ok(())
    }

    fn greeted(&mut self, outcome: Outcome, now_ms: u64) -> Result<(), Failure> {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) if failure.is_ambiguous() => return Ok(()), // the connection was lost first
            // The answer of a server that does not know the command.
            Err(Failure::Remote(error)) if error.code == ErrorCode::Other => {
                let words = format!("{} is no delaymq server of this version: {}", self.requests.node, error.words);
                return Err(Failure::new(Kind::Protocol, words).caused_by(error));
            }
            Err(failure) => return Err(failure),
        };
        let welcome = Welcome::read(&answer.body).map_err(|malformed| RemoteError::from(&malformed))?;
        let is_other_store = ![NO_STREAM, welcome.stream].contains(&self.stream);
        (self.stream, self.delay_ms_max) = (welcome.stream, welcome.delay_ms_max);
        self.server_clock = (welcome.now, now_ms);
        self.timers.clear(Timer::Hello);
        self.timers.set(Timer::Ping, now_ms.saturating_add(self.options.ping_ms));
        self.is_ready = true;
        self.requests.begin(is_other_store);
        self.requests.send(self.caller.as_mut(), now_ms);
        let ids: Vec<SubscriptionId> = self.subscriptions.keys().copied().collect();
        for id in ids {
            self.resubscribe(id, now_ms);
        }
        self.report_opened(Ok(answer));
        Ok(())
    }
}

fn as_remote(failure: Failure) -> RemoteError {
    match failure {
        Failure::Remote(error) => error,
        Failure::Local { words, .. } => RemoteError::new(ErrorCode::Malformed, &words),
    }
}

#[cfg(test)]
mod tests;
