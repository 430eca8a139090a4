//! Taking connections, as many as there is room for.

use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::hub::Hub;
use crate::peer::Peer;
use crate::routes;

/// How long to wait where the system gives no more descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// Takes connections until it is aborted.
pub(crate) async fn take_peers(hub: Rc<Hub>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        match Room::of(&hub, address.ip()) {
            Some(room) => begin(&hub, room, socket),
            None => hub.counters.refused.add(1),
        }
    }
}

/// Takes connections of plain HTTP until it is aborted.
pub(crate) async fn take_http(hub: Rc<Hub>, listener: TcpListener) {
    loop {
        let (socket, _) = next(&listener).await;
        let count = hub.http_connections.get();
        if count >= hub.options.http_connections_max {
            hub.counters.refused.add(1);
            continue;
        }
        hub.http_connections.set(count.saturating_add(1));
        let hub = Rc::clone(&hub);
        spawn_local(async move {
            // A connection that breaks is its own matter.
            drop(routes::answer(&hub, &socket).await);
            hub.http_connections.set(hub.http_connections.get().saturating_sub(1));
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

fn begin(hub: &Rc<Hub>, room: Room, socket: TcpStream) {
    hub.counters.accepted.add(1);
    // Without it small answers are held back; a socket that refuses it is over already.
    drop(socket.set_nodelay(true));
    let (number, peer) = (hub.number(), Peer::new(hub));
    hub.peers.borrow_mut().insert(number, Rc::clone(&peer));
    let hub = Rc::clone(hub);
    spawn_local(async move {
        peer.run(socket).await;
        hub.peers.borrow_mut().remove(&number);
        drop(room);
        hub.left.notify_one();
    });
}

/// A connection's place among those of its address, and of all.
struct Room {
    hub: Rc<Hub>,
    address: IpAddr,
}

impl Room {
    fn of(hub: &Rc<Hub>, address: IpAddr) -> Option<Self> {
        if hub.is_draining() || hub.peers.borrow().len() >= hub.options.connections_max {
            return None;
        }
        let mut by_address = hub.by_address.borrow_mut();
        let count = by_address.get(&address).copied().unwrap_or_default();
        if count >= hub.options.connections_per_address_max {
            return None;
        }
        by_address.insert(address, count.saturating_add(1));
        Some(Self { hub: Rc::clone(hub), address })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.hub.by_address.borrow_mut().entry(self.address) {
            *entry.get_mut() = entry.get().saturating_sub(1);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}
