//! The server of a connected history: the core's connections over one node, driven by hand. What a real server does
//! with sockets and threads happens here when the history says so. All decisions are the core's.

mod changes;
mod pending_replies;
mod qmq;
mod qmq_consumers;
mod recurring;
mod subscription;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{self, Planted};
use delaymq_core::units::{GroupNumber, Millis};
use delaymq_core::wire::connection::subscriptions::Subscriptions;
use delaymq_core::wire::connection::{Asked, Connection, RequestId};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::hello::{Hello, Welcome};
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack};
use delaymq_core::wire::extension::{ACKNOWLEDGE, EXTENSION_VERSION, GIVE_BACK};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::registry::{ConsumerKey, Registry, RegistryOptions};
use delaymq_core::wire::quota::admission::{Admission, Standing as PeerStanding, admission};
use delaymq_core::wire::quota::connection_limits::ConnectionLimits;
use delaymq_core::wire::request::{Request, failed_answer, is_of_qmq};

use self::pending_replies::Promise;
use self::qmq::QmqPromises;
pub(super) use self::qmq_consumers::LastingOptions;
use self::qmq_consumers::{Asker, Lasting};
use self::subscription::Standing;
use super::account::LinkId;
use crate::node::Node;

/// One client, as the server sees it.
struct Peer {
    connection: Connection,
    standing: PeerStanding,
    /// Credit and numbers.
    subscriptions: Subscriptions<()>,
    standings: BTreeMap<u32, Standing>,
}

/// What a server is told before it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerOptions {
    pub(super) connection_limits: ConnectionLimits,
    /// True where clients must prove themselves, but for those of QMQ, which cannot.
    pub(super) needs_token: bool,
    pub(super) lasting: LastingOptions,
}

/// The token of servers that need one.
pub(super) const TOKEN: &[u8] = b"open sesame";

/// See the module.
pub(super) struct Server {
    options: ServerOptions,
    peers: BTreeMap<LinkId, Peer>,
    promises: VecDeque<Promise>,
    consumers: u64,
    qmq: QmqPromises,
    lasting: Lasting,
    registry: Registry,
    /// The trusted time of what is done now.
    now: Millis,
}

impl Server {
    /// A server of these options that knows whom an earlier one had switched off.
    ///
    /// # Errors
    /// Those of the registry.
    pub(super) fn new(options: ServerOptions, switched_off: BTreeSet<ConsumerKey>, now: Millis) -> Result<Self> {
        let registry = Registry::new(RegistryOptions::new("delaymq.example:20881")?, switched_off, now);
        Ok(Self {
            options,
            peers: BTreeMap::new(),
            promises: VecDeque::new(),
            consumers: 0,
            qmq: QmqPromises::default(),
            lasting: Lasting::new(options.lasting),
            registry,
            now,
        })
    }

    /// The store was opened: its consumers are known.
    pub(super) fn take_in(&mut self, node: &Node) {
        self.lasting.take_in(node);
    }

    /// An operator switches a consumer on or off.
    ///
    /// # Errors
    /// Those of the registry.
    pub(super) fn switch(&mut self, consumer: &str, subject: &str, group: &str, on: bool) -> Result<bool> {
        self.registry.switch(consumer, subject, group, on)
    }

    /// Who is switched off.
    pub(super) fn switched_off(&self) -> BTreeSet<ConsumerKey> {
        self.registry.switched_off().clone()
    }

    /// There is news for these groups.
    pub(super) fn wake(&mut self, groups: Vec<GroupNumber>) {
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

    /// True where it knows of this connection.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.peers.contains_key(&link)
    }

    /// True where nobody waits for an answer and nothing waits to be written.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle =
            |peer: &Peer| peer.connection.output_bytes() == 0 && peer.standings.values().all(Standing::is_idle);
        self.promises.is_empty() && self.qmq.is_empty() && self.lasting.is_quiet() && self.peers.values().all(is_idle)
    }

    /// Bytes have come; returns how many were taken.
    pub(super) fn receive(&mut self, link: LinkId, bytes: &[u8], now: Millis) -> usize {
        let Some(peer) = self.peers.get_mut(&link) else { return bytes.len() };
        if peer.connection.wants_input() { peer.connection.receive(bytes, now) } else { 0 }
    }

    /// Up to so many bytes that are to be written.
    pub(super) fn write(&mut self, link: LinkId, count_max: usize, now: Millis) -> Vec<u8> {
        let Some(peer) = self.peers.get_mut(&link) else { return Vec::new() };
        let bytes: Vec<u8> = peer.connection.output().flatten().take(count_max).copied().collect();
        peer.connection.sent(bytes.len(), now);
        bytes
    }

    /// The connections that ended by themselves, since their peers were too slow or sent garbage.
    pub(super) fn tick(&mut self, now: Millis) -> Vec<LinkId> {
        self.peers.values_mut().for_each(|peer| peer.connection.tick(now));
        self.peers.iter().filter(|(_, peer)| peer.connection.is_finished()).map(|(link, _)| *link).collect()
    }

    /// Serves the requests that are there whole.
    ///
    /// # Errors
    /// What the node gives.
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
        let id = asked.id;
        let now = node.reading().now;
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        match admission(asked.frame.header.code, peer.standing) {
            Admission::Serve => {}
            Admission::Refuse => {
                return self.refuse(link, id, now, &RemoteError::new(ErrorCode::Unauthorized, "say hello first"));
            }
            Admission::Close => {
                peer.connection.turn_away(id);
                return Ok(());
            }
        }
        if let Some(reason) = node.commits().poison() {
            let error = Error::Poisoned { reason: reason.to_owned() };
            return self.fail(link, asked, now, &error);
        }
        let asker = Asker { link, id };
        let request = Request::read(&asked.frame);
        if let Some(peer) = self.peers.get_mut(&link)
            && request.as_ref().is_ok_and(Request::is_known)
        {
            peer.connection.prove();
        }
        match request {
            Ok(Request::Own(request)) => self.serve_own(node, link, asked, request),
            Ok(Request::Send(sent)) => {
                self.send(asker, &sent);
                self.keep_qmq_promises(node)
            }
            Ok(Request::Pull(request)) => self.pull(node, asked, link, request),
            Ok(Request::Ack(request)) => self.acknowledge_offsets(node, asker, &request),
            Ok(Request::ConsumeManage(request)) => self.manage(node, asker, &request),
            Ok(Request::Register(request)) => self.register(node, asker, &request),
            Ok(Request::Unknown(_)) => self.code(asker, answer::UNKNOWN_CODE, now),
            other => {
                let words = format!("request {} is not of these histories: {other:?}", asked.frame.header.code);
                self.refuse(link, id, now, &RemoteError::new(ErrorCode::Other, &words))
            }
        }
    }

    fn serve_own(&mut self, node: &mut Node, link: LinkId, asked: &Asked, request: OwnRequest<'_>) -> Result<()> {
        let id = asked.id;
        match request {
            OwnRequest::Hello(hello) => self.welcome(node, link, id, &hello),
            OwnRequest::Ping(bytes) => self.answer(link, id, node.reading().now, bytes),
            OwnRequest::Publish(publish) => self.publish(node, link, id, &publish),
            OwnRequest::PublishOnTerms(publish) => self.publish_once(node, link, id, &publish),
            OwnRequest::Move(moves) => self.move_one(node, link, id, &moves),
            OwnRequest::Cancel(receipts) => self.cancel(node, link, id, &receipts),
            OwnRequest::Subscribe(subscribe) => self.subscribe(node, link, id, &subscribe),
            OwnRequest::Credit(credit) => {
                let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
                let added = peer.subscriptions.add_credit(credit.subscription, credit.credit);
                self.done_or(link, id, node.reading().now, added)
            }
            OwnRequest::Acknowledge(acknowledge) => self.acknowledge(node, link, asked, &acknowledge),
            OwnRequest::GiveBack(give_back) => self.give_back(node, link, asked, &give_back),
            OwnRequest::Flush(_) => {
                self.promises.push_back(Promise::settled(link, id));
                self.keep_promises(node)
            }
            OwnRequest::Recur(asked) => self.recur(node, link, id, &asked),
            OwnRequest::EndRecurring(named) => self.end_recurring(node, link, id, &named),
            OwnRequest::Unsubscribe(number) => self.unsubscribe(node, link, id, number),
            other => {
                let words = format!("request {} is not of these histories: {other:?}", asked.frame.header.code);
                self.refuse(link, id, node.reading().now, &RemoteError::new(ErrorCode::Other, &words))
            }
        }
    }

    /// Answers a hello, and lets the peer in whose token is right.
    fn welcome(&mut self, node: &Node, link: LinkId, id: RequestId, hello: &Hello<'_>) -> Result<()> {
        let now = node.reading().now;
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        if self.options.needs_token && hello.token != TOKEN {
            return self.refuse(link, id, now, &RemoteError::new(ErrorCode::Unauthorized, "the token is wrong"));
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
            now,
            delay_ms_max: 0,
        };
        let mut body = Vec::new();
        welcome.put(&mut body)?;
        self.answer(link, id, now, &body)
    }

    /// Tells that a request failed.
    fn fail(&mut self, link: LinkId, asked: &Asked, now: Millis, error: &Error) -> Result<()> {
        let command = asked.frame.header.code;
        if is_of_qmq(command) {
            return self.code(Asker { link, id: asked.id }, failed_answer(command, error), now);
        }
        self.refuse(link, asked.id, now, &RemoteError::from(error))
    }

    fn acknowledge(&mut self, node: &mut Node, link: LinkId, asked: &Asked, wanted: &Acknowledge) -> Result<()> {
        let now = node.reading().now;
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        let Some(standing) = peer.standings.get_mut(&wanted.subscription) else {
            return self.no_subscription(link, asked.id, now);
        };
        standing.acknowledge(node, &wanted.ranges)?;
        self.promises.push_back(Promise::settled(link, asked.id));
        self.keep_promises(node)
    }

    fn give_back(&mut self, node: &mut Node, link: LinkId, asked: &Asked, wanted: &GiveBack) -> Result<()> {
        let now = node.reading().now;
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        let Some(standing) = peer.standings.get_mut(&wanted.subscription) else {
            return self.no_subscription(link, asked.id, now);
        };
        standing.give_back(node, &wanted.messages)?;
        self.promises.push_back(Promise::settled(link, asked.id));
        self.keep_promises(node)
    }

    fn unsubscribe(&mut self, node: &mut Node, link: LinkId, id: RequestId, number: u32) -> Result<()> {
        let now = node.reading().now;
        let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
        let closed = peer.subscriptions.close(number);
        if let Err(error) = closed {
            return self.refuse(link, id, now, &error);
        }
        if let Some(standing) = peer.standings.remove(&number) {
            standing.end(node)?;
        }
        self.promises.push_back(Promise::settled(link, id));
        self.keep_promises(node)
    }

    /// The connection is gone: what its consumers hold is their groups' again.
    ///
    /// # Errors
    /// What the node gives.
    pub(super) fn leave(&mut self, node: &mut Node, link: LinkId) -> Result<()> {
        self.end_held(node, link)?;
        let Some(peer) = self.peers.remove(&link) else { return Ok(()) };
        self.promises.retain(|promise| promise.is_kept_for_nobody() || promise.link() != link);
        peer.standings.into_values().try_for_each(|standing| standing.end(node))
    }

    /// Keeps what was promised to QMQ's clients, and goes on with their consumers.
    ///
    /// # Errors
    /// What the node gives.
    pub(super) fn keep_all(&mut self, node: &mut Node, now: Millis) -> Result<()> {
        self.now = now;
        if let Some(reason) = node.commits().poison() {
            let error = Error::Poisoned { reason: reason.to_owned() };
            self.break_promises(node, &error)?;
            return self.break_qmq_promises(node, &error);
        }
        self.keep_time(node)?;
        self.work(node)?;
        self.keep_qmq_promises(node)
    }

    /// Sends to every subscription what it may be sent.
    ///
    /// # Errors
    /// What the node gives.
    pub(super) fn pump(&mut self, node: &mut Node) -> Result<()> {
        for (link, peer) in &mut self.peers {
            let Peer { connection, subscriptions, standings, .. } = peer;
            for (number, standing) in standings {
                standing.join_retries(node, *link, *number, &mut self.promises)?;
                standing.pump(node, connection, subscriptions, *number)?;
            }
        }
        Ok(())
    }
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
