//! A client of QMQ at a standby: its connection is relayed to the primary, because it would not understand a refusal.
//!
//! No connection is relayed twice, so standbys that take each other for the primary make no loop: each relayed connection
//! begins with a *mark*, an answer to nothing. A server drops it, as it drops all answers. A standby closes a connection
//! that begins with an answer, which no client sends.
//!
//! To the primary, a relayed connection comes from the address of the standby, which therefore must be in its
//! `qmq_clients_from` if it has a token. The standby has checked the address of the client.

use std::io;
use std::time::Duration;

use delaymq_core::planted::{Planted, is_on};
use delaymq_core::wire::frame::{Header, answer, put_frame};
use tokio::net::TcpStream;

use crate::connection::sockets::{is_passing, tune, within, write};
use crate::standby::state::StandbyState;

/// How long connecting to the primary may take.
const CONNECT: Duration = Duration::from_secs(2);
/// Bytes of one read, which are all that a relay keeps in one direction.
const PIECE_BYTES: usize = 16 << 10;

/// Counts a relay as long as it lasts.
struct Counted<'a>(&'a StandbyState);

impl<'a> Counted<'a> {
    fn new(state: &'a StandbyState) -> Self {
        state.relays.set(state.relays.get().saturating_add(1));
        state.relayed.add(1);
        Self(state)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.relays.set(self.0.relays.get().saturating_sub(1));
    }
}

/// Relays a connection, of which `sent` has come, until either end closes it, the primary changes or the standby stops.
pub(super) async fn run(state: &StandbyState, client: &TcpStream, sent: &[u8]) {
    let Some(address) = state.primary_address() else { return state.failed_relays.add(1) };
    tokio::select! {
        () = state.is_elsewhere(&address) => {}
        result = relay(state, client, sent, &address) => {
            if result.is_err() {
                state.failed_relays.add(1);
            }
        }
    }
}

/// Fails if the primary cannot be reached.
async fn relay(state: &StandbyState, client: &TcpStream, sent: &[u8], address: &str) -> io::Result<()> {
    let primary = within(CONNECT, TcpStream::connect(address)).await?;
    tune(&primary)?;
    let mut begin = if is_on(Planted::RelayUnmarked) { Vec::new() } else { mark() };
    begin.extend_from_slice(sent);
    within(state.reader_patience(), write(&primary, &begin)).await?;
    let _counted = Counted::new(state);
    // Either end may close it at any time.
    tokio::select! {
        _ = copy(state, client, &primary) => {}
        _ = copy(state, &primary, client) => {}
    }
    Ok(())
}

/// The frame with which a relayed connection begins.
fn mark() -> Vec<u8> {
    let mut out = Vec::new();
    // It has no body, so it is not too large.
    drop(put_frame(&mut out, Header::request(0, 0, 0).answered(answer::SUCCESS), |_| Ok(())));
    out
}

/// Copies bytes until the end of `from`.
async fn copy(state: &StandbyState, from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    loop {
        from.readable().await?;
        // It is kept while `to` does not read, and not while `from` is silent.
        let mut piece = vec![0; PIECE_BYTES];
        match from.try_read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                within(state.reader_patience(), write(to, piece.get(..count).unwrap_or_default())).await?;
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}
