//! What an operator does to those of QMQ who consume: `CONSUME_MANAGE` lets a group go on elsewhere,
//! `END_CONSUMER` ends one whose client does not come back.

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

use crate::asking::Asking;
use crate::consumers::Name;
use crate::hub::Hub;
use crate::pool::{Pool, Work};
use crate::session::Job;

/// Moves a group; answered when that is durable.
pub(crate) fn manage(asking: Asking, request: &ConsumeManage<'_>) {
    let hub = Rc::clone(asking.hub());
    let checked = check_qmq_subject("subject", request.subject).and_then(|()| check_name("group", request.group));
    if let Err(error) = checked {
        return asking.failed(&error);
    }
    // A number without a meaning changes nothing.
    let Some(start) = request.start else { return asking.code(answer::SUCCESS) };
    let Some(place) = hub.pool.place() else { return asking.busy() };
    let (subject, group) = (request.subject.to_owned(), request.group.to_owned());
    spawn_local(async move {
        let (store, names) = (Arc::clone(&hub.store), (subject.clone(), group.clone()));
        let moved = Pool::ask(place, move || store.reset_live_group(&names.0, &names.1, start)).await;
        match moved.unwrap_or(Err(Error::Closed)) {
            Ok(()) => {
                begin_again(&hub, &subject, &group);
                asking.code(answer::SUCCESS);
            }
            Err(error) => asking.failed(&error),
        }
    });
}

/// Ends a consumer on its subject and on its group's retry subject; answered when that is durable, with
/// how many messages it held.
pub(crate) fn end_consumer(asking: Asking, name: &ConsumerName<'_>) {
    let hub = Rc::clone(asking.hub());
    let name = Name::new(name, false);
    let Some(place) = hub.pool.place() else { return asking.busy() };
    spawn_local(async move {
        let ended = end_everywhere(&hub, &name).await;
        drop(place);
        match ended {
            Ok(held) => asking.told(|out| {
                out.extend_from_slice(&held.to_be_bytes());
                Ok(())
            }),
            Err(error) => asking.failed(&error),
        }
    });
}

async fn end_everywhere(hub: &Rc<Hub>, name: &Name) -> Result<u64> {
    let mut ended = Vec::new();
    for subject in consumed_at(&name.subject, &name.group) {
        ended.push(end_one(hub, &Name { subject, ..name.clone() }).await?);
    }
    ended_of(name.id(), &ended)
}

/// Ends one after all that its client asked before; how many messages it held, `None` where there is none.
async fn end_one(hub: &Rc<Hub>, name: &Name) -> Result<Option<u64>> {
    if let Some(session) = hub.consumers.known(name) {
        let (tell, told) = oneshot::channel();
        session.run(hub, Job::Leave(tell));
        return told.await.unwrap_or(Err(Error::Closed));
    }
    let (store, rule, name) = (Arc::clone(&hub.store), hub.consumers.rule, name.clone());
    hub.pool.run(Work::End, move || store.end_named_consumer(name.id(), rule)).await.unwrap_or(Err(Error::Closed))
}

/// The consumers of a group begin again: pulls that wait look again, also those of a consumer that was told
/// meanwhile that it has ended, and that is at no desk now.
fn begin_again(hub: &Rc<Hub>, subject: &str, group: &str) {
    let sessions = hub.consumers.of_group(subject, group);
    for session in &sessions {
        if let Some(desk) = session.desk() {
            session.detach();
            hub.wake_all(&desk);
        }
    }
    hub.wake_pulls_of_all(&sessions.iter().map(|session| session.number).collect());
}
