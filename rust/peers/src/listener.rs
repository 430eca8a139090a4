//! Accepts the connections of other nodes.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use crate::arrival::Arrival;
use crate::context::Context;
use crate::interface::{Direction, PeerEvent};
use crate::socket::tune;
use crate::wake::Wake;

/// How long to wait if the system has no more descriptors or threads.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// Accepts until the connections are closed, which wakes it. The listener does not block.
pub(crate) fn run(context: &Arc<Context>, listener: &TcpListener, wake: &Wake) {
    while !context.arrivals.is_closed() {
        if wake.wait(Some(listener.as_fd()), None) && !accept(context, listener) {
            wake.wait(None, Some(ACCEPT_WAIT));
        }
    }
}

/// Accepts one connection. False if the system cannot.
fn accept(context: &Arc<Context>, listener: &TcpListener) -> bool {
    let Ok((socket, address)) = listener.accept() else { return false };
    if tune(&socket).is_err() {
        return true; // it has ended already
    }
    match Arrival::enter(context, socket, address) {
        Ok(arrival) => context.threads.start("delaymq-peer-in", || arrival.run()).is_ok(),
        Err(fault) => {
            let (address, direction) = (address.to_string(), Direction::Incoming);
            (context.sink)(PeerEvent::Refused { address, direction, fault });
            true
        }
    }
}
