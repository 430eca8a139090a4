//! The responder of a request: answers it once, by one of its methods.

use std::rc::Rc;

use delaymq_core::error::{Error, Result};
use delaymq_core::wire::connection::{Asked, RequestId};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::malformed::Malformed;
use delaymq_core::wire::request::{failed_answer, is_of_qmq, malformed_answer};

use crate::connection::peer::Peer;
use crate::server_state::ServerState;

/// See the module. It is answered once, by one of its methods.
pub(crate) struct Responder {
    peer: Rc<Peer>,
    id: RequestId,
    command: i16,
    is_one_way: bool,
}

impl Responder {
    pub(crate) fn new(peer: &Rc<Peer>, asked: &Asked) -> Self {
        let header = &asked.frame.header;
        Self { peer: Rc::clone(peer), id: asked.id, command: header.code, is_one_way: header.is_one_way() }
    }

    pub(crate) fn peer(&self) -> &Rc<Peer> {
        &self.peer
    }

    pub(crate) fn state(&self) -> &Rc<ServerState> {
        self.peer.state()
    }

    /// True if the client wants no answer on success.
    pub(crate) fn is_one_way(&self) -> bool {
        self.is_one_way
    }

    /// Answers success, without a body, or why there is none.
    pub(crate) fn settled(self, done: Result<()>) {
        match done {
            Ok(()) => self.done(),
            Err(error) => self.failed(&error),
        }
    }

    /// Answers success, without a body.
    pub(crate) fn done(self) {
        self.answer_with(|_| Ok(()));
    }

    /// Answers success, with the body that `fill` writes.
    pub(crate) fn answer_with(self, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) {
        if let Err(error) = self.peer.answer(self.id, answer::SUCCESS, fill) {
            self.failed(&error);
        }
    }

    /// Answers with the body that `fill` writes. After an error the request is still to be answered.
    pub(crate) fn try_answer_with(&self, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.peer.answer(self.id, answer::SUCCESS, fill).map(drop)
    }

    /// Parks the request. Returns false if the connection ends. With `apart` it delays no other request.
    pub(crate) fn hold(&self, apart: bool) -> bool {
        self.peer.hold(self.id, apart)
    }

    /// The request keeps so many bytes in addition to its frame until it is answered.
    pub(crate) fn keep(&self, bytes: usize) {
        self.peer.keep(self.id, bytes);
    }

    /// Answers one of QMQ's codes, without a body.
    pub(crate) fn code(self, code: i16) {
        // Nothing is too large for a frame without a body.
        drop(self.peer.answer(self.id, code, |_| Ok(())));
    }

    /// The body of the request is malformed.
    pub(crate) fn malformed(self, malformed: &Malformed) {
        if is_of_qmq(self.command) {
            let code = malformed_answer(self.command);
            return self.code(code);
        }
        self.refused(&RemoteError::from(malformed));
    }

    /// The request failed.
    pub(crate) fn failed(self, error: &Error) {
        if is_of_qmq(self.command) {
            let code = failed_answer(self.command, error);
            return self.code(code);
        }
        self.refused(&RemoteError::from(error));
    }

    /// The request failed, with an error of delaymq's own protocol.
    pub(crate) fn refused(self, error: &RemoteError) {
        self.peer.answer_error(self.id, error);
    }

    /// Too much is under way.
    pub(crate) fn busy(self) {
        self.state().entrance.counters.busy.add(1);
        if is_of_qmq(self.command) {
            return self.code(answer::BROKER_ERROR);
        }
        self.refused(&RemoteError::new(ErrorCode::Busy, "too much is under way; try again later"));
    }

    /// The work panicked.
    pub(crate) fn died(self) {
        if is_of_qmq(self.command) {
            return self.code(answer::BROKER_ERROR);
        }
        self.refused(&RemoteError::new(ErrorCode::Other, "the server failed while it did this"));
    }
}
