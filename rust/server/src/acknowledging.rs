//! ACK: a consumer of QMQ is done with messages, or says that it lives.

use std::rc::Rc;

use delaymq_core::units::PullOffset;
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::ack::AckRequest;

use crate::asking::Asking;
use crate::consumers::Name;
use crate::hub::Hub;
use crate::publishing::Promise;
use crate::pulling::check;
use crate::session::{Attached, Job, Session};

/// An acknowledgement that is not answered yet.
pub(crate) struct Acknowledging {
    asking: Asking,
    offsets: (PullOffset, PullOffset),
}

/// Takes an acknowledgement. It makes nobody: who is not known holds nothing.
pub(crate) fn acknowledge(asking: Asking, request: &AckRequest<'_>) {
    let hub = Rc::clone(asking.hub());
    let name = Name::new(&request.name, request.is_broadcast);
    if let Err(error) = check(&name) {
        return asking.failed(&error);
    }
    let known = hub.consumers.known(&name);
    if let Some(session) = &known {
        hub.consumers.leases.borrow_mut().renew(session.number, hub.now());
    }
    // What is acknowledged by those who get everything is no matter.
    match request.offsets {
        Some(offsets) if !name.is_broadcast => begin(&hub, Acknowledging { asking, offsets }, &name),
        _ => asking.code(answer::SUCCESS),
    }
}

/// Hands an acknowledgement to its consumer.
pub(crate) fn begin(hub: &Rc<Hub>, acknowledging: Acknowledging, name: &Name) {
    match hub.consumers.known(name) {
        Some(session) => session.run(hub, Job::Acknowledge(acknowledging)),
        None => acknowledging.asking.code(answer::SUCCESS),
    }
}

/// Settles it, and answers once that is durable.
pub(crate) async fn serve(hub: &Rc<Hub>, session: &Session, acknowledging: Acknowledging) {
    let Acknowledging { asking, offsets } = acknowledging;
    let sharing = match session.attach(hub, None).await {
        Ok(Attached::Sharing(sharing)) => sharing,
        Ok(Attached::Listening(_)) => return asking.code(answer::SUCCESS),
        Err(error) => return asking.failed(&error),
    };
    match sharing.acknowledge(hub, session, offsets).await {
        Ok(position) => hub.promise(position, Promise::of(asking)),
        Err(error) => {
            // What it holds is looked up again, and the client acknowledges again.
            session.detach();
            asking.failed(&error);
            hub.wake_pulls_of(session);
        }
    }
}
