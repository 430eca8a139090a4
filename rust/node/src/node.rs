//! A running node, as its owner sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use delaymq_core::record::written_format;
use delaymq_core::replication::{LogView, Node as Protocol, NodeId, NodeOptions as ProtocolOptions, RoleName, Timing};
use delaymq_core::store::RecoveryProgress;
use delaymq_core::units::Epoch;
use delaymq_core::wire::peer::Hello;
use delaymq_core::wire::quota::notices::Notice;
use delaymq_engine::{Durability, random};
use delaymq_peers::{PeerOptions, Peers, QUEUE_BYTES_MAX};
use delaymq_server::{ClusterPages, Places, Stopped};

use crate::copy::Copy;
use crate::events::{Events, Incoming};
use crate::group::{first_reading, open_or_join};
use crate::held;
use crate::interface::{ClusterOptions, NodeError, NodeOptions, NodeReport};
use crate::member::{Addresses, Member, Parts};
use crate::register::RegisterCalls;
use crate::requests::Shown;
use crate::service::{Notices, Service};
use crate::status::{Reports, Snapshot};

/// How the node ended, once it has.
#[derive(Default)]
struct Ending {
    ended: Mutex<Option<Result<Stopped, NodeError>>>,
    happened: Condvar,
}

/// Reports the end of the node's thread, in whatever way it ends.
struct Ended(Arc<Ending>);

impl Drop for Ended {
    fn drop(&mut self) {
        let died = || Err(NodeError::Thread { reason: "the thread delaymq-node has died".to_owned() });
        held(&self.0.ended).get_or_insert_with(died);
        self.0.happened.notify_all();
    }
}

/// A running node. Dropping it stops it at once.
pub struct Node {
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    peer_address: SocketAddr,
    shown: Arc<Shown>,
    events: Arc<Events>,
    reports: Arc<Reports>,
    notices: Arc<Mutex<Notices>>,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl Node {
    /// Opens the copy in the folder, or makes an empty one of the group that the register names, and starts. It listens when this
    /// returns, as a standby at first. `progress` is called on this thread.
    ///
    /// # Errors
    /// `NoGroup`, `OtherGroup`; `Store` with `InvalidArgument` naming `durability` if that is not `disk`, or `path` for a store that
    /// stands alone, `Locked`, and those of an open; those of the coordinator, of the server and of the connections; `Thread`.
    pub fn start(options: NodeOptions, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<Self, NodeError> {
        let NodeOptions { path, store, server, cluster } = options;
        must_be_durable(store.durability)?;
        let coordinator = cluster.coordinator.open()?;
        let place = cluster.coordinator.place();
        let reading =
            first_reading(coordinator.as_ref())?.ok_or_else(|| NodeError::NoGroup { register: place.clone() })?;
        let advertised = server.advertised_address.clone();
        let listening = Places::take(server)?.listen()?;
        let opened = open_or_join(&path, store.segment_bytes, (&reading, place))?;
        let (events, reports): (Arc<Events>, Arc<Reports>) = <_>::default();
        let copy = Copy::open(opened, (path, store), Arc::clone(&events), progress)?;
        let client_address = advertised.unwrap_or_else(|| listening.address().to_string());
        let me = copy.node();
        let known: BTreeSet<NodeId> =
            reading.value.complete.union(&reading.value.sync).copied().filter(|node| *node != me).collect();
        let protocol = protocol_of(&copy, known.clone())?;
        let snapshot = first_snapshot(&copy, &protocol);
        let has_tls = cluster.tls.is_some();
        let shown = Arc::new(Shown { snapshot: Mutex::new(snapshot), events: Arc::clone(&events), has_tls });
        let notices = Arc::new(Mutex::new(Notices::default()));
        let (address, http_address) = (listening.address(), listening.http_address());
        let pages: Arc<dyn ClusterPages> = Arc::<Shown>::clone(&shown);
        let service = Service::start(listening, pages, Arc::clone(&events), Arc::clone(&notices))?;
        let peers = Peers::start(PeerOptions {
            hello: hello_of(&copy, &client_address, advertised_to_nodes(&cluster))?,
            listen: cluster.listen,
            peers: cluster.peers.clone(),
            tls: cluster.tls,
            queue_bytes_max: QUEUE_BYTES_MAX,
            sink: events.sink(),
        })?;
        let peer_address = peers.address();
        let addresses = Addresses::new(me, cluster.peers, has_tls);
        let register = RegisterCalls::start(&coordinator, &events, &reports)?;
        let client_addresses = BTreeMap::from([(me, client_address)]);
        let parts = Parts {
            protocol,
            copy,
            peers: Arc::new(peers),
            addresses,
            register,
            service,
            events: Arc::clone(&events),
            reports: Arc::clone(&reports),
            shown: Arc::clone(&shown),
            client_addresses,
            known,
        };
        let ending = Arc::new(Ending::default());
        let thread = Some(spawn(Member::new(parts), Arc::clone(&ending))?);
        Ok(Self { address, http_address, peer_address, shown, events, reports, notices, ending, thread })
    }

    /// The address for clients.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for plain HTTP.
    pub const fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// The address for other nodes.
    pub const fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    /// The status of the node and of the group as it knows it, as JSON.
    pub fn status(&self) -> String {
        self.shown.status_text()
    }

    /// The next report. Waits up to `wait` for one.
    pub fn next_report(&self, wait: Duration) -> Option<NodeReport> {
        self.reports.next(wait)
    }

    /// Notices about clients, and how many more there were than are kept.
    pub fn notices(&self) -> (Vec<Notice<IpAddr>>, u64) {
        std::mem::take(&mut *held(&self.notices))
    }

    /// Begins to stop. A primary hands over first, if another node of the set can take over within 1.5 s. Requests under way
    /// are answered for at most `patience`. Returns at once.
    pub fn stop(&self, patience: Duration) {
        self.events.add(Incoming::Stop(patience));
    }

    /// Waits until the node has ended, by itself or because it was stopped; `None` if that took longer than `timeout`, or if the
    /// end was returned already.
    pub fn wait(&self, timeout: Duration) -> Option<Result<Stopped, NodeError>> {
        let ended = held(&self.ending.ended);
        let waited = self.ending.happened.wait_timeout_while(ended, timeout, |ended| ended.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }

    /// Asks the primary, which this node must be, to hand over to another node. Returns before that has happened.
    ///
    /// # Errors
    /// `Refused` if this node is not the primary, or the other one is not in the set.
    pub fn switch_over(&self, node: NodeId) -> Result<(), NodeError> {
        self.shown.begin_switch_over(node)
    }

    /// Asks this node to connect to another one, at an address that is in no settings. Returns before that has happened; the
    /// status shows the connection.
    ///
    /// # Errors
    /// `Refused` if it is no `host:port`, or is not loopback although there are no certificates.
    pub fn add(&self, address: &str) -> Result<(), NodeError> {
        self.shown.begin_add(address)
    }

    /// Asks the primary, which this node must be, to forget a node that is gone for good. Returns before that has happened.
    ///
    /// # Errors
    /// `Refused` if this node is not the primary, or the other one is this node, is connected, is unknown, or is the only other
    /// one that has every message that was answered as stored, unless the loss is accepted.
    pub fn remove(&self, node: NodeId, accepts_loss: bool) -> Result<(), NodeError> {
        self.shown.begin_remove(node, accepts_loss)
    }

    /// Asks this node to lead, after the primary and, if this node is not in the set, all nodes of the set are gone for good.
    /// Returns before that has happened.
    ///
    /// # Errors
    /// `Refused` if `node` is another node, or if this one leads, hears a primary, does not believe the register, or lacks
    /// messages that were answered as stored.
    pub fn promote(&self, node: NodeId) -> Result<(), NodeError> {
        self.shown.begin_promote(node)
    }

    /// Lets this node go on with the register of this coordinator, after it was restored from a backup and an operator has compared all
    /// nodes. Returns before that has happened; the status shows it.
    ///
    /// # Errors
    /// `Refused` if the register is that of another coordinator or of another group, if it was set back under the same number, or if
    /// this node hears a primary.
    pub fn confirm(&self, coordinator: u64) -> Result<(), NodeError> {
        self.shown.begin_confirm(coordinator)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn must_be_durable(durability: Durability) -> Result<(), NodeError> {
    if durability == Durability::Disk {
        return Ok(());
    }
    let (expected, found) = ("disk, because a copy counts once it is on disk".to_owned(), "os".to_owned());
    Err(delaymq_core::error::Error::InvalidArgument { argument: "durability", expected, found }.into())
}

/// Where other nodes connect to this one; empty if that is not known.
fn advertised_to_nodes(cluster: &ClusterOptions) -> String {
    let listen = Some(cluster.listen).filter(|listen| !listen.ip().is_unspecified() && listen.port() > 0);
    let given = cluster.advertised_address.clone();
    given.or_else(|| listen.map(|listen| listen.to_string())).unwrap_or_default()
}

fn hello_of(copy: &Copy, client_address: &str, peer_address: String) -> Result<Hello, NodeError> {
    let identity = copy.identity();
    Ok(Hello {
        format_level: written_format(),
        stream: identity.stream.id,
        timeline: identity.stream.timeline,
        node: copy.node(),
        nonce: u64::from_be_bytes(random()?),
        segment_bytes: identity.segment_bytes,
        client_address: client_address.to_owned(),
        peer_address,
        others: Vec::new(),
    })
}

fn protocol_of(copy: &Copy, peers: BTreeSet<NodeId>) -> Result<Protocol, NodeError> {
    let identity = copy.identity();
    let options = ProtocolOptions {
        id: copy.node(),
        group: (identity.stream.id, identity.stream.timeline),
        random: u64::from_be_bytes(random()?),
        promise: identity.promise(),
        committed: copy.applied(),
        peers,
        timing: Timing::default(),
    };
    Ok(Protocol::new(options, 0))
}

/// The epoch of the last batch of the log.
pub(crate) fn log_epoch_of(copy: &Copy) -> Epoch {
    copy.history().epochs.last().map_or(Epoch(0), |last| last.epoch)
}

fn first_snapshot(copy: &Copy, protocol: &Protocol) -> Snapshot {
    let identity = copy.identity();
    Snapshot {
        node: copy.node(),
        stream: identity.stream.id,
        timeline: identity.stream.timeline,
        role: RoleName::Replica,
        epoch: protocol.promised(),
        log_epoch: log_epoch_of(copy),
        committed: protocol.committed(),
        end: copy.end(),
        durable: copy.durable(),
        leader: None,
        accepts_publishes: false,
        unfit: Vec::new(),
        clock_ahead_ms: None,
        foreign: None,
        coordinator: protocol.coordinator(),
        reading: None,
        copies: Vec::new(),
        links: Vec::new(),
        connected: BTreeSet::new(),
        client_addresses: BTreeMap::new(),
        role_changes: 0,
        messages_repaired: 0,
    }
}

fn spawn(member: Member, ending: Arc<Ending>) -> Result<JoinHandle<()>, NodeError> {
    let thread = Builder::new().name("delaymq-node".to_owned()).spawn(move || {
        let ending = Ended(ending);
        let ended = member.run();
        *held(&ending.0.ended) = Some(ended);
    });
    thread.map_err(|error| NodeError::Thread { reason: error.to_string() })
}
