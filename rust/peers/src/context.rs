//! What all threads of the connections share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::Hello;

use crate::arrivals::Arrivals;
use crate::interface::Sink;
use crate::outbox::Outbox;
use crate::threads::Threads;
use crate::tls::Tls;

/// See the module.
pub(crate) struct Context {
    pub(crate) hello: Hello,
    pub(crate) tls: Option<Tls>,
    pub(crate) sink: Sink,
    /// Where the messages for each connected node wait.
    pub(crate) routes: Mutex<BTreeMap<NodeId, Arc<Outbox>>>,
    pub(crate) arrivals: Arrivals,
    pub(crate) threads: Threads,
}
