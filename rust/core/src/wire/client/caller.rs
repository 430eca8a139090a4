//! The client's end of a connection: requests out, answers and deliveries in. Like [`crate::wire::connection`], it
//! has no socket and no clock.
//!
//! A request is under way until its answer comes. If the connection is lost first, or the caller stops waiting, the
//! outcome is unknown: such a request is never reported as done or failed.

use std::collections::BTreeMap;

use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};

use crate::error::Result;
use crate::units::Millis;
use crate::wire::connection::incoming::Incoming;
use crate::wire::connection::outgoing::Outgoing;
use crate::wire::extension::errors::{ErrorCode, RemoteError};
use crate::wire::extension::{DELIVER, EXTENSION_VERSION};
use crate::wire::frame::{FLAG_ONE_WAY, FRAME_BYTES_MAX, Header, answer, read_head};
use crate::wire::malformed::Malformed;

/// The limits of a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallerLimits {
    /// Requests under way.
    pub requests_max: usize,
    /// Bytes that may wait to be written before no more requests are taken.
    pub output_bytes_max: usize,
}

impl Default for CallerLimits {
    fn default() -> Self {
        Self { requests_max: 1_024, output_bytes_max: 16 << 20 }
    }
}

/// Identifies a request under way: its opaque number on this connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub i32);

/// A frame from the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// An answer.
    Answer {
        /// The request that it answers.
        call: CallId,
        /// The command of the request.
        command: i16,
        /// The result code.
        code: i16,
        /// The body.
        body: Bytes,
    },
    /// The body of a delivery.
    Deliver(Bytes),
}

/// The content of an answer to one of delaymq's own requests: its body, or the error.
///
/// # Errors
/// The error that the server reported, also for an unknown command; `Malformed` if the error itself cannot be read.
pub fn told(code: i16, body: &Bytes) -> std::result::Result<Bytes, RemoteError> {
    match code {
        answer::SUCCESS => Ok(body.clone()),
        answer::UNKNOWN_CODE => Err(RemoteError::new(
            ErrorCode::Other,
            "the server does not know this command: it is of an earlier release",
        )),
        code => Err(RemoteError::read(code, body).unwrap_or_else(|malformed| RemoteError::from(&malformed))),
    }
}

/// The client's end of a connection; see the module.
#[derive(Debug)]
pub struct Caller {
    limits: CallerLimits,
    input: Incoming,
    outgoing: Outgoing,
    pending: BTreeMap<CallId, i16>,
    next_opaque: i32,
    fault: Option<Malformed>,
}

impl Caller {
    /// A new connection.
    pub fn new(limits: CallerLimits) -> Self {
        Self {
            limits,
            input: Incoming::default(),
            outgoing: Outgoing::default(),
            pending: BTreeMap::new(),
            next_opaque: 0,
            fault: None,
        }
    }

    /// True if another request may be made now.
    pub fn has_room(&self) -> bool {
        self.fault.is_none()
            && self.pending.len() < self.limits.requests_max
            && self.outgoing.bytes() < self.limits.output_bytes_max
    }

    /// Makes a request of delaymq's own; `None` if there is no room now.
    ///
    /// # Errors
    /// The error of `fill`; `TooLarge` naming `frame`: no request was made.
    pub fn ask(
        &mut self,
        command: i16,
        now: Millis,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Option<CallId>> {
        if !self.has_room() {
            return Ok(None);
        }
        let call = self.free_id();
        self.outgoing.put(now, Header::request(command, EXTENSION_VERSION, call.0), fill)?;
        self.next_opaque = call.0.checked_add(1).unwrap_or(0);
        self.pending.insert(call, command);
        Ok(Some(call))
    }

    /// Makes a one-way request. Only an error is answered; [`Self::hear`] returns it with the request's id. False
    /// if there is no room now.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn tell(&mut self, command: i16, now: Millis, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
        if !self.has_room() {
            return Ok(false);
        }
        let call = self.free_id();
        let header = Header { flags: FLAG_ONE_WAY, ..Header::request(command, EXTENSION_VERSION, call.0) };
        self.outgoing.put(now, header, fill)?;
        self.next_opaque = call.0.checked_add(1).unwrap_or(0);
        Ok(true)
    }

    /// The next id that no request under way has. There are far more ids than requests.
    fn free_id(&self) -> CallId {
        let mut call = CallId(self.next_opaque);
        while self.pending.contains_key(&call) {
            call = CallId(call.0.checked_add(1).unwrap_or(0));
        }
        call
    }

    /// The number of requests under way.
    pub fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Stops waiting for an answer, which is ignored when it comes. True if the request was under way; whether it
    /// is done is unknown.
    pub fn forget(&mut self, call: CallId) -> bool {
        self.pending.remove(&call).is_some()
    }

    /// The connection is lost: returns the requests with unknown outcome, and their commands.
    pub fn lost(&mut self) -> Vec<(CallId, i16)> {
        self.input.clear();
        self.outgoing.clear();
        std::mem::take(&mut self.pending).into_iter().collect()
    }

    /// Calls `read` to append received bytes.
    pub fn read_with<T>(&mut self, read: impl FnOnce(&mut Limit<&mut BytesMut>) -> T) -> T {
        let room = if self.fault.is_none() { FRAME_BYTES_MAX.saturating_sub(self.input.len()) } else { 0 };
        self.input.read_with(room, read)
    }

    /// Takes as many of these bytes as there is room for; returns their number.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let room = if self.fault.is_none() { FRAME_BYTES_MAX.saturating_sub(self.input.len()) } else { 0 };
        self.input.receive(room, bytes)
    }

    /// The next answer or delivery, if a complete one was received. Answers without a waiting caller are ignored,
    /// except errors, which may answer one-way requests.
    ///
    /// # Errors
    /// `Malformed` if the server sent bytes that are no frame. The caller then closes the connection; the requests
    /// under way are [`Self::lost`].
    pub fn hear(&mut self) -> std::result::Result<Option<Heard>, Malformed> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        loop {
            let head = match read_head(self.input.bytes()) {
                Ok(head) => head,
                Err(malformed) => return Err(self.broken(malformed)),
            };
            let Some(frame) = head.and_then(|head| self.input.take(head)) else { return Ok(None) };
            let header = frame.header;
            if !header.is_answer() {
                if header.code == DELIVER {
                    return Ok(Some(Heard::Deliver(frame.body)));
                }
                let found = i64::from(header.code);
                return Err(self.broken(Malformed::Value {
                    field: "code",
                    expected: "an answer or a delivery",
                    found,
                }));
            }
            let call = CallId(header.opaque);
            let command = self.pending.remove(&call);
            if command.is_some() || header.code != answer::SUCCESS {
                let command = command.unwrap_or(header.request_code);
                return Ok(Some(Heard::Answer { call, command, code: header.code, body: frame.body }));
            }
        }
    }

    fn broken(&mut self, malformed: Malformed) -> Malformed {
        self.input.clear();
        self.fault.insert(malformed).clone()
    }

    /// The bytes to be written, in order.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.outgoing.slices()
    }

    /// The bytes that wait to be written.
    pub fn output_bytes(&self) -> usize {
        self.outgoing.bytes()
    }

    /// The first `count` bytes of the output were written.
    pub fn sent(&mut self, count: usize) {
        self.outgoing.sent(count);
    }
}

#[cfg(test)]
#[path = "caller_tests.rs"]
mod tests;
