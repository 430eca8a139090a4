//! The server of a connected history: core's connections over one node, driven by hand. What a real
//! server does with sockets and threads happens here when the world says so; what is decided, is decided
//! in the core.

mod promising;
mod standing;

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::Result;
use delaymq_core::planted::{self, Planted};
use delaymq_core::units::Millis;
use delaymq_core::wire::connection::{Asked, Connection, RequestId};
use delaymq_core::wire::connection_limits::ConnectionLimits;
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack};
use delaymq_core::wire::extension::{ACKNOWLEDGE, GIVE_BACK};
use delaymq_core::wire::subscriptions::Subscriptions;

use self::promising::Promise;
use self::standing::Standing;
use super::account::LinkId;
use crate::node::Node;

/// One client, as the server sees it.
struct Peer {
    connection: Connection,
    /// Credit and numbers.
    subscriptions: Subscriptions<()>,
    standings: BTreeMap<u32, Standing>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Server {
    limits: ConnectionLimits,
    peers: BTreeMap<LinkId, Peer>,
    promises: VecDeque<Promise>,
    consumers: u64,
}

impl Server {
    /// A server whose connections are bounded so.
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A client has connected.
    pub(super) fn connected(&mut self, link: LinkId, now: Millis) {
        let connection = Connection::new(self.limits, true, now);
        let peer = Peer { connection, subscriptions: Subscriptions::default(), standings: BTreeMap::new() };
        self.peers.insert(link, peer);
    }

    /// True where it knows of this connection.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.peers.contains_key(&link)
    }

    /// True where nobody waits for an answer and nothing waits to be written.
    pub(super) fn is_quiet(&self) -> bool {
        let is_idle =
            |peer: &Peer| peer.connection.output_bytes() == 0 && peer.standings.values().all(Standing::is_idle);
        self.promises.is_empty() && self.peers.values().all(is_idle)
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
        let header = asked.frame.header;
        let id = asked.id;
        match OwnRequest::read(header.code, &asked.frame.body) {
            Ok(Some(OwnRequest::Ping(bytes))) => self.answer(link, id, node.reading().now, bytes),
            Ok(Some(OwnRequest::Publish(publish))) => self.publish(node, link, id, &publish),
            Ok(Some(OwnRequest::Cancel(receipts))) => self.cancel(node, link, id, &receipts),
            Ok(Some(OwnRequest::Subscribe(subscribe))) => self.subscribe(node, link, id, &subscribe),
            Ok(Some(OwnRequest::Credit(credit))) => {
                let Some(peer) = self.peers.get_mut(&link) else { return Ok(()) };
                let added = peer.subscriptions.add_credit(credit.subscription, credit.credit);
                self.done_or(link, id, node.reading().now, added)
            }
            Ok(Some(OwnRequest::Acknowledge(acknowledge))) => self.acknowledge(node, link, asked, &acknowledge),
            Ok(Some(OwnRequest::GiveBack(give_back))) => self.give_back(node, link, asked, &give_back),
            Ok(Some(OwnRequest::Flush(_))) => {
                self.promises.push_back(Promise::settled(link, id));
                self.keep_promises(node)
            }
            Ok(Some(OwnRequest::Unsubscribe(number))) => self.unsubscribe(node, link, id, number),
            other => {
                let words = format!("request {} is not of these histories: {other:?}", header.code);
                self.refuse(link, id, node.reading().now, &RemoteError::new(ErrorCode::Other, &words))
            }
        }
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
        let Some(peer) = self.peers.remove(&link) else { return Ok(()) };
        self.promises.retain(|promise| promise.is_kept_for_nobody() || promise.link() != link);
        peer.standings.into_values().try_for_each(|standing| standing.end(node))
    }

    /// Sends to every subscription what it may be sent.
    ///
    /// # Errors
    /// What the node gives.
    pub(super) fn pump(&mut self, node: &mut Node) -> Result<()> {
        for (link, peer) in &mut self.peers {
            let Peer { connection, subscriptions, standings } = peer;
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
