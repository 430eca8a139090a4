//! `CONSUME_MANAGE`: an operator lets a group go on elsewhere, whoever consumes.

use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::Error;
use delaymq_core::record::limits::{check_name, check_qmq_subject};
use delaymq_core::wire::consume_manage::ConsumeManage;
use delaymq_core::wire::frame::answer;
use tokio::task::spawn_local;

use crate::asking::Asking;
use crate::hub::Hub;
use crate::pool::Pool;

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

/// The consumers of a group begin again: pulls that wait look again.
fn begin_again(hub: &Rc<Hub>, subject: &str, group: &str) {
    for session in hub.consumers.of_group(subject, group) {
        if let Some(desk) = session.desk() {
            session.detach();
            hub.wake_all(&desk);
        }
    }
}
