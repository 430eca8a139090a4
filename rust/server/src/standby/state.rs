//! The state that all tasks of a standby share.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;

use crate::access::control::NoticeLog;
use crate::access::entrance::Entrance;
use crate::connection::host::{Accepted, Host};
use crate::counters::Counter;
use crate::http::cluster::ClusterPages;
use crate::http::page::Page;
use crate::network_thread::Deadline;
use crate::options::ServerOptions;
use crate::standby::{Primary, connection, pages};

/// See the module.
pub(super) struct StandbyState {
    options: ServerOptions,
    /// Where clients reach this node.
    pub(super) address: String,
    entrance: Entrance,
    pub(super) cluster: Arc<dyn ClusterPages>,
    primary: watch::Receiver<Option<Primary>>,
    stopping: Deadline,
    began: Instant,
    /// Connections of clients.
    pub(super) open: Cell<usize>,
    /// A connection has gone.
    pub(super) left: Notify,
    /// Connections that are relayed now.
    pub(super) relays: Cell<usize>,
    pub(super) relayed: Counter,
    pub(super) failed_relays: Counter,
}

impl StandbyState {
    pub(super) fn new(
        options: ServerOptions,
        address: String,
        notices: NoticeLog,
        cluster: Arc<dyn ClusterPages>,
        primary: watch::Receiver<Option<Primary>>,
        stopping: Deadline,
    ) -> Self {
        Self {
            entrance: Entrance::new(&options, notices),
            options,
            address,
            cluster,
            primary,
            stopping,
            began: Instant::now(),
            open: Cell::new(0),
            left: Notify::new(),
            relays: Cell::new(0),
            relayed: Counter::default(),
            failed_relays: Counter::default(),
        }
    }

    /// The primary, if one is known.
    pub(super) fn primary(&self) -> Option<Primary> {
        self.primary.borrow().clone()
    }

    /// The address of the primary for clients, if it is known.
    pub(super) fn primary_address(&self) -> Option<String> {
        self.primary().map(|primary| primary.address).filter(|address| !address.is_empty())
    }

    /// Waits until the primary is not at this address any more, or the standby stops.
    pub(super) async fn is_elsewhere(&self, address: &str) {
        let mut primary = self.primary.clone();
        let is_other = |known: &Option<Primary>| known.as_ref().is_none_or(|known| known.address != address);
        tokio::select! {
            _ = primary.wait_for(is_other) => {}
            () = self.stops() => {}
        }
    }

    /// Waits until the standby stops.
    pub(super) async fn stops(&self) {
        drop(self.stopping.clone().wait_for(Option::is_some).await);
    }

    /// The limit for a connection whose peer has sent nothing valid.
    pub(super) fn first_request(&self) -> (usize, Duration) {
        let limits = self.options.connection;
        (limits.first_request_bytes_max, Duration::from_millis(limits.first_request_ms_max))
    }

    /// How long bytes may wait for a peer to read them.
    pub(super) fn reader_patience(&self) -> Duration {
        Duration::from_millis(self.options.connection.reader_ms_max)
    }
}

impl Host for StandbyState {
    fn options(&self) -> &ServerOptions {
        &self.options
    }

    fn entrance(&self) -> &Entrance {
        &self.entrance
    }

    fn cluster(&self) -> Option<&dyn ClusterPages> {
        Some(&*self.cluster)
    }

    fn now(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    fn is_draining(&self) -> bool {
        self.stopping.borrow().is_some()
    }

    fn begin(self: Rc<Self>, accepted: Accepted) {
        self.open.set(self.open.get().saturating_add(1));
        spawn_local(async move {
            connection::run(&self, accepted).await;
            self.open.set(self.open.get().saturating_sub(1));
            self.left.notify_one();
        });
    }

    async fn page(self: Rc<Self>, request: &HttpRequest<'_>, _: IpAddr) -> Page {
        pages::page(&self, request)
    }
}
