//! Accepting connections, within the quotas.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::connection::host::{Accepted, Host};
use crate::connection::sockets::tune;
use crate::http::routes;

/// How long to wait if the system has no more descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// Accepts connections until it is aborted.
pub(crate) async fn take_peers<H: Host>(host: Rc<H>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let entrance = host.entrance();
        let standing = entrance.access.standing(address);
        match entrance.slots(address, standing) {
            Ok(slots) => {
                entrance.counters.accepted.add(1);
                // A socket that refuses an option is closed already.
                drop(tune(&socket));
                Rc::clone(&host).begin(Accepted { socket, address, standing, slots });
            }
            Err(full) => entrance.refuse(address, full),
        }
    }
}

/// Accepts connections of plain HTTP until it is aborted.
pub(crate) async fn take_http<H: Host>(host: Rc<H>, listener: TcpListener) {
    loop {
        let (socket, address) = next(&listener).await;
        let address = address.ip();
        let Some(room) = host.entrance().http_connections.take(address) else {
            host.entrance().refuse(address, "http");
            continue;
        };
        let host = Rc::clone(&host);
        spawn_local(async move {
            // A connection that fails affects no other.
            drop(routes::answer(&host, &socket, address).await);
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
