//! The socket of a client: how it is opened, and one read or write.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::failure::{Failure, Kind};
use crate::nodes::Address;
use crate::session::Session;

/// The most that one call reads.
pub(super) const PIECE_BYTES: usize = 64 << 10;

impl Address {
    /// The error of an address at which no server answers.
    fn unreachable(&self, reason: &str) -> Failure {
        Failure::with_reason(Kind::Unreachable, format!("no server answers at {}: {reason}", self.shown), reason)
    }

    /// The error of a connection that failed.
    pub(super) fn failed(&self, error: &io::Error) -> Failure {
        let reason = shown(error);
        Failure::with_reason(Kind::Unreachable, format!("the connection to {} failed: {reason}", self.shown), reason)
    }

    /// The error of a connection that the server closed.
    pub(super) fn closed(&self) -> Failure {
        let words = format!("the server at {} closed the connection", self.shown);
        Failure::with_reason(Kind::Unreachable, words, "the server closed it")
    }

    /// Connects to the first of the addresses of the host that answers.
    ///
    /// # Errors
    /// None does within the timeout, which is for all addresses together.
    pub(super) fn connect(&self, timeout: Duration) -> Result<TcpStream, Failure> {
        let mut reason = "the name has no address".to_owned();
        let began = Instant::now();
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        for address in found.map_err(|error| self.unreachable(&shown(&error)))? {
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left).and_then(prepared) {
                Ok(Some(connected)) => return Ok(connected),
                Ok(None) => "the connection came back to itself".clone_into(&mut reason),
                Err(error) => reason = shown(&error),
            }
        }
        Err(self.unreachable(&reason))
    }
}

/// An error of the system as Python shows it.
fn shown(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(number) = error.raw_os_error() else { return text };
    let words = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text);
    format!("[Errno {number}] {words}")
}

/// A socket that neither waits nor delays small requests; `None` if it is connected to itself.
pub(super) fn prepared(connected: TcpStream) -> io::Result<Option<TcpStream>> {
    if is_connected_to_itself(&connected) {
        // Closing the socket frees its port at once.
        SockRef::from(&connected).set_linger(Some(Duration::ZERO))?;
        return Ok(None);
    }
    connected.set_nodelay(true)?;
    connected.set_nonblocking(true)?;
    Ok(Some(connected))
}

/// True for a socket that is connected to itself.
///
/// A socket that connects to its own port meets itself by TCP's simultaneous open (RFC 9293, 3.5). This happens to a
/// client that keeps reconnecting to a local port on which no server listens, if the port is in the system's range of
/// ephemeral ports: in 5 of 240,000 attempts the system assigned that very port (Linux 6.18). A server that starts
/// then finds its port in use.
fn is_connected_to_itself(connected: &TcpStream) -> bool {
    match (connected.local_addr(), connected.peer_addr()) {
        (Ok(local), Ok(peer)) => local == peer,
        _ => false, // the connection has ended already, which the next read reports
    }
}

/// The result of one read.
pub(super) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// The end of the stream.
    End,
}

/// Reads once.
pub(super) fn receive(mut from: &TcpStream, into: &mut [u8]) -> io::Result<Received> {
    match from.read(into) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

/// Writes the output of a session as far as the socket accepts it; true if some is left. A socket that failed is read
/// next, which reports the error.
pub(super) fn send<W>(mut to: &TcpStream, session: &mut Session<W>) -> bool {
    loop {
        let written = match session.output().find(|piece| !piece.is_empty()) {
            None => return false,
            Some(piece) => to.write(piece),
        };
        match written {
            Ok(count) if count > 0 => session.sent(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return true,
        }
    }
}
