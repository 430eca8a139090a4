//! What all threads of the connections share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::{Hello, OTHERS_MAX};

use crate::arrivals::Arrivals;
use crate::interface::Sink;
use crate::outbox::Outbox;
use crate::threads::{Threads, lock};
use crate::tls::Tls;

/// See the module.
pub(crate) struct Context {
    /// The hello of this node, without the nodes that it is connected to.
    pub(crate) hello: Hello,
    pub(crate) tls: Option<Tls>,
    pub(crate) sink: Sink,
    /// Where the messages for each connected node wait.
    pub(crate) routes: Mutex<BTreeMap<NodeId, Arc<Outbox>>>,
    pub(crate) arrivals: Arrivals,
    pub(crate) threads: Threads,
}

impl Context {
    /// The hello of this node, with the nodes that it is connected to now.
    pub(crate) fn hello(&self) -> Hello {
        let routes = lock(&self.routes);
        let others = routes.iter().take(OTHERS_MAX).map(|(node, outbox)| (*node, outbox.address.address.clone()));
        Hello { others: others.collect(), ..self.hello.clone() }
    }
}
