//! A client of a served store: core's caller over a blocking socket.

use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use delaymq_core::error::Result as Filled;
use delaymq_core::units::Millis;
use delaymq_core::wire::client::caller::{Caller, CallerLimits, Heard, told};
use delaymq_core::wire::extension::PING;
use delaymq_core::wire::extension::hello::put_ping;

use crate::case::{Case, Failure};

/// After so long without a byte the other side is lost.
const SILENCE: Duration = Duration::from_secs(20);
/// How long one process waits until another is so far.
const MEETING: Duration = Duration::from_secs(20);
const READ_BYTES: usize = 256 << 10;
/// Pieces of output that one call writes.
const PIECES: usize = 64;
/// Nothing here is judged by time.
const NOW: Millis = Millis(0);

/// See the module.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    caller: Caller,
    input: Vec<u8>,
}

impl Client {
    /// Connects to the case's `port` of this machine.
    pub(crate) fn of(case: &Case) -> Result<Self, Failure> {
        Ok(Self::over(connect(case.count("port")?)?))
    }

    fn over(socket: TcpStream) -> Self {
        Self { socket, caller: Caller::new(CallerLimits::default()), input: vec![0; READ_BYTES] }
    }

    /// How many requests are unanswered.
    pub(crate) fn pending(&self) -> usize {
        self.caller.pending_count()
    }

    /// Queues a request.
    pub(crate) fn ask(&mut self, command: i16, fill: impl FnOnce(&mut Vec<u8>) -> Filled<()>) -> Result<(), Failure> {
        let asked = self.caller.ask(command, NOW, fill)?;
        asked.map(|_| ()).ok_or_else(|| Failure("more requests in flight than a connection may have".to_owned()))
    }

    /// Queues a request that has no answer.
    pub(crate) fn tell(&mut self, command: i16, fill: impl FnOnce(&mut Vec<u8>) -> Filled<()>) -> Result<(), Failure> {
        let has_room = self.caller.tell(command, NOW, fill)?;
        if has_room { Ok(()) } else { Err(Failure("more output than a connection may have".to_owned())) }
    }

    /// Writes all that is queued.
    pub(crate) fn send(&mut self) -> Result<(), Failure> {
        while self.caller.output_bytes() > 0 {
            let pieces: Vec<IoSlice<'_>> = self.caller.output().take(PIECES).map(IoSlice::new).collect();
            let count = self.socket.write_vectored(&pieces)?;
            drop(pieces);
            self.caller.sent(count);
        }
        Ok(())
    }

    /// Reads once.
    pub(crate) fn receive(&mut self) -> Result<(), Failure> {
        let count = match self.socket.read(&mut self.input) {
            Ok(0) => return Err(Failure("the server closed the connection".to_owned())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut left = self.input.get(..count).unwrap_or_default();
        let taken = self.caller.receive(left);
        left = left.get(taken..).unwrap_or_default();
        if left.is_empty() { Ok(()) } else { Err(Failure("a frame over the limit".to_owned())) }
    }

    /// The next answer or delivery that is here whole; an answer that says no is a failure.
    pub(crate) fn hear(&mut self) -> Result<Option<Heard>, Failure> {
        let heard = self.caller.hear().map_err(|malformed| Failure(format!("{malformed:?}")))?;
        if let Some(Heard::Answer { code, body, .. }) = &heard {
            told(*code, body).map_err(|refused| Failure(refused.words))?;
        }
        Ok(heard)
    }

    /// Asks, and waits for the answer; what is delivered before it is handed to `delivered`.
    pub(crate) fn answer(
        &mut self,
        command: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> Filled<()>,
    ) -> Result<bytes::Bytes, Failure> {
        self.ask(command, fill)?;
        self.send()?;
        loop {
            match self.hear()? {
                Some(Heard::Answer { body, .. }) => return Ok(body),
                Some(Heard::Deliver(_)) => return Err(Failure("a delivery that nobody waits for".to_owned())),
                None => self.receive()?,
            }
        }
    }

    /// Asks whether the other side lives, and waits for the answer.
    pub(crate) fn ping(&mut self) -> Result<(), Failure> {
        self.answer(PING, |out| put_ping(out, b"bench")).map(|_| ())
    }
}

/// A connection to a port of this machine.
pub(crate) fn connect(port: u64) -> Result<TcpStream, Failure> {
    let port = u16::try_from(port).map_err(|_| Failure(format!("{port} is no port")))?;
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(SILENCE))?;
    Ok(socket)
}

/// Tells other processes something, by a file.
pub(crate) fn tell_others(file: &Path, text: &str) -> Result<(), Failure> {
    let unfinished = file.with_extension("unfinished");
    std::fs::write(&unfinished, text)?;
    Ok(std::fs::rename(unfinished, file)?)
}

/// Waits until another process has told something.
pub(crate) fn told_by_others(file: &Path) -> Result<String, Failure> {
    let started = Instant::now();
    loop {
        match std::fs::read_to_string(file) {
            Ok(text) => return Ok(text),
            Err(error) if error.kind() == ErrorKind::NotFound && started.elapsed() < MEETING => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(Failure(format!("{}: {error}", file.display()))),
        }
    }
}
