//! Waits for a socket, and ends the wait from another thread.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A wake is remembered until the next wait.
#[derive(Debug)]
pub(crate) struct Wake {
    reader: UnixStream,
    writer: UnixStream,
}

impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer })
    }

    /// Ends the wait that is under way, or the next one.
    pub(crate) fn wake(&self) {
        // A full socket is readable already.
        while matches!((&self.writer).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }

    /// Waits until the socket, if there is one, can be read or has ended, until a wake, or for `at_most`. True if it is
    /// the socket.
    pub(crate) fn wait(&self, socket: Option<BorrowedFd<'_>>, at_most: Option<Duration>) -> bool {
        let timeout = at_most.and_then(|at_most| Timespec::try_from(at_most).ok());
        let mine = self.reader.as_fd();
        let mut polled = [PollFd::from_borrowed_fd(mine, PollFlags::IN), PollFd::from_borrowed_fd(mine, PollFlags::IN)];
        if let (Some(socket), [_, second]) = (socket, &mut polled) {
            *second = PollFd::from_borrowed_fd(socket, PollFlags::IN);
        }
        // A caller looks at its own state after each wait, so an interruption counts as a wake.
        let found = poll(&mut polled, timeout.as_ref());
        let mut bytes = [0; 64];
        while matches!((&self.reader).read(&mut bytes), Ok(count) if count == bytes.len()) {}
        let [_, second] = polled.map(|one| one.revents());
        socket.is_some() && found != Err(Errno::INTR) && !second.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_wake_is_remembered_until_the_next_wait_and_no_longer() {
        let wake = Wake::new().unwrap();
        (0..1_000).for_each(|_| wake.wake());
        assert!(!wake.wait(None, None));
        assert!(!wake.wait(None, Some(Duration::from_millis(1))), "ends by its limit");
    }

    #[test]
    fn a_socket_is_told_apart_from_a_wake() {
        let (wake, listener) = (Wake::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        wake.wake();
        assert!(!wake.wait(Some(listener.as_fd()), None));
        let _connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(wake.wait(Some(listener.as_fd()), None));
    }
}
