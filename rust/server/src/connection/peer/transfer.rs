//! Bytes between a connection and its socket.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BufMut;
use delaymq_core::wire::quota::unfinished::{Borrower, ReadsOn, Unfinished};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::Peer;
use crate::connection::sockets::is_passing;

/// Bytes of unfinished requests that each connection may send, whatever others do.
const INPUT_BYTES_FREE: usize = 64 << 10;
/// Pieces of output that one call writes.
const PIECES: usize = 16;

impl Peer {
    /// Calls `act` with what it has borrowed, the book of all unfinished requests, and the address by which it is
    /// counted.
    pub(super) fn borrow<T>(&self, act: impl FnOnce(&mut Borrower, &mut Unfinished<IpAddr>, IpAddr) -> T) -> T {
        act(&mut self.borrower.borrow_mut(), &mut self.state.unfinished.borrow_mut(), self.counted)
    }

    /// A request of so many bytes was useless.
    pub(crate) fn worthless(&self, bytes: usize) {
        self.borrow(|borrower, book, of| borrower.worthless(book, of, bytes, self.state.now()));
    }

    /// Reads once. Returns true if the socket may have more.
    pub(super) fn read(&self, socket: &TcpStream) -> io::Result<bool> {
        let mut connection = self.connection.borrow_mut();
        if !connection.wants_input() {
            return Ok(false);
        }
        if self.state.input_bytes.get() > self.state.options.input_bytes_max
            && connection.input_bytes() > INPUT_BYTES_FREE
        {
            // All connections together have too much under way. That is not this peer's fault.
            self.is_sent_away.set(true);
            connection.crowded();
            return Ok(false);
        }
        let now = self.state.now();
        let input_bytes = connection.input_bytes();
        match self.borrow(|borrower, book, of| borrower.reads_on(book, of, input_bytes, now)) {
            ReadsOn::Now => {}
            ReadsOn::From(until) => {
                connection.rests(until, now);
                return Ok(false);
            }
            ReadsOn::Never => {
                connection.crowded();
                return Ok(false);
            }
        }
        let read = connection.read_with(now, |input| {
            let room = input.remaining_mut();
            socket.try_read_buf(input).map(|count| (count, room))
        });
        match read {
            Ok((0, _)) => {
                connection.peer_closed();
                Ok(false)
            }
            Ok((count, room)) => {
                self.state.entrance.counters.bytes_in.add(count as u64);
                if count < room {
                    await_more(socket);
                }
                Ok(count == room)
            }
            Err(error) if is_passing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Updates this connection's part of the input bytes of all.
    pub(super) fn note_input(&self) {
        let bytes = self.connection.borrow().input_bytes();
        let before = self.input_bytes.replace(bytes);
        let all = self.state.input_bytes.get().saturating_sub(before).saturating_add(bytes);
        self.state.input_bytes.set(all);
    }

    /// Writes until nothing is left or the socket takes no more. Returns true if it takes no more.
    pub(super) fn write(&self, socket: &TcpStream) -> io::Result<bool> {
        let mut connection = self.connection.borrow_mut();
        while connection.output_bytes() > 0 {
            let pieces: Vec<IoSlice<'_>> = connection.output().take(PIECES).map(IoSlice::new).collect();
            match socket.try_write_vectored(&pieces) {
                Ok(count) => {
                    drop(pieces);
                    self.state.entrance.counters.bytes_out.add(count as u64);
                    connection.sent(count, self.state.now());
                }
                Err(error) if is_passing(&error) => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// A read that did not fill its buffer has emptied the socket: the socket is ready again when more arrives. Otherwise
/// another call of the system would find that out.
fn await_more(socket: &TcpStream) {
    let emptied = socket.try_io(Interest::READABLE, || Err::<(), io::Error>(io::ErrorKind::WouldBlock.into()));
    debug_assert!(emptied.is_err(), "nothing was read");
}

/// True if the peer sends no more, whether everything was read or not.
pub(super) fn is_closed_there(socket: &TcpStream) -> bool {
    let ready = pin!(socket.ready(Interest::READABLE));
    let found = ready.poll(&mut Context::from_waker(Waker::noop()));
    matches!(found, Poll::Ready(Ok(ready)) if ready.is_read_closed())
}
