//! A connection that sends and reads plain frames, for what no client of ours does.

use std::io::{Read, Write};
use std::net::TcpStream;

use delaymq_core::error::Result as Filled;
use delaymq_core::wire::extension::{EXTENSION_VERSION, PING};
use delaymq_core::wire::frame::{HEAD_BYTES, Header, put_frame, read_head};

use crate::case::{Case, Failure};
use crate::client::connect;

/// See the module.
pub(crate) struct Line {
    pub(crate) socket: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Line {
    /// Connects to the case's `port` of this machine.
    pub(crate) fn of(case: &Case) -> Result<Self, Failure> {
        Ok(Self { socket: connect(case.count("port")?)?, input: Vec::new(), output: Vec::new() })
    }

    /// Queues a frame.
    pub(crate) fn put(&mut self, header: Header, fill: impl FnOnce(&mut Vec<u8>) -> Filled<()>) -> Result<(), Failure> {
        Ok(put_frame(&mut self.output, header, fill)?)
    }

    /// Writes what is queued.
    pub(crate) fn send(&mut self) -> Result<(), Failure> {
        self.socket.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// Asks whether the other side lives, and waits for the answer: what was sent before is taken.
    pub(crate) fn ping(&mut self) -> Result<(), Failure> {
        self.put(Header::request(PING, EXTENSION_VERSION, 0), |_| Ok(()))?;
        self.send()?;
        while self.wait()?.0.request_code != PING {}
        Ok(())
    }

    /// Reads once; false where the other side has closed the connection.
    pub(crate) fn receive(&mut self) -> Result<bool, Failure> {
        let mut read = [0; 16 << 10];
        let count = self.socket.read(&mut read)?;
        self.input.extend_from_slice(read.get(..count).unwrap_or_default());
        Ok(count > 0)
    }

    /// The next frame that is here whole: its header and its body.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Vec<u8>)>, Failure> {
        let head = read_head(&self.input).map_err(|malformed| Failure(format!("{malformed:?}")))?;
        let Some(head) = head.filter(|head| head.frame_bytes <= self.input.len()) else { return Ok(None) };
        let frame: Vec<u8> = self.input.drain(..head.frame_bytes).collect();
        Ok(Some((head.header, frame.get(HEAD_BYTES..).unwrap_or_default().to_vec())))
    }

    /// The next frame, waiting for it.
    pub(crate) fn wait(&mut self) -> Result<(Header, Vec<u8>), Failure> {
        loop {
            if let Some(frame) = self.next()? {
                return Ok(frame);
            }
            if !self.receive()? {
                return Err(Failure("the server closed the connection".to_owned()));
            }
        }
    }
}
