//! A standby: what a node answers while it is not the primary of its group of copies.
//!
//! In: connections where the server of the primary would accept them, and who the primary is. Out: the refusal
//! `NotPrimary` for delaymq's own clients, bytes between QMQ's clients and the primary, and pages of plain HTTP.
//! Read `state` and `host`, then `connection` (one connection), `relay` (QMQ's clients) and `pages`.

mod connection;
mod host;
mod pages;
mod relay;
mod state;

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::wire::quota::notices::Notice;
use tokio::sync::watch;
use tokio::task::spawn_local;

use crate::access::control::NoticeLog;
use crate::connection::listener::{take_http, take_peers};
use crate::http::cluster::ClusterPages;
use crate::listening::{Copies, Listening};
use crate::network_thread::{Deadline, NetworkThread, Stopped, have_gone};
use crate::options::ServerError;
pub use state::Primary;
use state::StandbyState;

/// Threads that search the addresses of the primary's host.
const BLOCKING_THREADS: usize = 4;

/// See the module. Dropping it ends it at once.
pub struct Standby {
    address: SocketAddr,
    http_address: Option<SocketAddr>,
    notices: NoticeLog,
    primary: watch::Sender<Option<Primary>>,
    thread: NetworkThread,
}

impl Standby {
    /// Starts a standby, which knows no primary yet. It accepts connections when this returns.
    ///
    /// # Errors
    /// `Listen` if the system has no more descriptors; `Thread`.
    pub fn start(listening: &Listening, cluster: Arc<dyn ClusterPages>) -> Result<Self, ServerError> {
        let runtime = NetworkThread::runtime(BLOCKING_THREADS)?;
        let entered = runtime.enter();
        let listeners = listening.copies()?;
        drop(entered);
        let notices = NoticeLog::new();
        let (primary, known) = watch::channel(None);
        let (options, address, log) = (listening.options.clone(), listening.advertised_address(), notices.clone());
        let thread = NetworkThread::start("delaymq-standby", runtime, |deadline| {
            let stopping = deadline.clone();
            let state = move || StandbyState::new(options, address, log, cluster, known, stopping);
            run(state, listeners, deadline)
        })?;
        Ok(Self { address: listening.address(), http_address: listening.http_address(), notices, primary, thread })
    }

    /// Clients are told this primary from now on. Connections that are relayed to another one end.
    pub fn set_primary(&self, primary: Option<Primary>) {
        self.primary.send_if_modified(|known| {
            let is_other = *known != primary;
            *known = primary;
            is_other
        });
    }

    /// The address for connections.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for plain HTTP.
    pub const fn http_address(&self) -> Option<SocketAddr> {
        self.http_address
    }

    /// Notices about peers, as [`crate::Server::notices`].
    pub fn notices(&self) -> (Vec<Notice<IpAddr>>, u64) {
        self.notices.take()
    }

    /// Begins to stop: no new connection is accepted, relayed connections end, and answers are written for at most
    /// `patience`. A later call with less patience replaces an earlier one. Returns at once.
    pub fn stop(&self, patience: Duration) {
        self.thread.stop(patience);
    }

    /// Waits until the standby has stopped; `None` if that took longer than `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Stopped> {
        self.thread.wait(timeout)
    }
}

async fn run(state: impl FnOnce() -> StandbyState, listeners: Copies, mut deadline: Deadline) -> Stopped {
    let state = Rc::new(state());
    let taking = spawn_local(take_peers(Rc::clone(&state), listeners.peers));
    let answering = listeners.http.map(|http| spawn_local(take_http(Rc::clone(&state), http)));
    // The standby's handle lives longer than this, or has sent the deadline.
    drop(deadline.wait_for(Option::is_some).await);
    // It accepts nothing more. Its copy of the socket is closed, so further connections wait for what comes next.
    taking.abort();
    let have_gone = have_gone(&mut deadline, &state.left, || state.open.get() == 0).await;
    if let Some(answering) = answering {
        answering.abort();
    }
    Stopped { cut_off: if have_gone { 0 } else { state.open.get() } }
}
