//! The other end of a connection, byte by byte, without TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use delaymq_core::wire::peer::{Decoder, Hello, PeerFrame};

use crate::nodes::{AT_MOST, Node};

/// See the module.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
    decoder: Decoder,
}

pub(crate) fn bytes_of(frame: &PeerFrame) -> Vec<u8> {
    let mut out = Vec::new();
    frame.put(&mut out).unwrap();
    out
}

impl Raw {
    fn new(socket: TcpStream) -> Self {
        socket.set_read_timeout(Some(AT_MOST)).unwrap();
        Self { socket, decoder: Decoder::default() }
    }

    /// Connects to a node.
    pub(crate) fn connect(node: &Node) -> Self {
        Self::new(TcpStream::connect(node.peers.address()).unwrap())
    }

    /// Accepts a node's connection.
    pub(crate) fn accept(listener: &TcpListener) -> Self {
        Self::new(listener.accept().unwrap().0)
    }

    /// Connects to a node, and begins.
    pub(crate) fn begin(node: &Node, hello: Hello) -> Self {
        let mut raw = Self::connect(node);
        raw.put(&PeerFrame::Hello(hello));
        assert!(matches!(raw.next(), Some(PeerFrame::Hello(found)) if found.node == node.id));
        raw.put(&PeerFrame::Begin);
        raw
    }

    /// Sends bytes. The other end may have gone.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        drop(self.socket.write_all(bytes));
    }

    pub(crate) fn put(&mut self, frame: &PeerFrame) {
        self.write(&bytes_of(frame));
    }

    /// The next frame; none at the end.
    pub(crate) fn next(&mut self) -> Option<PeerFrame> {
        let mut bytes = [0; 100];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            match self.socket.read(&mut bytes) {
                Ok(count) if count > 0 => self.decoder.feed(&bytes[..count]),
                _ => return None,
            }
        }
    }

    /// Waits until the other end closes, and drops what it says before.
    pub(crate) fn wait_end(&mut self) {
        while self.socket.read(&mut [0; 100]).is_ok_and(|count| count > 0) {}
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        drop(self.socket.shutdown(Shutdown::Both));
    }
}
