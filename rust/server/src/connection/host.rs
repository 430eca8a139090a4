//! The part of a server or standby that accepted connections need.

use std::net::IpAddr;
use std::rc::Rc;

use delaymq_core::units::Millis;
use delaymq_core::wire::http::HttpRequest;
use delaymq_core::wire::quota::admission::Standing;
use tokio::net::TcpStream;

use crate::access::entrance::{ConnectionSlots, Entrance};
use crate::http::cluster::ClusterPages;
use crate::http::page::Page;
use crate::options::ServerOptions;

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) socket: TcpStream,
    pub(crate) address: IpAddr,
    pub(crate) standing: Standing,
    pub(crate) slots: ConnectionSlots,
}

/// See the module.
pub(crate) trait Host: 'static {
    fn options(&self) -> &ServerOptions;

    fn entrance(&self) -> &Entrance;

    fn cluster(&self) -> Option<&dyn ClusterPages>;

    /// The time for connections, which never goes back.
    fn now(&self) -> Millis;

    /// True if nothing new is accepted.
    fn is_draining(&self) -> bool;

    /// Serves a connection in a task of its own.
    fn begin(self: Rc<Self>, accepted: Accepted);

    /// One of the pages that servers and standbys do not share. Its method was checked.
    async fn page(self: Rc<Self>, request: &HttpRequest<'_>, address: IpAddr) -> Page;
}
