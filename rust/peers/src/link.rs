//! One connection that this node makes: it sends there, and connects again whenever the connection ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::replication::NodeId;
use delaymq_core::wire::peer::{Hello, Refusal};

use crate::channel::{Channel, Received};
use crate::context::Context;
use crate::greeting::{HELLO, call};
use crate::interface::{Direction, Fault, PeerEvent};
use crate::outbox::Outbox;
use crate::socket::connect;
use crate::threads::lock;

/// The first and the longest delay between two attempts to connect.
const RETRY_MS: (u64, u64) = (50, 1_000);

/// Messages for a node go to its outbox while this exists.
struct Route<'a> {
    context: &'a Context,
    outbox: &'a Outbox,
    node: NodeId,
}

impl Drop for Route<'_> {
    fn drop(&mut self) {
        lock(&self.context.routes).remove(&self.node);
        self.outbox.close();
    }
}

/// Connects, and serves the connection, again and again until the outbox is ended.
pub(crate) fn run(context: &Context, outbox: &Arc<Outbox>) {
    let mut attempt = 0_u32;
    while !outbox.is_ended() {
        match greet(context, outbox) {
            Ok((channel, hello, route)) => {
                attempt = 0;
                serve(context, outbox, channel, hello, route);
            }
            Err(_) if outbox.is_ended() => {}
            Err(fault) => {
                outbox.close();
                outbox.note_fault(&fault);
                let (address, direction) = (outbox.address.address.clone(), Direction::Outgoing);
                (context.sink)(PeerEvent::Refused { address, direction, fault });
            }
        }
        back_off(outbox, attempt);
        attempt = attempt.saturating_add(1);
    }
    outbox.close();
}

fn greet<'a>(context: &'a Context, outbox: &'a Arc<Outbox>) -> Result<(Channel, Hello, Route<'a>), Fault> {
    let socket = Arc::new(connect(&outbox.address.address, context.tls.is_none())?);
    let deadline = Instant::now() + HELLO;
    outbox.begin(&socket)?;
    let host = outbox.address.host().unwrap_or_default();
    let tls = context.tls.as_ref().map(|tls| tls.client(host)).transpose()?;
    let mut channel = Channel::new(socket, tls, deadline);
    let (hello, route) = call(&mut channel, &context.hello(), |hello| claim(context, outbox, hello.node))?;
    Ok((channel, hello, route))
}

/// Takes the messages for a node, if it is the right one and is not connected at another address.
fn claim<'a>(context: &'a Context, outbox: &'a Arc<Outbox>, node: NodeId) -> Result<Route<'a>, Refusal> {
    if outbox.address.node.is_some_and(|expected| expected != node) {
        return Err(Refusal::OtherNode);
    }
    let mut routes = lock(&context.routes);
    if routes.contains_key(&node) {
        return Err(Refusal::TwoAddresses);
    }
    routes.insert(node, Arc::clone(outbox));
    drop(routes);
    outbox.open(node);
    Ok(Route { context, outbox, node })
}

fn serve(context: &Context, outbox: &Outbox, mut channel: Channel, hello: Hello, route: Route<'_>) {
    let direction = Direction::Outgoing;
    let node = hello.node;
    (context.sink)(PeerEvent::Connected { hello, direction });
    let Err(fault) = write(outbox, &mut channel);
    drop((channel, route));
    let fault = if outbox.is_ended() { Fault::Removed } else { fault };
    (context.sink)(PeerEvent::Disconnected { node, direction, fault });
}

/// Writes what waits until the connection ends.
fn write(outbox: &Outbox, channel: &mut Channel) -> Result<std::convert::Infallible, Fault> {
    let mut written = 0;
    loop {
        if let Some(piece) = outbox.next_piece(written)? {
            channel.send(&piece)?;
            written = piece.len();
        } else {
            written = 0;
            wait(outbox, channel)?;
        }
    }
}

/// Waits for a message. The other end sends nothing here, so what can be read is its end.
fn wait(outbox: &Outbox, channel: &mut Channel) -> Result<(), Fault> {
    if !outbox.wait(Some(channel.descriptor()), None) {
        return Ok(());
    }
    match channel.receive(&mut [0])? {
        Received::Bytes(_) => Err(Fault::Unexpected { expected: "nothing" }),
        Received::Nothing => Ok(()),
        Received::End => Err(Fault::Ended),
    }
}

/// Waits before the next attempt, longer after each.
fn back_off(outbox: &Outbox, attempt: u32) {
    let (first_ms, longest_ms) = RETRY_MS;
    let delay_ms = first_ms.saturating_mul(1_u64 << attempt.min(10)).min(longest_ms);
    let until = Instant::now() + Duration::from_millis(jittered(delay_ms));
    while !outbox.is_ended() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        outbox.wait(None, Some(left));
    }
}

/// Up to 30 percent less, so that nodes which lost one another do not come back all at once.
fn jittered(delay_ms: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    let spread = delay_ms.saturating_mul(3) / 10;
    delay_ms.saturating_sub(random.checked_rem(spread.saturating_add(1)).unwrap_or(0))
}
