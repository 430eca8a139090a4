//! One connection of a server: bytes in, requests out; answers in, bytes out. It has no socket and no clock: its
//! caller reads when it wants input, writes its output, and passes the time.
//!
//! - Requests are handed out in the order of their bytes and answered in any order. A request that cannot be
//!   answered yet does not delay others: a limited number may be under way, and held pulls do not count.
//! - The output that waits is bounded. Above the bound no request is handed out, nothing is pushed or gathered, and
//!   no input is wanted, until the peer has read. The memory of requests under way is bounded in the same way, by
//!   their frames, until some of them are answered.
//! - The memory that a connection holds is one number. The caller adds up all connections
//!   ([`super::quota::memory_accounting`]), and stops reading from those that hold much.
//! - A peer must send a valid request soon, or authenticate soon if a token is required. Until then its time is
//!   short; if it must authenticate, its memory is limited too.
//! - A peer with subscriptions must not be silent, since it holds messages that others wait for: it is cut off
//!   after a limit.
//! - Garbage ends the input. Earlier requests are still answered.

mod counts;
mod stopping;

use bytes::BytesMut;
use bytes::buf::Limit;

use super::extension::errors::RemoteError;
use super::extension::{EXTENSION_VERSION, OWN_COMMANDS};
use super::frame::{FLAG_ONE_WAY, FRAME_BYTES_MAX, Frame, Head, Header, answer, read_head};
use super::malformed::Malformed;
use super::qmq::send::SEND;
use super::quota::connection_limits::ConnectionLimits;
use crate::error::Result;
use crate::units::Millis;
pub use ending::Ending;
use incoming::Incoming;
use outgoing::Outgoing;
use silence::Silence;
pub use under_way::RequestId;
use under_way::UnderWay;

pub(super) mod ending;
pub(super) mod incoming;
mod kept;
pub(super) mod outgoing;
pub(super) mod silence;
pub mod subscriptions;
#[cfg(test)]
pub(super) mod tests;
pub(super) mod under_way;

/// A request that was handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asked {
    /// Its id, for the answer.
    pub id: RequestId,
    /// The frame. Its body shares memory with the bytes read around it, so a caller that holds a request for long
    /// copies the parts that it needs.
    pub frame: Frame,
}

/// Whether the peer is read at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hearing {
    Heard,
    /// All connections together hold too much memory, and this one more than a little of it.
    Unheard,
}

/// A connection; see the module.
#[derive(Debug)]
pub struct Connection {
    limits: ConnectionLimits,
    input: Incoming,
    outgoing: Outgoing,
    under_way: UnderWay,
    /// Bytes that the connection holds as long as the peer wants, independent of answers.
    lasting_bytes: usize,
    began: Millis,
    /// When the frame that is being read began, or reading resumed after a pause, plus its rests.
    frame_began: Millis,
    rests_until: Millis,
    is_paused: bool,
    hearing: Hearing,
    is_admitted: bool,
    is_proven: bool,
    silence: Silence,
    ending: Option<Ending>,
    unfinished_bytes: usize,
}

impl Connection {
    /// A new connection. A peer that is not `admitted` must send a hello first.
    pub fn new(limits: ConnectionLimits, admitted: bool, now: Millis) -> Self {
        Self {
            limits,
            input: Incoming::default(),
            outgoing: Outgoing::default(),
            under_way: UnderWay::default(),
            lasting_bytes: 0,
            began: now,
            frame_began: now,
            rests_until: now,
            is_paused: false,
            hearing: Hearing::Heard,
            is_admitted: admitted,
            is_proven: false,
            silence: Silence::new(now),
            ending: None,
            unfinished_bytes: 0,
        }
    }

    /// The peer has authenticated.
    pub fn admit(&mut self) {
        self.is_admitted = true;
        self.is_proven = true;
    }

    /// The peer sent a valid request.
    pub fn prove(&mut self) {
        self.is_proven |= self.is_admitted;
    }

    /// Sets whether the peer must send something within the time limit from now on.
    pub fn must_speak(&mut self, must: bool, now: Millis) {
        self.silence.bound(must, now);
    }

    /// True if the peer may be served.
    pub fn is_admitted(&self) -> bool {
        self.is_admitted
    }

    /// True if more may be read from the peer now.
    pub fn wants_input(&self) -> bool {
        self.ending.is_none() && self.hears() && self.input_room() > 0
    }

    /// Reads into the connection: calls `read` to append at most as many bytes as the connection has room for.
    pub fn read_with<T>(&mut self, now: Millis, read: impl FnOnce(&mut Limit<&mut BytesMut>) -> T) -> T {
        let before = self.input.len();
        let room = self.input_room();
        let result = self.input.read_with(room, read);
        if before == 0 {
            self.frame_began = now;
        }
        if self.input.len() > before {
            self.silence.broken(now);
        }
        result
    }

    /// The server reads no more of the current frame before `until`; that time does not count for the peer's limit.
    pub fn rests(&mut self, until: Millis, now: Millis) {
        self.frame_began = self.frame_began.plus(until.since(self.rests_until.max(now)));
        self.rests_until = self.rests_until.max(until);
        self.silence.broken(self.rests_until);
    }

    /// Takes as many of these bytes as there is room for; returns their number.
    pub fn receive(&mut self, bytes: &[u8], now: Millis) -> usize {
        if self.input.is_empty() {
            self.frame_began = now;
        }
        let room = self.input_room();
        let received = self.input.receive(room, bytes);
        if received > 0 {
            self.silence.broken(now);
        }
        received
    }

    /// The next request, if a complete one waits and there is room for its answer.
    pub fn next_request(&mut self, now: Millis) -> Option<Asked> {
        self.note_room(now);
        if self.ending.is_some() || !self.hears() {
            return None;
        }
        loop {
            let head = match self.head() {
                Ok(head) => head,
                Err(malformed) => {
                    self.end(Ending::Malformed(malformed));
                    return None;
                }
            };
            let Some(frame) = head.and_then(|head| self.input.take(head)) else {
                self.input.let_go();
                return None;
            };
            self.frame_began = now;
            if frame.header.is_answer() {
                // The server asked nothing. As a server of QMQ does, it drops the frame, whose bytes were read for
                // nothing.
                self.unfinished_bytes = self.unfinished_bytes.saturating_add(frame.bytes());
                continue;
            }
            let id = self.under_way.begin(frame.header, frame.bytes());
            return Some(Asked { id, frame });
        }
    }

    /// The head of the next frame, checked as far as its bytes are there.
    fn head(&self) -> std::result::Result<Option<Head>, Malformed> {
        let Some(head) = read_head(self.input.bytes())? else { return Ok(None) };
        let limit = self.limits.first_request_bytes_max;
        if !self.is_admitted && head.frame_bytes > limit {
            let (limit, found) = (limit as u64, head.frame_bytes as u64);
            return Err(Malformed::TooLarge { field: "first_request", limit, found });
        }
        Ok(Some(head))
    }

    /// Holds a request that waits for an event, so that it delays no other. False if the maximum is held already:
    /// then the request is still under way and needs an answer.
    pub fn hold(&mut self, id: RequestId) -> bool {
        self.under_way.hold(id, self.limits.held_max)
    }

    /// Answers a request, once. False if it is not under way.
    ///
    /// # Errors
    /// The error of `fill`; `TooLarge` naming `frame`: the request is still under way.
    pub fn answer(
        &mut self,
        id: RequestId,
        code: i16,
        now: Millis,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let Some(header) = self.under_way.header(id) else { return Ok(false) };
        if wants_answer(&header, code) && !self.is_cut_off() {
            self.outgoing.put(now, header.answered(code), fill)?;
        }
        self.under_way.end(id);
        Ok(true)
    }

    /// Answers one of delaymq's own requests with an error.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub fn answer_error(&mut self, id: RequestId, error: &RemoteError, now: Millis) -> Result<bool> {
        self.answer(id, error.code.number(), now, |out| error.put(out))
    }

    /// Sends a message that the peer did not request. False if there is no room: the caller may try again after the
    /// peer has read.
    ///
    /// # Errors
    /// The error of `fill`; `TooLarge` naming `frame`.
    pub fn push(&mut self, command: i16, now: Millis, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
        if self.ending.is_some() || !self.has_answer_room() {
            return Ok(false);
        }
        let header = Header { flags: FLAG_ONE_WAY, ..Header::request(command, EXTENSION_VERSION, 0) };
        self.outgoing.put(now, header, fill).map(|()| true)
    }

    /// Ends the connection instead of answering a request. Earlier requests are still answered.
    pub fn turn_away(&mut self, id: RequestId) {
        self.under_way.end(id);
        self.end(Ending::TurnedAway);
    }

    /// Ends the input, since all connections together hold too much memory.
    pub fn crowded(&mut self) {
        self.end(Ending::Crowded);
    }

    /// The bytes to be written, in order.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.outgoing.slices()
    }

    /// The first `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize, now: Millis) {
        self.outgoing.sent(count);
        self.note_room(now);
    }

    /// The peer sends no more.
    pub fn peer_closed(&mut self) {
        self.end(Ending::PeerClosed);
    }

    /// The latest time for the next call of [`Self::tick`].
    pub fn deadline(&self) -> Option<Millis> {
        let reader = self.outgoing.oldest().map(|queued| queued.plus(self.limits.reader_ms_max));
        let reads = self.ending.is_none() && self.has_room();
        let first = (reads && !self.is_proven).then(|| self.began.plus(self.limits.first_request_ms_max));
        let frame = (reads && !self.input.is_empty()).then(|| self.frame_began.plus(self.limits.frame_ms_max));
        let silence = self.silence.end(self.limits.silence_ms_max).filter(|_| reads && self.hears());
        [reader, first, frame, silence].into_iter().flatten().min()
    }

    /// Ends the connection if its peer was too slow. Call it after the waiting requests were taken.
    pub fn tick(&mut self, now: Millis) {
        self.note_room(now);
        if self.outgoing.oldest().is_some_and(|queued| now.since(queued) >= self.limits.reader_ms_max) {
            return self.cut_off(Ending::ReaderLate);
        }
        if self.ending.is_some() || !self.has_room() {
            return;
        }
        if !self.is_proven && now.since(self.began) >= self.limits.first_request_ms_max {
            self.end(Ending::FirstRequestLate);
        } else if !self.input.is_empty() && now.since(self.frame_began) >= self.limits.frame_ms_max {
            self.end(Ending::FrameLate);
        } else if self.hears() && self.silence.end(self.limits.silence_ms_max).is_some_and(|end| now >= end) {
            self.cut_off(Ending::Silent);
        }
    }

    /// Why the input ended, if it did.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// True if the socket may be closed: all requests are answered and the answers written, or the peer was cut
    /// off.
    pub fn is_finished(&self) -> bool {
        self.is_cut_off() || (self.ending.is_some() && self.under_way.count() == 0 && self.outgoing.bytes() == 0)
    }

    /// Ends the connection at once: the peer would not read the remaining output.
    fn cut_off(&mut self, ending: Ending) {
        self.end(ending.clone());
        self.ending = Some(ending);
        self.outgoing.clear();
    }

    fn is_cut_off(&self) -> bool {
        matches!(self.ending, Some(Ending::ReaderLate | Ending::Silent))
    }

    fn end(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
        self.unfinished_bytes = self.unfinished_bytes.saturating_add(self.input.len());
        self.input.clear();
    }

    fn input_room(&self) -> usize {
        if self.ending.is_some() {
            return 0;
        }
        let limit = if self.is_admitted { FRAME_BYTES_MAX } else { self.limits.first_request_bytes_max };
        limit.saturating_sub(self.input.len())
    }

    fn has_room(&self) -> bool {
        let waiting = self.under_way.count().saturating_sub(self.under_way.held_count());
        let has_request_room =
            waiting < self.limits.requests_max && self.under_way.bytes() < self.limits.kept_bytes_max;
        has_request_room && self.has_answer_room()
    }

    fn hears(&self) -> bool {
        self.hearing == Hearing::Heard && self.has_room()
    }

    /// While the server does not read, no frame is late.
    fn note_room(&mut self, now: Millis) {
        let is_paused = !self.has_room();
        if self.is_paused && !is_paused {
            self.frame_began = now;
            self.silence.broken(now);
            if !self.is_proven {
                self.began = now;
            }
        }
        self.is_paused = is_paused;
    }
}

/// A one-way request gets no answer if it succeeded. Errors are always answered, and so are the commands that QMQ
/// always answers.
fn wants_answer(header: &Header, code: i16) -> bool {
    let may_be_silent = header.code == SEND || OWN_COMMANDS.contains(&header.code);
    !(header.is_one_way() && may_be_silent && code == answer::SUCCESS)
}
