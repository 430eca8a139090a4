//! A running server: its start and its stop.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;
use delaymq_core::wire::qmq::registry::{Registry, RegistryOptions};
use delaymq_core::wire::quota::notices::Notice;
use delaymq_engine::{CreationLimits, Listener, NamedConsumerListed, Store};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::access::control::NoticeLog;
use crate::access::entrance::{ConnectionSlots, Entrance};
use crate::blocking_pool;
use crate::connection::host::{Accepted, Host};
use crate::connection::listener::{take_http, take_peers};
use crate::connection::peer::Peer;
use crate::http::cluster::ClusterPages;
use crate::http::page::Page;
use crate::http::routes::page_of_store;
use crate::http::switched_off;
use crate::listening::{Copies, Listening, Places};
use crate::network_thread::{CLOSING, Deadline, NetworkThread, Stopped, have_gone};
use crate::options::{ServerError, ServerOptions};
use crate::requests::dispatch;
use crate::server_state::ServerState;

/// A running server. Dropping it ends it at once.
pub struct Server {
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    notices: NoticeLog,
    thread: NetworkThread,
}

/// The parts that the server's thread is given.
struct Parts {
    store: Arc<Store>,
    options: ServerOptions,
    cluster: Option<Arc<dyn ClusterPages>>,
    registry: Registry,
    wake_ups: Listener,
    news: Arc<Notify>,
    notices: NoticeLog,
    listeners: Copies,
    /// QMQ's consumers that the store has.
    consumers: Vec<NamedConsumerListed>,
}

impl Server {
    /// Starts a server over an open store. It listens when this returns.
    ///
    /// # Errors
    /// As [`Places::take`] and [`Self::start_at`].
    pub fn start(store: Arc<Store>, options: ServerOptions) -> Result<Self, ServerError> {
        Self::start_at(Places::take(options)?, store)
    }

    /// As [`Self::start`], at addresses that were taken before.
    ///
    /// # Errors
    /// As [`Places::listen`] and [`Self::start_on`].
    pub fn start_at(places: Places, store: Arc<Store>) -> Result<Self, ServerError> {
        Self::start_on(&places.listen()?, store, None)
    }

    /// As [`Self::start`], where it is listened already. `cluster` has the group of copies to which the store belongs.
    ///
    /// # Errors
    /// `Listen` if the system has no more descriptors; errors of the file of consumers that are switched off; `Store`
    /// with `InvalidArgument` naming `server.qmq_retry_seconds` or `server.qmq_undelayed_seconds` if that is longer
    /// than the store's longest delay; errors of the store; `Thread`.
    pub fn start_on(
        listening: &Listening,
        store: Arc<Store>,
        cluster: Option<Arc<dyn ClusterPages>>,
    ) -> Result<Self, ServerError> {
        let options = listening.options.clone();
        options.check_delays(store.delay_ms_max())?;
        let switched_off = options.switched_off.as_deref().map(switched_off::read).transpose()?.unwrap_or_default();
        let runtime = NetworkThread::runtime(blocking_pool::threads())?;
        let entered = runtime.enter();
        let listeners = listening.copies()?;
        drop(entered);
        let limits = CreationLimits {
            subjects_max: options.subjects_max,
            groups_max: options.groups_max,
            consumers_max: u32::try_from(options.consumers_max).unwrap_or(u32::MAX),
        };
        store.limit_creation(limits);
        let consumers = store.named_consumers()?;
        let registry = Registry::new(RegistryOptions::new(&listening.advertised_address())?, switched_off, store.now());
        let news = Arc::new(Notify::new());
        let raised = Arc::clone(&news);
        let wake_ups = store.listener(Box::new(move || raised.notify_one()))?;
        let notices = NoticeLog::new();
        let log = notices.clone();
        let parts = Parts { store, options, cluster, registry, wake_ups, news, notices: log, listeners, consumers };
        let thread = NetworkThread::start("delaymq-server", runtime, |deadline| run(parts, deadline))?;
        Ok(Self { address: listening.address(), http_address: listening.http_address(), notices, thread })
    }

    /// The address for connections.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for plain HTTP.
    pub const fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Notices about peers, and how many more there were than are kept. A few are kept until this is called.
    pub fn notices(&self) -> (Vec<Notice<IpAddr>>, u64) {
        self.notices.take()
    }

    /// Begins to stop: no new connection and no new request is accepted, requests under way are answered for at most
    /// `patience`, then every connection is closed. A later call with less patience replaces an earlier one. Returns at
    /// once.
    pub fn stop(&self, patience: Duration) {
        self.thread.stop(patience);
    }

    /// Waits until the server has stopped; `None` if that took longer than `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Stopped> {
        self.thread.wait(timeout)
    }
}

impl Host for ServerState {
    fn options(&self) -> &ServerOptions {
        &self.options
    }

    fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    fn cluster(&self) -> Option<&dyn ClusterPages> {
        self.cluster.as_deref()
    }

    fn now(&self) -> Millis {
        Self::now(self)
    }

    fn is_draining(&self) -> bool {
        Self::is_draining(self)
    }

    fn begin(self: Rc<Self>, accepted: Accepted) {
        let Accepted { socket, address, standing, slots } = accepted;
        let ConnectionSlots { connection, stranger } = slots;
        let (number, peer) = (self.number(), Peer::new(&self, address, standing, stranger));
        self.peers.borrow_mut().insert(number, Rc::clone(&peer));
        spawn_local(async move {
            peer.run(socket).await;
            self.peers.borrow_mut().remove(&number);
            drop(connection);
            self.left.notify_one();
        });
    }

    async fn page(self: Rc<Self>, request: &HttpRequest<'_>, address: IpAddr) -> Page {
        page_of_store(&self, request, address).await
    }
}

async fn run(parts: Parts, mut deadline: Deadline) -> Stopped {
    let Parts { store, options, cluster, registry, wake_ups, news, notices, listeners, consumers } = parts;
    let mut state = ServerState::new(store, options, registry, wake_ups, news, notices, dispatch::serve);
    state.cluster = cluster;
    let state = Rc::new(state);
    state.take_in(consumers);
    let taking = spawn_local(take_peers(Rc::clone(&state), listeners.peers));
    let answering = listeners.http.map(|http| spawn_local(take_http(Rc::clone(&state), http)));
    let attending = spawn_local(Rc::clone(&state).run());
    // The server's handle lives longer than this, or has sent the deadline.
    drop(deadline.wait_for(Option::is_some).await);
    // It accepts nothing more. Its copy of the socket is closed, so further connections wait for the next server.
    taking.abort();
    state.drain();
    let cut_off = left(&state, &mut deadline).await;
    if let Some(answering) = answering {
        answering.abort();
    }
    attending.abort();
    state.consumers.forget_all();
    Stopped { cut_off }
}

/// Waits until every connection has gone, closes the others at the deadline, and waits until their subscriptions are
/// closed. Returns how many were closed.
async fn left(state: &ServerState, deadline: &mut Deadline) -> usize {
    if have_gone(deadline, &state.left, || state.is_left()).await {
        return 0;
    }
    let cut_off = state.cut_off();
    let end = Instant::now().checked_add(CLOSING);
    while !state.is_left() && end.is_some_and(|end| Instant::now() < end) {
        tokio::select! {
            () = state.left.notified() => {}
            () = sleep(Duration::from_millis(50)) => {}
        }
    }
    cut_off
}
