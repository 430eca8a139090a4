//! What is asked of the system for each socket.

use std::io::{self, ErrorKind};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;

/// A connection that is silent for so long is asked whether its other end is still there…
const SILENT: Duration = Duration::from_secs(60);
/// …and asked again so often…
const AGAIN: Duration = Duration::from_secs(10);
/// …before it is given up.
const RETRIES: u32 = 6;
/// What was sent and not received for so long ends its connection: nobody is asked while something is
/// on its way.
const UNRECEIVED: Duration = Duration::from_secs(120);

/// Asks for answers that are sent at once, and to be told of peers that went away without a word: what
/// they hold goes to others then.
pub(crate) fn tune(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let keepalive = TcpKeepalive::new().with_time(SILENT).with_interval(AGAIN).with_retries(RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNRECEIVED))?;
    Ok(())
}

/// Waits until the socket is ready; for ever where nothing is wanted of it.
pub(crate) async fn ready(socket: &TcpStream, interest: Option<Interest>) -> io::Result<Ready> {
    match interest {
        Some(interest) => socket.ready(interest).await,
        None => std::future::pending().await,
    }
}

/// True if it is only not ready, or was interrupted.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
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
