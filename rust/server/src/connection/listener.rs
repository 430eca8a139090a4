//! Accepting connections, within the quotas.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use delaymq_core::wire::quota::admission::Standing;
use delaymq_core::wire::quota::notices::NoticeKind;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::connection::peer::Peer;
use crate::connection::quota::ConnectionSlot;
use crate::connection::sockets::tune;
use crate::http::routes;
use crate::server_state::ServerState;

/// How long to wait if the system has no more descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// The slots of a connection in the quotas.
struct ConnectionSlots {
    connection: ConnectionSlot,
    /// Released once the peer is known.
    stranger: Option<ConnectionSlot>,
}

/// Accepts connections until it is aborted.
pub(crate) async fn take_peers(state: Rc<ServerState>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let standing = state.access.standing(address);
        match slots(&state, address, standing) {
            Ok(slots) => begin(&state, address, standing, slots, socket),
            Err(full) => refuse(&state, address, full),
        }
    }
}

/// The slots of a new connection, or the name of the quota that is full.
fn slots(state: &ServerState, address: IpAddr, standing: Standing) -> Result<ConnectionSlots, &'static str> {
    if state.is_draining() {
        return Err("stopping");
    }
    let connection = state.connections.take(address).ok_or("connections")?;
    // Strangers take no slots of known peers.
    let stranger = match standing {
        Standing::Stranger => Some(state.strangers.take(address).ok_or("strangers")?),
        Standing::QmqClient | Standing::Trusted => None,
    };
    Ok(ConnectionSlots { connection, stranger })
}

fn refuse(state: &ServerState, address: IpAddr, full: &'static str) {
    state.counters.refused.add(full);
    state.access.note(NoticeKind::ConnectionRefused, address, full);
}

/// Accepts connections of plain HTTP until it is aborted.
pub(crate) async fn take_http(state: Rc<ServerState>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let Some(room) = state.http_connections.take(address) else {
            refuse(&state, address, "http");
            continue;
        };
        let state = Rc::clone(&state);
        spawn_local(async move {
            // A connection that fails affects no other.
            drop(routes::answer(&state, &socket, address).await);
            drop(room);
        });
    }
}

async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(taken) => return taken,
            Err(_) => sleep(ACCEPT_WAIT).await,
        }
    }
}

fn begin(state: &Rc<ServerState>, address: IpAddr, standing: Standing, slots: ConnectionSlots, socket: TcpStream) {
    state.counters.accepted.add(1);
    // A socket that refuses an option is closed already.
    drop(tune(&socket));
    let ConnectionSlots { connection, stranger } = slots;
    let (number, peer) = (state.number(), Peer::new(state, address, standing, stranger));
    state.peers.borrow_mut().insert(number, Rc::clone(&peer));
    let state = Rc::clone(state);
    spawn_local(async move {
        peer.run(socket).await;
        state.peers.borrow_mut().remove(&number);
        drop(connection);
        state.left.notify_one();
    });
}
