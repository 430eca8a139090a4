//! ACK: a consumer of QMQ finishes messages, or shows that it is alive.

use std::rc::Rc;

use delaymq_core::units::PullOffset;
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::ack::AckRequest;

use crate::qmq::consumers::Name;
use crate::qmq::pull::check;
use crate::qmq::session::{Job, Session};
use crate::requests::responder::Responder;
use crate::server_state::ServerState;

/// An acknowledgement that is not answered yet.
pub(crate) struct AcknowledgeRequest {
    responder: Responder,
    offsets: (PullOffset, PullOffset),
}

/// Takes an acknowledgement. It creates no consumer: an unknown consumer holds nothing.
pub(crate) fn acknowledge(responder: Responder, request: &AckRequest<'_>) {
    let state = Rc::clone(responder.state());
    let name = Name::new(&request.name, request.is_broadcast);
    if let Err(error) = check(&request.name) {
        return responder.failed(&error);
    }
    let known = state.consumers.known(&name);
    if let Some(session) = &known {
        state.consumers.hear(session, state.now());
    }
    match request.offsets {
        Some(offsets) => begin(&state, AcknowledgeRequest { responder, offsets }, &name),
        None => responder.code(answer::SUCCESS),
    }
}

/// Hands an acknowledgement to its consumer's session.
pub(crate) fn begin(state: &Rc<ServerState>, request: AcknowledgeRequest, name: &Name) {
    match state.consumers.known(name) {
        Some(session) => session.run(state, Job::Acknowledge(request)),
        None => request.responder.code(answer::SUCCESS),
    }
}

/// Settles it, and answers once that is durable.
pub(crate) async fn serve(state: &Rc<ServerState>, session: &Session, request: AcknowledgeRequest) {
    let AcknowledgeRequest { responder, offsets } = request;
    let consumer = match session.attach(state).await {
        Ok(consumer) => consumer,
        Err(error) => return responder.failed(&error),
    };
    match consumer.acknowledge(state, session, offsets).await {
        Ok(position) => {
            state.promise(position, Box::new(|kept| responder.settled(kept)));
        }
        Err(error) => {
            // The session reads again what it holds, and the client acknowledges again.
            session.detach();
            responder.failed(&error);
            state.wake_pulls_of(session);
        }
    }
}
