//! Options of sockets.

use std::io::{self, ErrorKind};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// After this silence the system asks whether the other end is still there…
const SILENT: Duration = Duration::from_secs(60);
/// …and asks again at this interval…
const AGAIN: Duration = Duration::from_secs(10);
/// …so often, before it closes the connection.
const RETRIES: u32 = 6;
/// A connection ends if bytes are not received for so long: the system does not ask while bytes are on their way.
const UNRECEIVED: Duration = Duration::from_secs(120);

/// Sends answers at once, and notices peers that went away silently, so that the messages that they hold go to others.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(SILENT).with_interval(AGAIN).with_retries(RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNRECEIVED))?;
    Ok(())
}

/// Waits until the socket is ready; for ever if nothing is wanted.
pub(crate) async fn ready(socket: &TcpStream, interest: Option<Interest>) -> io::Result<Ready> {
    match interest {
        Some(interest) => socket.ready(interest).await,
        None => std::future::pending().await,
    }
}

/// True if the socket was just not ready, or the call was interrupted.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Does the work, which fails if it takes longer.
pub(crate) async fn within<T>(patience: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(patience, work).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Writes all of it.
pub(crate) async fn write(socket: &TcpStream, mut out: &[u8]) -> io::Result<()> {
    while !out.is_empty() {
        socket.writable().await?;
        match socket.try_write(out) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => out = out.get(other?..).unwrap_or_default(),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;
    use tokio::runtime::Builder;

    #[test]
    fn a_peer_that_went_away_without_a_word_is_noticed() {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (socket, _) = listener.accept().await.unwrap();
            assert!(!SockRef::from(&socket).keepalive().unwrap());
            tune(&socket).unwrap();
            let tuned = SockRef::from(&socket);
            assert!(socket.nodelay().unwrap() && tuned.keepalive().unwrap());
            assert_eq!(tuned.tcp_keepalive_time().unwrap(), SILENT);
            assert_eq!(tuned.tcp_keepalive_interval().unwrap(), AGAIN);
            assert_eq!(tuned.tcp_keepalive_retries().unwrap(), RETRIES);
            #[cfg(target_os = "linux")]
            assert_eq!(tuned.tcp_user_timeout().unwrap(), Some(UNRECEIVED));
            drop(client);
        });
    }
}
