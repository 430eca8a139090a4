//! A running server: its start, its addresses, its stop.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delaymq_core::wire::qmq::registry::{Registry, RegistryOptions};
use delaymq_core::wire::quota::notices::Notice;
use delaymq_engine::{CreationLimits, Listener, NamedConsumerListed, Store};
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use crate::access::control;
use crate::access::control::{AccessControl, NoticeLog};
use crate::blocking_pool;
use crate::connection::listener::{take_http, take_peers};
use crate::http::switched_off;
use crate::options::{ServerError, ServerOptions};
use crate::requests::dispatch;
use crate::server_state::ServerState;

/// How long subscriptions may take to close after every connection has gone, and threads to end.
const CLOSING: Duration = Duration::from_secs(5);

/// Connections that may wait to be accepted: all clients come at once when a server is back.
const BACKLOG: u32 = 1_024;
/// The longest patience of a stop.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The result of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Connections that were closed with something under way.
    pub cut_off: usize,
}

/// Reports how the server stopped to the thread that waits, in whatever way the server's thread ends.
struct Ending {
    stopped: Mutex<Option<Stopped>>,
    happened: Condvar,
}

struct Told(Arc<Ending>, Stopped);

impl Drop for Told {
    fn drop(&mut self) {
        *self.0.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.1);
        self.0.happened.notify_all();
    }
}

/// A running server. Dropping it ends it at once.
pub struct Server {
    store: Arc<Store>,
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    notices: NoticeLog,
    deadline: watch::Sender<Option<Instant>>,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

/// The parts that the server's thread is given.
struct Parts {
    store: Arc<Store>,
    options: ServerOptions,
    registry: Registry,
    wake_ups: Listener,
    news: Arc<Notify>,
    notices: NoticeLog,
    listener: TcpListener,
    http: Option<TcpListener>,
    /// QMQ's consumers that the store has.
    consumers: Vec<NamedConsumerListed>,
    deadline: watch::Receiver<Option<Instant>>,
}

/// The addresses of a server that has no store yet. They are taken, and nothing listens there.
pub struct Places {
    options: ServerOptions,
    socket: TcpSocket,
    http: Option<TcpSocket>,
}

impl Places {
    /// Takes the addresses, and checks the options as far as possible without a store.
    ///
    /// # Errors
    /// `Listen` if it cannot listen on an address; `Store` with `InvalidArgument` naming `server.token_hash` or
    /// `server.advertised_address` if one is needed, or `advertised_address`.
    pub fn take(options: ServerOptions) -> Result<Self, ServerError> {
        control::check(&options)?;
        if let Some(advertised) = &options.advertised_address {
            RegistryOptions::new(advertised)?;
        }
        let socket = bound(options.listen)?;
        let http = options.http.map(bound).transpose()?;
        Ok(Self { options, socket, http })
    }
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
    /// `Listen` if another process listens there by now; errors of the file of consumers that are switched off; `Store`
    /// with `InvalidArgument` naming `server.qmq_retry_seconds` or `server.qmq_undelayed_seconds` if that is longer
    /// than the store's longest delay; errors of the store; `Thread`.
    pub fn start_at(places: Places, store: Arc<Store>) -> Result<Self, ServerError> {
        let Places { options, socket, http } = places;
        options.check_delays(store.delay_ms_max())?;
        let switched_off = options.switched_off.as_deref().map(switched_off::read).transpose()?.unwrap_or_default();
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(blocking_pool::threads()).build();
        let runtime = runtime.map_err(|error| ServerError::Thread { reason: error.to_string() })?;
        let entered = runtime.enter();
        let (listener, address) = listen(options.listen, socket)?;
        let http = options.http.zip(http).map(|(address, socket)| listen(address, socket)).transpose()?;
        drop(entered);
        let (http, http_address) = http.unzip();
        let limits = CreationLimits {
            subjects_max: options.subjects_max,
            groups_max: options.groups_max,
            consumers_max: u32::try_from(options.consumers_max).unwrap_or(u32::MAX),
        };
        store.limit_creation(limits);
        let consumers = store.named_consumers()?;
        let advertised = options.advertised_address.clone().unwrap_or_else(|| address.to_string());
        let registry = Registry::new(RegistryOptions::new(&advertised)?, switched_off, store.now());
        let news = Arc::new(Notify::new());
        let raised = Arc::clone(&news);
        let wake_ups = store.listener(Box::new(move || raised.notify_one()))?;
        let (deadline, told) = watch::channel(None);
        let notices = NoticeLog::new();
        let parts = Parts {
            store: Arc::clone(&store),
            options,
            registry,
            wake_ups,
            news,
            notices: notices.clone(),
            listener,
            http,
            consumers,
            deadline: told,
        };
        let ending = Arc::new(Ending { stopped: Mutex::new(None), happened: Condvar::new() });
        let thread = spawn(runtime, parts, Arc::clone(&ending))?;
        Ok(Self { store, address, http_address, notices, deadline, ending, thread: Some(thread) })
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
        let now = Instant::now();
        let deadline = now.checked_add(patience.min(PATIENCE_MAX)).unwrap_or(now);
        self.deadline.send_modify(|known| *known = Some(known.map_or(deadline, |known| known.min(deadline))));
    }

    /// Waits until the server has stopped; `None` if that took longer than `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Stopped> {
        let stopped = self.ending.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ending.happened.wait_timeout_while(stopped, timeout, |stopped| stopped.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if !self.store.is_here() {
            // A forked child does not have the thread.
            std::mem::forget(thread);
            return;
        }
        self.stop(Duration::ZERO);
        drop(thread.join());
    }
}

/// A socket that has an address and does not listen.
fn bound(address: SocketAddr) -> Result<TcpSocket, ServerError> {
    let failed = |error: std::io::Error| ServerError::Listen { address, reason: error.to_string() };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.map_err(failed)?;
    // After a restart, connections of the last server may still be closing.
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(address).map_err(failed)?;
    Ok(socket)
}

/// Call it within the runtime.
fn listen(address: SocketAddr, socket: TcpSocket) -> Result<(TcpListener, SocketAddr), ServerError> {
    let failed = |error: std::io::Error| ServerError::Listen { address, reason: error.to_string() };
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn spawn(runtime: Runtime, parts: Parts, ending: Arc<Ending>) -> Result<JoinHandle<()>, ServerError> {
    let thread = std::thread::Builder::new().name("delaymq-server".to_owned());
    let thread = thread.spawn(move || {
        let mut told = Told(ending, Stopped { cut_off: 0 });
        told.1 = LocalSet::new().block_on(&runtime, run(parts));
        runtime.shutdown_timeout(CLOSING);
    });
    thread.map_err(|error| ServerError::Thread { reason: error.to_string() })
}

async fn run(parts: Parts) -> Stopped {
    let Parts { store, options, registry, wake_ups, news, notices, listener, http, consumers, mut deadline } = parts;
    let access = AccessControl::new(options.access.clone(), notices);
    let state = Rc::new(ServerState::new(store, options, registry, wake_ups, news, access, dispatch::serve));
    state.take_in(consumers);
    let taking = spawn_local(take_peers(Rc::clone(&state), listener));
    let answering = http.map(|http| spawn_local(take_http(Rc::clone(&state), http)));
    let attending = spawn_local(Rc::clone(&state).run());
    // The server's handle lives longer than this, or has sent the deadline.
    drop(deadline.wait_for(Option::is_some).await);
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
async fn left(state: &ServerState, deadline: &mut watch::Receiver<Option<Instant>>) -> usize {
    loop {
        let until = deadline.borrow_and_update().unwrap_or_else(Instant::now);
        let patience = until.saturating_duration_since(Instant::now());
        if state.is_left() {
            return 0;
        }
        if patience.is_zero() {
            break;
        }
        tokio::select! {
            () = state.left.notified() => {}
            _ = deadline.changed() => {}
            () = sleep(patience) => {}
        }
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
