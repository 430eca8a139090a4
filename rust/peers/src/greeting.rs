//! Both hellos of a connection, at either end. `delaymq_core::wire::peer` has their order.

use std::io::ErrorKind;
use std::time::Duration;

use delaymq_core::wire::peer::{Decoder, Hello, PEER_VERSION, PeerFrame, Refusal};

use crate::channel::{Channel, Received};
use crate::interface::Fault;

/// How long TLS and both hellos together may take.
pub(crate) const HELLO: Duration = Duration::from_secs(5);
/// Bytes of one read.
const PIECE_BYTES: usize = 1_024;

/// Says hello on a connection that this node made, and begins if `claim` takes the other node.
pub(crate) fn call<T>(
    channel: &mut Channel,
    own: &Hello,
    claim: impl FnOnce(&Hello) -> Result<T, Refusal>,
) -> Result<(Hello, T), Fault> {
    put(channel, &PeerFrame::Hello(own.clone()))?;
    let frame = next_frame(channel, &mut Decoder::default())?;
    let judged = judged(own, frame).and_then(|hello| {
        let claimed = claim(&hello).map_err(Fault::Refuses)?;
        Ok((hello, claimed))
    });
    let greeted = refusing(channel, judged)?;
    put(channel, &PeerFrame::Begin)?;
    channel.settle()?;
    Ok(greeted)
}

/// Answers the hello on a connection that the other node made. What it sends behind its hello is left in the decoder.
pub(crate) fn answer(channel: &mut Channel, decoder: &mut Decoder, own: &Hello) -> Result<Hello, Fault> {
    let frame = next_frame(channel, decoder)?;
    let hello = refusing(channel, judged(own, frame))?;
    put(channel, &PeerFrame::Hello(own.clone()))?;
    match next_frame(channel, decoder)? {
        PeerFrame::Begin => {}
        PeerFrame::Refusal(refusal) => return Err(Fault::RefusedBy(refusal)),
        _ => return Err(Fault::Unexpected { expected: "begin" }),
    }
    decoder.admit();
    channel.settle()?;
    Ok(hello)
}

fn judged(own: &Hello, frame: PeerFrame) -> Result<Hello, Fault> {
    match frame {
        PeerFrame::Hello(hello) => own.judge(&hello).map(|()| hello).map_err(Fault::Refuses),
        PeerFrame::OtherVersion(refused) => {
            Err(Fault::Refuses(Refusal::OtherVersion { refusing: PEER_VERSION, refused }))
        }
        PeerFrame::Refusal(refusal) => Err(Fault::RefusedBy(refusal)),
        PeerFrame::Begin | PeerFrame::Message(_) => Err(Fault::Unexpected { expected: "a hello" }),
    }
}

/// Sends the refusal, if it is one. The other end may be gone.
fn refusing<T>(channel: &mut Channel, judged: Result<T, Fault>) -> Result<T, Fault> {
    if let Err(Fault::Refuses(refusal)) = &judged {
        drop(put(channel, &PeerFrame::Refusal(*refusal)));
    }
    judged
}

fn put(channel: &mut Channel, frame: &PeerFrame) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    // Only a message can be too large: the start has checked the address for clients.
    drop(frame.put(&mut bytes));
    channel.send(&bytes).map_err(silent)
}

fn next_frame(channel: &mut Channel, decoder: &mut Decoder) -> Result<PeerFrame, Fault> {
    let mut bytes = [0; PIECE_BYTES];
    loop {
        if let Some(frame) = decoder.next_frame()? {
            return Ok(frame);
        }
        match channel.receive(&mut bytes).map_err(silent)? {
            Received::Bytes(count) => decoder.feed(bytes.get(..count).unwrap_or_default()),
            Received::Nothing => {}
            Received::End => return Err(Fault::Ended),
        }
    }
}

fn silent(fault: Fault) -> Fault {
    match fault {
        Fault::Socket(error) if error.kind() == ErrorKind::TimedOut => Fault::Silent,
        other => other,
    }
}
