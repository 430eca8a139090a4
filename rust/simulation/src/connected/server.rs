//! The server of a connected history: the core's connections over one node, driven by hand. The work that a real server
//! does with sockets and threads happens here when the history says so. All decisions are the core's.

mod changes;
mod clock;
mod joining;
mod pending_replies;
mod qmq;
mod qmq_consumers;
mod recurring;
mod steps;
mod subscription;

use std::collections::{BTreeMap, BTreeSet};

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{self, Planted};
use delaymq_core::units::{GroupNumber, Millis};
use delaymq_core::wire::connection::subscriptions::Subscriptions;
use delaymq_core::wire::connection::{Asked, Connection};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::{Hello, Welcome};
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack, PutAway};
use delaymq_core::wire::extension::{ACKNOWLEDGE, EXTENSION_VERSION, GIVE_BACK};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::registry::{ConsumerKey, Registry, RegistryOptions};
use delaymq_core::wire::quota::admission::{Admission, Standing as PeerStanding, admission};
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::request::{Request, failed_answer, is_of_qmq};

use self::qmq_consumers::Lasting;
pub(super) use self::qmq_consumers::LastingOptions;
use self::steps::{Asker, Pending, QmqPending, Step};
use self::subscription::Standing;
use super::link::LinkId;
use crate::node::Node;

/// One client, as the server sees it.
struct Peer {
    connection: Connection,
    standing: PeerStanding,
    /// Credit and numbers.
    subscriptions: Subscriptions<()>,
    standings: BTreeMap<u32, Standing>,
}

/// Options of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerOptions {
    pub(super) connection_limits: ConnectionLimits,
    /// True if clients must say hello with a token, except QMQ's, which cannot.
    pub(super) needs_token: bool,
    pub(super) lasting: LastingOptions,
}

/// The right token.
pub(super) const TOKEN: &[u8] = b"open sesame";

/// See the module.
pub(super) struct Server {
    options: ServerOptions,
    peers: BTreeMap<LinkId, Peer>,
    /// Requests that are not answered yet.
    pending: Vec<Pending>,
    consumers: u64,
    qmq: QmqPending,
    lasting: Lasting,
    registry: Registry,
    /// A step of the clock was accepted.
    has_accepted: bool,
    /// The trusted time of this call.
    now: Millis,
}

impl Server {
    /// A server with these options. `switched_off` are the consumers that an earlier server had switched off.
    pub(super) fn new(options: ServerOptions, switched_off: BTreeSet<ConsumerKey>, now: Millis) -> Result<Self> {
        let registry = Registry::new(RegistryOptions::new("delaymq.example:20881")?, switched_off, now);
        Ok(Self {
            options,
            peers: BTreeMap::new(),
            pending: Vec::new(),
            consumers: 0,
            qmq: QmqPending::default(),
            lasting: Lasting::new(options.lasting),
            registry,
            has_accepted: false,
            now,
        })
    }

    /// Takes in the consumers of a store that was opened.
    pub(super) fn take_in(&mut self, node: &Node) {
        self.lasting.take_in(node);
    }

    /// An operator switches a consumer on or off.
    pub(super) fn switch(&mut self, consumer: &str, subject: &str, group: &str, on: bool) -> Result<bool> {
        self.registry.switch(consumer, subject, group, on)
    }

    /// The consumers that are switched off.
    pub(super) fn switched_off(&self) -> BTreeSet<ConsumerKey> {
        self.registry.switched_off().clone()
    }

    /// There is news for these groups.
    pub(super) fn wake(&mut self, groups: Vec<GroupNumber>) {
        let standings = self.peers.values_mut().flat_map(|peer| peer.standings.values_mut());
        standings.for_each(|standing| standing.wake(&groups));
        self.lasting.wake(groups);
    }

    /// A client has connected, of QMQ or of delaymq's own.
    pub(super) fn connected(&mut self, link: LinkId, now: Millis, is_of_qmq: bool) {
        let standing = match (self.options.needs_token, is_of_qmq) {
            (false, _) => PeerStanding::Trusted,
            (true, true) => PeerStanding::QmqClient,
            (true, false) => PeerStanding::Stranger,
        };
        let connection = Connection::new(self.options.connection_limits, standing != PeerStanding::Stranger, now);
        let (subscriptions, standings) = (Subscriptions::default(), BTreeMap::new());
        self.peers.insert(link, Peer { connection, standing, subscriptions, standings });
    }

    /// True if the server has this connection.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.peers.contains_key(&link)
    }

    /// True if no request waits for an answer and no byte waits to be written.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle =
            |peer: &Peer| peer.connection.output_bytes() == 0 && peer.standings.values().all(Standing::is_idle);
        self.pending.is_empty() && self.qmq.is_empty() && self.lasting.is_quiet() && self.peers.values().all(is_idle)
    }

    /// Takes bytes from a client. Returns how many it took.
    pub(super) fn receive(&mut self, link: LinkId, bytes: &[u8], now: Millis) -> usize {
        let Some(peer) = self.peers.get_mut(&link) else { return bytes.len() };
        if peer.connection.wants_input() { peer.connection.receive(bytes, now) } else { 0 }
    }

    /// Up to so many bytes for the client.
    pub(super) fn write(&mut self, link: LinkId, count_max: usize, now: Millis) -> Vec<u8> {
        let Some(peer) = self.peers.get_mut(&link) else { return Vec::new() };
        let bytes: Vec<u8> = peer.connection.output().flatten().take(count_max).copied().collect();
        peer.connection.sent(bytes.len(), now);
        bytes
    }

    /// The connections that ended because their peers were too slow or sent garbage.
    pub(super) fn tick(&mut self, now: Millis) -> Vec<LinkId> {
        self.peers.values_mut().for_each(|peer| peer.connection.tick(now));
        self.peers.iter().filter(|(_, peer)| peer.connection.is_finished()).map(|(link, _)| *link).collect()
    }

    /// Serves the requests that have arrived whole.
    pub(super) fn serve(&mut self, node: &mut Node, link: LinkId) -> Result<()> {
        let now = node.reading().now;
        self.now = now;
        loop {
            let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
            let mut asked: Vec<Asked> = std::iter::from_fn(|| peer.connection.next_request(now)).collect();
            if asked.is_empty() {
                return Ok(());
            }
            if planted::is_on(Planted::SettledOutOfOrder) {
                turn_round(&mut asked);
            }
            for one in &asked {
                self.serve_one(node, link, one)?;
            }
        }
    }

    fn serve_one(&mut self, node: &mut Node, link: LinkId, asked: &Asked) -> Result<()> {
        let asker = Asker { link, id: asked.id };
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        match admission(asked.frame.header.code, peer.standing) {
            Admission::Serve => {}
            Admission::Refuse => {
                return self.refuse(asker, &RemoteError::new(ErrorCode::Unauthorized, "say hello first"));
            }
            Admission::Close => {
                peer.connection.turn_away(asked.id);
                return Ok(());
            }
        }
        if let Some(error) = poisoned(node) {
            let command = asked.frame.header.code;
            if is_of_qmq(command) {
                return self.code(asker, failed_answer(command, &error));
            }
            return self.refuse(asker, &RemoteError::from(&error));
        }
        let request = Request::read(&asked.frame);
        if let Some(peer) = self.peers.get_mut(&link)
            && request.as_ref().is_ok_and(Request::is_known)
        {
            peer.connection.prove();
        }
        match request {
            Ok(Request::Own(request)) => self.serve_own(node, asker, request),
            Ok(Request::Send(sent)) => {
                self.send(asker, &sent);
                self.keep_qmq_promises(node)
            }
            Ok(Request::Pull(request)) => self.pull(asker, asked.frame.header.version, request),
            Ok(Request::Ack(request)) => self.acknowledge_offsets(asker, &request),
            Ok(Request::ConsumeManage(request)) => self.manage(asker, &request),
            Ok(Request::Register(request)) => self.register(asker, &request),
            Ok(Request::Unknown(_)) => self.code(asker, answer::UNKNOWN_CODE),
            other => self.unsupported(asker, &format!("not a request of these histories: {other:?}")),
        }
    }

    fn serve_own(&mut self, node: &mut Node, asker: Asker, request: OwnRequest<'_>) -> Result<()> {
        match request {
            OwnRequest::Hello(hello) => self.welcome(node, asker, &hello),
            OwnRequest::Ping(bytes) => self.answer_bytes(asker, bytes),
            OwnRequest::Publish(publish) => self.publish(node, asker, &publish, &[]),
            OwnRequest::PublishOnTerms(asked) if asked.terms.iter().any(|terms| terms.deduplicates) => {
                self.publish_once(node, asker, &asked)
            }
            OwnRequest::PublishOnTerms(asked) => self.publish(node, asker, &asked.publish, &asked.terms),
            OwnRequest::Move(moves) => self.move_one(node, asker, &moves),
            OwnRequest::Cancel(receipts) => self.cancel(node, asker, &receipts),
            OwnRequest::Subscribe(subscribe) => self.subscribe(node, asker, &subscribe),
            OwnRequest::Credit(credit) => {
                let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
                match peer.subscriptions.add_credit(credit.subscription, credit.credit) {
                    Ok(()) => self.answer_bytes(asker, &[]),
                    Err(error) => self.refuse(asker, &error),
                }
            }
            OwnRequest::Acknowledge(Acknowledge { subscription, ranges }) => {
                self.settle_held(node, asker, subscription, |standing, node| standing.acknowledge(node, &ranges))
            }
            OwnRequest::GiveBack(GiveBack { subscription, messages }) => {
                self.settle_held(node, asker, subscription, |standing, node| standing.give_back(node, &messages))
            }
            OwnRequest::PutAway(PutAway { subscription, reason, keys }) => {
                self.settle_held(node, asker, subscription, |standing, node| standing.put_away(node, reason, &keys))
            }
            OwnRequest::Flush(_) => self.promise(node, asker, Step::Settled),
            OwnRequest::Recur(asked) => self.recur(node, asker, &asked),
            OwnRequest::EndRecurring(named) => self.end_recurring(node, asker, &named),
            OwnRequest::Clock => self.report_clock(node, asker),
            OwnRequest::AcceptClock(ahead_ms) => self.accept_clock(node, asker, ahead_ms),
            OwnRequest::Unsubscribe(number) => self.unsubscribe(node, asker, number),
            other => self.unsupported(asker, &format!("not a request of these histories: {other:?}")),
        }
    }

    /// Answers a hello, and admits the peer if its token is right.
    fn welcome(&mut self, node: &Node, asker: Asker, hello: &Hello<'_>) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        if self.options.needs_token && hello.token != TOKEN {
            return self.refuse(asker, &RemoteError::new(ErrorCode::Unauthorized, "the token is wrong"));
        }
        peer.connection.admit();
        peer.standing = PeerStanding::Trusted;
        let welcome = Welcome {
            version: EXTENSION_VERSION,
            server: String::new(),
            stream: node.identity().stream.id,
            frame_bytes_max: 0,
            messages_max: 0,
            body_bytes_max: 0,
            in_flight_max: 0,
            now: self.now,
            delay_ms_max: u64::MAX,
        };
        self.answer(asker, |out| welcome.put(out))
    }

    /// Settles deliveries of a subscription, and answers once that is durable.
    fn settle_held(
        &mut self,
        node: &mut Node,
        asker: Asker,
        subscription: u32,
        settle: impl FnOnce(&mut Standing, &mut Node) -> Result<()>,
    ) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        let Some(standing) = peer.standings.get_mut(&subscription) else { return self.no_subscription(asker) };
        settle(standing, node)?;
        self.promise(node, asker, Step::Settled)
    }

    fn unsubscribe(&mut self, node: &mut Node, asker: Asker, number: u32) -> Result<()> {
        let Some(peer) = self.peers.get_mut(&asker.link) else { return Ok(()) };
        if let Err(error) = peer.subscriptions.close(number) {
            return self.refuse(asker, &error);
        }
        if let Some(standing) = peer.standings.remove(&number) {
            standing.end(node)?;
        }
        self.promise(node, asker, Step::Settled)
    }

    /// Ends a connection: the messages that its consumers hold return to their groups.
    pub(super) fn leave(&mut self, node: &mut Node, link: LinkId) -> Result<()> {
        self.now = node.reading().now;
        self.end_held(link)?;
        let Some(peer) = self.peers.remove(&link) else { return Ok(()) };
        self.pending.retain(|pending| match pending {
            Pending::Reply(asker, step) => asker.link != link || step.outlives_its_client(),
            Pending::Joining(_) => true,
        });
        peer.standings.into_values().try_for_each(|standing| standing.end(node))
    }

    /// Goes on with all requests and with QMQ's consumers.
    pub(super) fn keep_all(&mut self, node: &mut Node) -> Result<()> {
        self.now = node.reading().now;
        self.keep_promises(node)?;
        if let Some(error) = poisoned(node) {
            self.break_promises(&error)?;
            return self.break_qmq_promises(&error);
        }
        self.keep_time()?;
        self.work(node)?;
        self.keep_qmq_promises(node)
    }

    /// Sends messages to every subscription that has credit and room.
    pub(super) fn pump(&mut self, node: &mut Node) -> Result<()> {
        for (link, peer) in &mut self.peers {
            let Peer { connection, subscriptions, standings, .. } = peer;
            for (number, standing) in standings {
                standing.join(node, *link, *number, &mut self.pending);
                standing.pump(node, connection, subscriptions, *number)?;
            }
        }
        Ok(())
    }
}

/// The error of a store that has ended.
fn poisoned(node: &Node) -> Option<Error> {
    node.commits().poison().map(|reason| Error::Poisoned { reason: reason.to_owned() })
}

/// A planted fault: the settlements among these come in the opposite order.
fn turn_round(asked: &mut [Asked]) {
    let settles = |one: &Asked| matches!(one.frame.header.code, ACKNOWLEDGE | GIVE_BACK);
    let mut turned: Vec<Asked> = asked.iter().filter(|one| settles(one)).cloned().collect();
    for one in asked.iter_mut().filter(|one| settles(one)) {
        if let Some(last) = turned.pop() {
            *one = last;
        }
    }
}
