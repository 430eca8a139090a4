//! The options of sockets, and how one is connected.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use crate::interface::Fault;

/// How long connecting to one address may take.
const CONNECT: Duration = Duration::from_secs(2);
/// After this silence the system asks whether the other end is still there…
const SILENT: Duration = Duration::from_secs(1);
/// …and asks again at this interval…
const AGAIN: Duration = Duration::from_secs(1);
/// …so often, before it ends the connection.
const RETRIES: u32 = 2;
/// A connection ends if nothing is taken by the other end for so long. This is also the limit of one write.
pub(crate) const UNRECEIVED: Duration = Duration::from_secs(3);

/// Sends small frames at once, and ends the connection to a machine that went away silently.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_nonblocking(false)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(SILENT).with_interval(AGAIN).with_retries(RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNRECEIVED))?;
    Ok(())
}

/// Connects to the first of the addresses that answers.
pub(crate) fn connect(address: &str, only_loopback: bool) -> Result<TcpStream, Fault> {
    let mut fault = Fault::Socket(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    for found in address.to_socket_addrs()? {
        if only_loopback && !found.ip().is_loopback() {
            fault = Fault::NotLoopback;
            continue;
        }
        match TcpStream::connect_timeout(&found, CONNECT).and_then(not_to_itself) {
            Ok(socket) => {
                tune(&socket)?;
                return Ok(socket);
            }
            Err(error) => fault = error.into(),
        }
    }
    Err(fault)
}

/// Refuses a socket that is connected to itself by TCP's simultaneous open, which happens if a local port is tried on
/// which nobody listens. A node that starts then would find its port in use, so the port is given up at once.
fn not_to_itself(socket: TcpStream) -> io::Result<TcpStream> {
    if socket.local_addr()? == socket.peer_addr()? {
        SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the connection came back to itself"));
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_node_that_went_away_without_a_word_is_noticed_in_about_three_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = connect(&listener.local_addr().unwrap().to_string(), true).unwrap();
        let tuned = SockRef::from(&socket);
        assert!(socket.nodelay().unwrap() && tuned.keepalive().unwrap());
        assert_eq!(tuned.tcp_keepalive_time().unwrap(), SILENT);
        assert_eq!(tuned.tcp_keepalive_interval().unwrap(), AGAIN);
        assert_eq!(tuned.tcp_keepalive_retries().unwrap(), RETRIES);
        assert_eq!(SILENT + AGAIN * RETRIES, UNRECEIVED);
        #[cfg(target_os = "linux")]
        assert_eq!(tuned.tcp_user_timeout().unwrap(), Some(UNRECEIVED));
    }

    #[test]
    fn other_machines_are_not_connected_to_without_certificates() {
        // An address of documentation, RFC 5737.
        assert!(matches!(connect("192.0.2.1:7000", true), Err(Fault::NotLoopback)));
    }
}
