//! A descriptor that one thread makes readable to wake another, or an event loop.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// See the module. It is readable from the first `wake` to the next `rest`.
#[derive(Debug)]
pub(super) struct Wakeup {
    ends: Option<Ends>,
    is_woken: bool,
}

#[derive(Debug)]
struct Ends {
    reader: Arc<UnixStream>,
    writer: UnixStream,
}

impl Wakeup {
    pub(super) fn new() -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self { ends: Some(Ends { reader: Arc::new(reader), writer }), is_woken: false })
    }

    /// The descriptor to watch; `None` once it is closed.
    pub(super) fn descriptor(&self) -> Option<RawFd> {
        self.ends.as_ref().map(|ends| ends.reader.as_raw_fd())
    }

    /// The end to watch, for a thread without the lock; `None` once it is closed.
    pub(super) fn reader(&self) -> Option<Arc<UnixStream>> {
        self.ends.as_ref().map(|ends| Arc::clone(&ends.reader))
    }

    /// Makes it readable.
    pub(super) fn wake(&mut self) {
        let Some(ends) = self.ends.as_ref().filter(|_| !self.is_woken) else { return };
        // A full socket is readable already.
        while matches!((&ends.writer).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        self.is_woken = true;
    }

    /// Ends its being readable.
    pub(super) fn rest(&mut self) {
        let Some(ends) = self.ends.as_ref().filter(|_| self.is_woken) else { return };
        // One byte is there, since it is written once.
        let mut bytes = [0; 16];
        while matches!((&*ends.reader).read(&mut bytes), Err(error) if error.kind() == ErrorKind::Interrupted) {}
        self.is_woken = false;
    }

    /// Closes it: nobody polls any more.
    pub(super) fn close(&mut self) {
        self.ends = None;
    }
}
