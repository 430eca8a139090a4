//! The state that all tasks of a standby share.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::{Epoch, Millis};
use tokio::sync::{Notify, watch};

use crate::access::control::NoticeLog;
use crate::access::entrance::Entrance;
use crate::counters::Counter;
use crate::http::cluster::ClusterPages;
use crate::network_thread::Deadline;
use crate::options::ServerOptions;

/// The primary of a group of copies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Primary {
    /// Where clients connect to it, as `host:port`; empty if that is not known.
    pub address: String,
    /// Its epoch.
    pub epoch: Epoch,
}

/// See the module.
pub(super) struct StandbyState {
    pub(super) options: ServerOptions,
    /// Where clients reach this node.
    pub(super) address: String,
    pub(super) entrance: Entrance,
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
        let is_other = |known: &Option<Primary>| {
            known.as_ref().is_none_or(|known| known.address != address) && !is_on(Planted::StalePrimaryKept)
        };
        tokio::select! {
            _ = primary.wait_for(is_other) => {}
            () = self.stops() => {}
        }
    }

    /// True if nothing new is accepted.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.borrow().is_some()
    }

    /// The time for connections, which never goes back.
    pub(super) fn now(&self) -> Millis {
        Millis(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX))
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
