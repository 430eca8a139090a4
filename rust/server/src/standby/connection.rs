//! One connection of a standby: its first request decides what happens to it. Nothing of a peer is kept but the bytes
//! of that request, within the limits of a peer that a server does not know yet.

use std::io;
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use delaymq_core::wire::connection::Ending;
use delaymq_core::wire::extension::errors::{Attribute, ErrorCode, RemoteError};
use delaymq_core::wire::extension::request::OwnRequest;
use delaymq_core::wire::extension::{HELLO, OWN_COMMANDS};
use delaymq_core::wire::frame::{HEAD_BYTES, Header, put_frame, read_head};
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::quota::admission::{Admission, admission};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connection::host::Accepted;
use crate::connection::sockets::{is_passing, within, write};
use crate::standby::relay;
use crate::standby::state::StandbyState;

/// Bytes of one read.
const PIECE_BYTES: usize = 4 << 10;

/// The first request of a connection.
struct First {
    header: Header,
    /// Everything that has come.
    input: Bytes,
    /// The bytes of its frame.
    frame_bytes: usize,
}

/// Serves a connection until it is over.
pub(super) async fn run(state: &StandbyState, accepted: Accepted) {
    let Accepted { socket, address, standing, slots } = accepted;
    let first = tokio::select! {
        () = state.stops() => return,
        first = hear(state, &socket) => first,
    };
    let entrance = &state.entrance;
    let first = match first {
        Ok(first) => first,
        Err(Ending::PeerClosed) => return,
        Err(ending) => return entrance.cut_off(address, ending.word()),
    };
    let command = first.header.code;
    entrance.counters.requests.add(command);
    entrance.counters.bytes_in.add(first.input.len() as u64);
    match admission(command, standing) {
        Admission::Serve if OWN_COMMANDS.contains(&command) => {
            say(state, &socket, &first.header, &answer(state, &first, address)).await;
        }
        Admission::Serve => {
            drop(slots.stranger);
            relay::run(state, &socket, &first.input).await;
        }
        Admission::Refuse => say(state, &socket, &first.header, &entrance.access.refused(address)).await,
        Admission::Close => {
            entrance.access.turned_away(address);
            entrance.counters.cut_off.add(Ending::TurnedAway.word());
        }
    }
    drop(slots.connection);
}

/// Reads the first request, as far as it is needed: all of a hello, which may have a token, and the head of any other.
async fn hear(state: &StandbyState, socket: &TcpStream) -> Result<First, Ending> {
    let (bytes_max, patience) = state.first_request();
    let mut input = BytesMut::new();
    let reads = async {
        loop {
            let head = read_head(&input).map_err(Ending::Malformed)?;
            if let Some(head) = head {
                let (header, frame_bytes) = (head.header, head.frame_bytes);
                if header.is_answer() {
                    // Only the mark of another standby is an answer: see `relay`.
                    return Err(Ending::TurnedAway);
                }
                let needed = if header.code == HELLO { frame_bytes } else { HEAD_BYTES };
                if needed > bytes_max {
                    let (limit, found) = (bytes_max as u64, needed as u64);
                    return Err(Ending::Malformed(Malformed::TooLarge { field: "first_request", limit, found }));
                }
                if input.len() >= needed {
                    return Ok(First { header, input: std::mem::take(&mut input).freeze(), frame_bytes });
                }
            }
            if !read(socket, &mut input, bytes_max).await.unwrap_or(false) {
                return Err(Ending::PeerClosed);
            }
        }
    };
    timeout(patience, reads).await.unwrap_or(Err(Ending::FirstRequestLate))
}

/// Reads once, up to a limit. Returns false at the end.
async fn read(socket: &TcpStream, input: &mut BytesMut, bytes_max: usize) -> io::Result<bool> {
    loop {
        socket.readable().await?;
        let mut piece = [0; PIECE_BYTES];
        let room = bytes_max.saturating_sub(input.len()).min(piece.len());
        match socket.try_read(piece.get_mut(..room).unwrap_or_default()) {
            Ok(count) => {
                input.extend_from_slice(piece.get(..count).unwrap_or_default());
                return Ok(count > 0);
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// The answer to one of delaymq's own requests. A peer that has to give a token learns where the primary is by a hello
/// with that token alone.
fn answer(state: &StandbyState, first: &First, address: IpAddr) -> RemoteError {
    if first.header.code == HELLO {
        let body = first.input.get(HEAD_BYTES..first.frame_bytes).unwrap_or_default();
        let hello = match OwnRequest::read(HELLO, body) {
            Ok(Some(OwnRequest::Hello(hello))) => hello,
            Ok(_) => return not_primary(state),
            Err(malformed) => return RemoteError::from(&malformed),
        };
        let verdict = state.entrance.access.enter(address, hello.token, state.now());
        if let Some(refusal) = verdict.refusal() {
            return refusal;
        }
    }
    not_primary(state)
}

fn not_primary(state: &StandbyState) -> RemoteError {
    let Some(primary) = state.primary() else {
        let words = "this node is not the primary of its copies, and knows of none";
        return RemoteError::new(ErrorCode::NotPrimary, words).with(Attribute::Address, "");
    };
    let words = match primary.address.as_str() {
        "" => "this node is not the primary of its copies".to_owned(),
        address => format!("this node is not the primary of its copies; {address} is"),
    };
    let error = RemoteError::new(ErrorCode::NotPrimary, &words);
    error.with(Attribute::Address, primary.address.as_str()).with(Attribute::Epoch, u64::from(primary.epoch.0))
}

/// Answers with the error.
async fn say(state: &StandbyState, socket: &TcpStream, asked: &Header, error: &RemoteError) {
    let counters = &state.entrance.counters;
    counters.failed.add(error.code.number());
    let mut out = Vec::new();
    // Long texts of an error are shortened, and it has few details.
    drop(put_frame(&mut out, asked.answered(error.code.number()), |out| error.put(out)));
    if within(state.reader_patience(), write(socket, &out)).await.is_ok() {
        counters.bytes_out.add(out.len() as u64);
    }
}
