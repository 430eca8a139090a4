//! The bytes of one connection, with or without TLS. One thread uses it at a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::Connection;

use crate::interface::Fault;
use crate::socket::UNRECEIVED;

/// See the module.
pub(crate) struct Channel {
    socket: Arc<TcpStream>,
    tls: Option<Box<Connection>>,
    /// The end of the hellos. None after them.
    deadline: Option<Instant>,
}

/// The result of one read.
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Bytes of TLS alone.
    Nothing,
    /// The end of the stream.
    End,
}

impl Channel {
    /// A connection on which all reads and writes together may take until `deadline`.
    pub(crate) fn new(socket: Arc<TcpStream>, tls: Option<Connection>, deadline: Instant) -> Self {
        Self { socket, tls: tls.map(Box::new), deadline: Some(deadline) }
    }

    /// From now on, a read waits as long as the connection lasts, and each write has a limit of its own.
    pub(crate) fn settle(&mut self) -> Result<(), Fault> {
        self.deadline = None;
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(Some(UNRECEIVED))?;
        Ok(())
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads the socket at most once.
    pub(crate) fn receive(&mut self, into: &mut [u8]) -> Result<Received, Fault> {
        let mut timed = Timed { socket: &self.socket, deadline: self.deadline };
        let Some(tls) = &mut self.tls else {
            return Ok(match timed.read(into).map_err(broken)? {
                0 => Received::End,
                count => Received::Bytes(count),
            });
        };
        match decrypted(tls, into)? {
            Received::Nothing => {}
            found => return Ok(found),
        }
        if tls.read_tls(&mut timed).map_err(broken)? == 0 {
            return Ok(Received::End);
        }
        let processed = tls.process_new_packets();
        // What it has to say about it: an alert, or an answer of TLS.
        let answered = flush(tls, &mut timed);
        processed?;
        answered?;
        decrypted(tls, into)
    }

    /// Writes all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut timed = Timed { socket: &self.socket, deadline: self.deadline };
        let Some(tls) = &mut self.tls else { return timed.write_all(bytes).map_err(broken) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = tls.writer().write(rest)?;
            rest = rest.get(count..).unwrap_or_default();
            flush(tls, &mut timed)?;
        }
        Ok(())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // The thread that ends connections may hold the socket a moment longer.
        drop(self.socket.shutdown(Shutdown::Both));
    }
}

fn decrypted(tls: &mut Connection, into: &mut [u8]) -> Result<Received, Fault> {
    match tls.reader().read(into) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
        Err(error) => Err(broken(error)),
    }
}

fn flush(tls: &mut Connection, timed: &mut Timed<'_>) -> Result<(), Fault> {
    while tls.wants_write() {
        if tls.write_tls(timed).map_err(broken)? == 0 {
            return Err(Fault::Ended);
        }
    }
    Ok(())
}

/// The fault of a read or write.
fn broken(error: io::Error) -> Fault {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::WriteZero => Fault::Ended,
        _ => Fault::Socket(error),
    }
}

/// A socket whose reads and writes together end at a time.
struct Timed<'a> {
    socket: &'a TcpStream,
    deadline: Option<Instant>,
}

impl Timed<'_> {
    /// The time that is left.
    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn retried(&self, mut call: impl FnMut(&Self) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match call(self) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(ErrorKind::TimedOut.into()),
                done => return done,
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.retried(|timed| {
            if let Some(left) = timed.left()? {
                timed.socket.set_read_timeout(Some(left))?;
            }
            (&mut &*timed.socket).read(into)
        })
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retried(|timed| {
            if let Some(left) = timed.left()? {
                timed.socket.set_write_timeout(Some(left))?;
            }
            (&mut &*timed.socket).write(bytes)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
