//! One connection that this node has accepted: it receives there.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use delaymq_core::wire::peer::{Decoder, Hello, PeerFrame};

use crate::arrivals::Seat;
use crate::channel::{Channel, Received};
use crate::context::Context;
use crate::greeting::{HELLO, answer};
use crate::interface::{Direction, Fault, PeerEvent};
use crate::tls::Tls;

/// Bytes of one read.
const PIECE_BYTES: usize = 64 << 10;

/// See the module. It is counted until it is dropped.
pub(crate) struct Arrival {
    context: Arc<Context>,
    socket: Arc<TcpStream>,
    address: SocketAddr,
    number: u64,
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.context.arrivals.leave(self.number);
    }
}

impl Arrival {
    /// Counts a new connection.
    pub(crate) fn enter(context: &Arc<Context>, socket: TcpStream, address: SocketAddr) -> Result<Self, Fault> {
        let socket = Arc::new(socket);
        let number = context.arrivals.enter(&socket)?;
        Ok(Self { context: Arc::clone(context), socket, address, number })
    }

    /// Serves it until it ends.
    pub(crate) fn run(self) {
        let mut decoder = Decoder::default();
        match self.greet(&mut decoder) {
            Err(fault) => self.report(fault),
            Ok((mut channel, hello)) => {
                let Context { arrivals, sink, .. } = &*self.context;
                let seat = arrivals.admit(self.number, &self.socket, &hello, sink);
                let fault = self.receive(&mut channel, &mut decoder, &seat, &hello);
                seat.leave(self.number, hello.node, self.cause(fault), sink);
            }
        }
    }

    fn greet(&self, decoder: &mut Decoder) -> Result<(Channel, Hello), Fault> {
        let deadline = Instant::now() + HELLO;
        let tls = self.context.tls.as_ref().map(Tls::server).transpose()?;
        let mut channel = Channel::new(Arc::clone(&self.socket), tls, deadline);
        let hello = answer(&mut channel, decoder, &self.context.hello())?;
        Ok((channel, hello))
    }

    /// Passes on messages until the connection ends. Returns why it ended.
    fn receive(&self, channel: &mut Channel, decoder: &mut Decoder, seat: &Seat, hello: &Hello) -> Fault {
        let mut bytes = vec![0; PIECE_BYTES];
        loop {
            loop {
                let message = match decoder.next_frame() {
                    Ok(Some(PeerFrame::Message(message))) => message,
                    Ok(Some(_)) => return Fault::Unexpected { expected: "a message" },
                    Ok(None) => break,
                    Err(malformed) => return malformed.into(),
                };
                let event = PeerEvent::Message(hello.node, message);
                if !seat.pass_on(self.number, event, &self.context.sink) {
                    return Fault::Replaced;
                }
            }
            match channel.receive(&mut bytes) {
                Ok(Received::Bytes(count)) => decoder.feed(bytes.get(..count).unwrap_or_default()),
                Ok(Received::Nothing) => {}
                Ok(Received::End) => return Fault::Ended,
                Err(fault) => return fault,
            }
        }
    }

    /// The reason for the end of a connection, which may be that this node has ended it.
    fn cause(&self, fault: Fault) -> Fault {
        if self.context.arrivals.is_closed() { Fault::Removed } else { fault }
    }

    fn report(&self, fault: Fault) {
        let was_counted = self.context.arrivals.leave(self.number);
        let fault = if was_counted { self.cause(fault) } else { Fault::Full };
        let (address, direction) = (self.address.to_string(), Direction::Incoming);
        (self.context.sink)(PeerEvent::Refused { address, direction, fault });
    }
}
