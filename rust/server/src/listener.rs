//! Taking connections, as many as there is room for.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use delaymq_core::wire::quota::admission::Standing;
use delaymq_core::wire::quota::notices::NoticeKind;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::hub::Hub;
use crate::peer::Peer;
use crate::room::Room;
use crate::routes;
use crate::sockets::tune;

/// How long to wait where the system gives no more descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// The places that a connection takes.
struct Rooms {
    connection: Room,
    /// Given back once the peer is known.
    stranger: Option<Room>,
}

/// Takes connections until it is aborted.
pub(crate) async fn take_peers(hub: Rc<Hub>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let standing = hub.guard.standing(address);
        match rooms(&hub, address, standing) {
            Ok(rooms) => begin(&hub, address, standing, rooms, socket),
            Err(full) => refuse(&hub, address, full),
        }
    }
}

/// Places for a connection, or of which sort there are as many as there may be.
fn rooms(hub: &Hub, address: IpAddr, standing: Standing) -> Result<Rooms, &'static str> {
    if hub.is_draining() {
        return Err("stopping");
    }
    let connection = hub.connections.take(address).ok_or("connections")?;
    // Those who may be anybody do not take the places of those who are known.
    let stranger = match standing {
        Standing::Stranger => Some(hub.strangers.take(address).ok_or("strangers")?),
        Standing::QmqClient | Standing::Trusted => None,
    };
    Ok(Rooms { connection, stranger })
}

fn refuse(hub: &Hub, address: IpAddr, full: &'static str) {
    hub.counters.refused.add(full);
    hub.guard.note(NoticeKind::ConnectionRefused, address, full);
}

/// Takes connections of plain HTTP until it is aborted.
pub(crate) async fn take_http(hub: Rc<Hub>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let Some(room) = hub.http_connections.take(address) else {
            refuse(&hub, address, "http");
            continue;
        };
        let hub = Rc::clone(&hub);
        spawn_local(async move {
            // A connection that breaks is its own matter.
            drop(routes::answer(&hub, &socket, address).await);
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

fn begin(hub: &Rc<Hub>, address: IpAddr, standing: Standing, rooms: Rooms, socket: TcpStream) {
    hub.counters.accepted.add(1);
    // A socket that refuses any of it is over already.
    drop(tune(&socket));
    let Rooms { connection, stranger } = rooms;
    let (number, peer) = (hub.number(), Peer::new(hub, address, standing, stranger));
    hub.peers.borrow_mut().insert(number, Rc::clone(&peer));
    let hub = Rc::clone(hub);
    spawn_local(async move {
        peer.run(socket).await;
        hub.peers.borrow_mut().remove(&number);
        drop(connection);
        hub.left.notify_one();
    });
}
