//! The connections of a node, as its owner sees them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delaymq_core::replication::{Message, NodeId};
use delaymq_core::wire::peer::ADDRESS_BYTES_MAX;

use crate::context::Context;
use crate::interface::{LinkStatus, NotSent, PeerAddress, PeerOptions, PeersError};
use crate::outbox::Outbox;
use crate::threads::lock;
use crate::tls::{Tls, name_of};
use crate::wake::Wake;
use crate::{link, listener};

/// How long [`Peers::close`] waits for its threads. Connecting takes up to 2 s for each address of a host, a write that no
/// one reads ends at once, and only the search for the addresses of a name may take longer.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// The connections of a node; see the crate. Dropping it closes them.
pub struct Peers {
    context: Arc<Context>,
    links: Mutex<Vec<Arc<Outbox>>>,
    queue_bytes_max: usize,
    listening: SocketAddr,
    listener: Arc<Wake>,
}

impl Peers {
    /// Listens, and begins to connect.
    ///
    /// # Errors
    /// An option cannot be used, the address cannot be listened on, or the system has no more descriptors or threads.
    pub fn start(options: PeerOptions) -> Result<Self, PeersError> {
        let PeerOptions { hello, listen, peers, tls, queue_bytes_max, sink } = options;
        check_own_address("client_address", &hello.client_address)?;
        check_own_address("peer_address", &hello.peer_address)?;
        if tls.is_none() {
            must_be_loopback("listen", listen.ip())?;
        }
        let tls = tls.as_ref().map(Tls::read).transpose()?;
        let failed = |source| PeersError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let listening = listener.local_addr()?;
        let (routes, arrivals, threads) = <_>::default();
        let context = Arc::new(Context { hello, tls, sink, routes, arrivals, threads });
        let (links, wake) = (Mutex::default(), Arc::new(Wake::new()?));
        let started = Self { context, links, queue_bytes_max, listening, listener: wake };
        let (context, wake) = (Arc::clone(&started.context), Arc::clone(&started.listener));
        let accepts = move || listener::run(&context, &listener, &wake);
        started.context.threads.start("delaymq-peers", accepts)?;
        started.set_peers(peers)?;
        Ok(started)
    }

    /// The address that it listens on, with its port.
    pub fn address(&self) -> SocketAddr {
        self.listening
    }

    /// Sends a message to a node. This never waits. The message is lost if the connection ends before it is written.
    ///
    /// # Errors
    /// See [`NotSent`]: the message is lost. A full queue takes messages other than heartbeats and batches for some
    /// time longer.
    pub fn send(&self, node: NodeId, message: &Message) -> Result<(), NotSent> {
        let link = lock(&self.context.routes).get(&node).cloned().ok_or(NotSent::NotConnected)?;
        link.send(node, message)
    }

    /// The bytes that wait for a node; `None` if it is not connected.
    pub fn queued_bytes(&self, node: NodeId) -> Option<usize> {
        let link = lock(&self.context.routes).get(&node).cloned()?;
        link.queued_bytes(node)
    }

    /// Connects to these addresses from now on, and ends the connections to others that this node made. Those that
    /// other nodes made go on.
    ///
    /// # Errors
    /// `InvalidOption`, and nothing is changed. `System`, and some of the addresses may be missing.
    pub fn set_peers(&self, peers: impl IntoIterator<Item = PeerAddress>) -> Result<(), PeersError> {
        let wanted: BTreeSet<PeerAddress> = peers.into_iter().collect();
        let has_tls = self.context.tls.is_some();
        wanted.iter().try_for_each(|address| check_address(address, has_tls))?;
        let mut links = lock(&self.links);
        links.retain(|link| {
            let stays = wanted.contains(&link.address);
            if !stays {
                link.end();
            }
            stays
        });
        let missing: Vec<PeerAddress> =
            wanted.into_iter().filter(|address| links.iter().all(|link| link.address != *address)).collect();
        for address in missing {
            if self.context.arrivals.is_closed() {
                return Ok(());
            }
            let outbox = Arc::new(Outbox::new(address, self.queue_bytes_max)?);
            let (context, mine) = (Arc::clone(&self.context), Arc::clone(&outbox));
            self.context.threads.start("delaymq-peer-out", move || link::run(&context, &mine))?;
            links.push(outbox);
        }
        Ok(())
    }

    /// The state of the connection to each address.
    pub fn status(&self) -> Vec<LinkStatus> {
        lock(&self.links).iter().map(|link| link.status()).collect()
    }

    /// Ends all connections and threads, and reports the ends. It returns when nothing more is reported, and waits up to 10 s
    /// for a thread that searches the addresses of a name.
    pub fn close(&self) {
        self.context.arrivals.close();
        self.listener.wake();
        lock(&self.links).drain(..).for_each(|link| link.end());
        self.context.threads.join(CLOSE_WAIT);
    }
}

/// Returns why a node cannot connect to this address.
///
/// # Errors
/// `InvalidOption`: the address is no `host:port`, or is not loopback although there are no certificates.
pub fn check_address(address: &PeerAddress, has_tls: bool) -> Result<(), PeersError> {
    let invalid = |message| PeersError::InvalidOption { option: "peers", message };
    let host = address.host().ok_or_else(|| invalid(format!("{address} is no host:port")))?;
    match host.parse() {
        _ if has_tls => name_of(host).map(drop).map_err(|fault| invalid(fault.to_string())),
        Ok(ip) => must_be_loopback("peers", ip),
        Err(_) => Ok(()),
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close();
    }
}

/// Otherwise the hello could not be sent, or would name an address that no client can use.
fn check_own_address(option: &'static str, address: &str) -> Result<(), PeersError> {
    let is_usable = PeerAddress { address: address.to_owned(), node: None }.host().is_some();
    if address.is_empty() || (is_usable && address.len() <= ADDRESS_BYTES_MAX) {
        return Ok(());
    }
    let message = format!("{address:?} is no host:port of at most {ADDRESS_BYTES_MAX} bytes");
    Err(PeersError::InvalidOption { option, message })
}

fn must_be_loopback(option: &'static str, ip: IpAddr) -> Result<(), PeersError> {
    if ip.is_loopback() {
        return Ok(());
    }
    let message = format!("{ip} is not a loopback address, and there are no certificates");
    Err(PeersError::InvalidOption { option, message })
}
