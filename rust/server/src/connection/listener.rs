//! Taking connections, as many as there is room for.

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

/// How long to wait where the system gives no more descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// The places that a connection takes.
struct ConnectionSlots {
    connection: ConnectionSlot,
    /// Given back once the peer is known.
    stranger: Option<ConnectionSlot>,
}

/// Takes connections until it is aborted.
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

/// Places for a connection, or of which sort there are as many as there may be.
fn slots(state: &ServerState, address: IpAddr, standing: Standing) -> Result<ConnectionSlots, &'static str> {
    if state.is_draining() {
        return Err("stopping");
    }
    let connection = state.connections.take(address).ok_or("connections")?;
    // Those who may be anybody do not take the places of those who are known.
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

/// Takes connections of plain HTTP until it is aborted.
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
            // A connection that breaks is its own matter.
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
    // A socket that refuses any of it is over already.
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
