//! A descriptor that one thread makes readable to wake another, or an event loop.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// See the module. It is readable from the first `wake` to the next `rest`.
#[derive(Debug)]
pub(super) struct Wakeup {
    reader: UnixStream,
    writer: UnixStream,
    is_woken: bool,
}

impl Wakeup {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { reader, writer, is_woken: false })
    }

    /// The descriptor to watch.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }

    /// A reading end of its own, for a thread that watches it without the lock.
    pub(super) fn reader(&self) -> io::Result<UnixStream> {
        self.reader.try_clone()
    }

    /// Makes it readable.
    pub(super) fn wake(&mut self) {
        if std::mem::replace(&mut self.is_woken, true) {
            return;
        }
        // A full socket is readable already.
        while matches!(self.writer.write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }

    /// Ends its being readable.
    pub(super) fn rest(&mut self) {
        if std::mem::take(&mut self.is_woken) {
            // One byte is there, since it is written once.
            let mut bytes = [0; 16];
            while matches!(self.reader.read(&mut bytes), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        }
    }
}
