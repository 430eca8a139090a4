//! The entrance of a server or standby: which connections are accepted, and the counters of that.

use std::net::IpAddr;

use delaymq_core::wire::quota::admission::Standing;
use delaymq_core::wire::quota::notices::NoticeKind;

use crate::access::control::{AccessControl, NoticeLog};
use crate::connection::quota::{ConnectionQuota, ConnectionSlot};
use crate::counters::Counters;
use crate::options::ServerOptions;

/// See the module.
pub(crate) struct Entrance {
    pub(crate) access: AccessControl,
    pub(crate) counters: Counters,
    /// The quotas of connections, in all and for each address: all, strangers, and those of plain HTTP.
    pub(crate) connections: ConnectionQuota,
    pub(crate) strangers: ConnectionQuota,
    pub(crate) http_connections: ConnectionQuota,
}

/// The slots of a connection in the quotas.
pub(crate) struct ConnectionSlots {
    pub(crate) connection: ConnectionSlot,
    /// Released once the peer is known.
    pub(crate) stranger: Option<ConnectionSlot>,
}

impl Entrance {
    pub(crate) fn new(options: &ServerOptions, notices: NoticeLog) -> Self {
        Self {
            access: AccessControl::new(options.access.clone(), notices),
            counters: Counters::default(),
            connections: ConnectionQuota::new(options.connections_max, options.connections_per_address_max),
            strangers: ConnectionQuota::new(options.strangers_max, options.strangers_per_address_max),
            http_connections: ConnectionQuota::new(
                options.http_connections_max,
                options.http_connections_per_address_max,
            ),
        }
    }

    /// The slots of a new connection, or the name of the quota that is full.
    pub(crate) fn slots(&self, address: IpAddr, standing: Standing) -> Result<ConnectionSlots, &'static str> {
        let connection = self.connections.take(address).ok_or("connections")?;
        // Strangers take no slots of known peers.
        let stranger = match standing {
            Standing::Stranger => Some(self.strangers.take(address).ok_or("strangers")?),
            Standing::QmqClient | Standing::Trusted => None,
        };
        Ok(ConnectionSlots { connection, stranger })
    }

    /// A connection was closed at once, because of this limit.
    pub(crate) fn refuse(&self, address: IpAddr, full: &'static str) {
        self.counters.refused.add(full);
        self.access.note(NoticeKind::ConnectionRefused, address, full);
    }

    /// A connection ended because of what its peer sent, or because the peer was too slow.
    pub(crate) fn cut_off(&self, address: IpAddr, reason: &'static str) {
        self.counters.cut_off.add(reason);
        self.access.note(NoticeKind::CutOff, address, reason);
    }
}
