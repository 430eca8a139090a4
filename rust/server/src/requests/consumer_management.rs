//! What an operator does to QMQ's consumers: `CONSUME_MANAGE` resets a group, `END_CONSUMER` ends a consumer whose
//! client does not come back.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::store::consumed_at;
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::consume_manage::ConsumeManage;
use delaymq_core::wire::qmq::pull::ConsumerName;
use delaymq_engine::ended_of;
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::blocking_pool::{Pool, Work};
use crate::qmq::consumers::Name;
use crate::qmq::session::Job;
use crate::requests::responder::Responder;
use crate::server_state::ServerState;

/// Resets a group. Answers when that is durable.
pub(crate) fn manage(responder: Responder, request: &ConsumeManage<'_>) {
    let state = Rc::clone(responder.state());
    let checked = check_qmq_subject("subject", request.subject).and_then(|()| check_name("group", request.group));
    if let Err(error) = checked {
        return responder.failed(&error);
    }
    // A number without a meaning changes nothing.
    let Some(start) = request.start else { return responder.code(answer::SUCCESS) };
    let Some(place) = state.pool.place() else { return responder.busy() };
    let (subject, group) = (request.subject.to_owned(), request.group.to_owned());
    spawn_local(async move {
        let (store, names) = (Arc::clone(&state.store), (subject.clone(), group.clone()));
        let moved = Pool::ask(place, Work::Request, move || store.reset_live_group(&names.0, &names.1, start)).await;
        match moved.unwrap_or(Err(Error::Closed)) {
            Ok(()) => {
                begin_again(&state, &subject, &group);
                responder.code(answer::SUCCESS);
            }
            Err(error) => responder.failed(&error),
        }
    });
}

/// Ends a consumer on its subject and on its group's retry subject. Answers when that is durable, with how many
/// messages it held.
pub(crate) fn end_consumer(responder: Responder, name: &ConsumerName<'_>) {
    let state = Rc::clone(responder.state());
    let name = Name::new(name, false);
    let Some(place) = state.pool.place() else { return responder.busy() };
    spawn_local(async move {
        let ended = end_everywhere(&state, &name).await;
        drop(place);
        match ended {
            Ok(held) => responder.answer_with(|out| {
                out.extend_from_slice(&held.to_be_bytes());
                Ok(())
            }),
            Err(error) => responder.failed(&error),
        }
    });
}

async fn end_everywhere(state: &Rc<ServerState>, name: &Name) -> Result<u64> {
    let mut ended = Vec::new();
    for subject in consumed_at(&name.subject, &name.group) {
        ended.push(end_one(state, &Name { subject, ..name.clone() }).await?);
    }
    ended_of(name.id(), &ended)
}

/// Ends a consumer after all earlier jobs of its session. Returns how many messages it held; `None` if there is none.
async fn end_one(state: &Rc<ServerState>, name: &Name) -> Result<Option<u64>> {
    if let Some(session) = state.consumers.known(name) {
        let (tell, told) = oneshot::channel();
        session.run(state, Job::Leave(tell));
        return told.await.unwrap_or(Err(Error::Closed));
    }
    let (store, rule, name) = (Arc::clone(&state.store), state.consumers.rule, name.clone());
    state.pool.call(Work::End, move || store.end_named_consumer(name.id(), rule)).await
}

/// The consumers of a group begin again: their parked pulls are tried again, also those of a consumer that has just
/// ended and is in no queue now.
fn begin_again(state: &Rc<ServerState>, subject: &str, group: &str) {
    let sessions = state.consumers.of_group(subject, group);
    for session in &sessions {
        if let Some(pull_queue) = session.pull_queue() {
            session.detach();
            state.wake_all(&pull_queue);
        }
    }
    state.wake_pulls_of_all(&sessions.iter().map(|session| session.number).collect());
}
