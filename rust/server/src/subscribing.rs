//! SUBSCRIBE, CREDIT and UNSUBSCRIBE.

use std::rc::Rc;

use delaymq_core::error::Error;
use delaymq_core::queues::tags::Filter;
use delaymq_core::wire::extension::consume::{Credit, Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_engine::SubscribeOptions;
use tokio::task::spawn_local;

use crate::asking::Asking;
use crate::courier::Courier;
use crate::errands::Errand;
use crate::peer::Kept;
use crate::pool::Pool;

/// A subscribe, kept while its group and consumer are made.
struct Wanted {
    number: u32,
    subject: String,
    group: String,
    consumer: String,
    options: SubscribeOptions,
    credit: u32,
    filters: Vec<Filter>,
    kept: Kept,
}

/// Begins to consume.
pub(crate) fn subscribe(asking: Asking, subscribe: Subscribe<'_>) {
    let peer = Rc::clone(asking.peer());
    let hub = Rc::clone(peer.hub());
    let number = subscribe.subscription;
    if subscribe.is_broadcast {
        let (expected, found) = ("a group whose consumers share".to_owned(), "broadcast".to_owned());
        return asking.failed(&Error::InvalidArgument { argument: "broadcast", expected, found });
    }
    if peer.couriers.borrow().contains_key(&number) || peer.subscribing.borrow().contains(&number) {
        return asking.refused(&unknown("there is a subscription of that number already"));
    }
    let Some(kept) = peer.keep_on(kept_bytes(&subscribe.filters)) else { return asking.busy() };
    let count = peer.couriers.borrow().len().saturating_add(peer.subscribing.borrow().len());
    let Some(place) = hub.pool.place().filter(|_| count < hub.options.subscriptions_max) else {
        return asking.busy();
    };
    let (start, in_flight_max) = (subscribe.start, subscribe.in_flight_max);
    let wanted = Wanted {
        number,
        subject: subscribe.name.subject.to_owned(),
        group: subscribe.name.group.to_owned(),
        consumer: subscribe.name.consumer.to_owned(),
        options: SubscribeOptions { in_flight_max, start },
        credit: subscribe.credit,
        filters: subscribe.filters,
        kept,
    };
    peer.subscribing.borrow_mut().push(number);
    spawn_local(begin(asking, wanted, place));
}

/// What a subscription keeps for as long as it lasts; most keep nothing.
fn kept_bytes(filters: &[Filter]) -> usize {
    filters.iter().filter(|filter| !filter.passes_all()).map(Filter::memory_bytes).sum()
}

async fn begin(asking: Asking, wanted: Wanted, place: crate::pool::Place) {
    let peer = Rc::clone(asking.peer());
    let store = std::sync::Arc::clone(&peer.hub().store);
    let Wanted { number, subject, group, consumer, options, credit, filters, kept } = wanted;
    let begun = Pool::ask(place, move || store.subscribe(&subject, &group, options)).await;
    peer.subscribing.borrow_mut().retain(|other| *other != number);
    let subscription = match begun {
        Some(Ok(subscription)) => subscription,
        Some(Err(error)) => return asking.failed(&error),
        None => return asking.died(),
    };
    let is_new = subscription.starts_group();
    let courier = Courier::new(&peer, number, subscription, (filters, kept));
    if peer.has_left() {
        return courier.leave();
    }
    let consumer = if consumer.is_empty() { format!("delaymq-{}", courier.token) } else { consumer };
    peer.couriers.borrow_mut().insert(number, Rc::clone(&courier));
    peer.hub().hear(&courier);
    asking.told(|out| Subscribed { consumer, is_new }.put(out));
    courier.add_credit(credit);
    courier.pump();
}

/// As [`of`], for what waits its turn; answers, too, where too much of that waits already.
pub(crate) fn of_patient(asking: Asking, number: u32) -> Option<(Asking, Rc<Courier>)> {
    let (asking, courier) = of(asking, number)?;
    if courier.is_crowded() {
        asking.busy();
        return None;
    }
    Some((asking, courier))
}

/// The subscription of this number; answers where there is none.
pub(crate) fn of(asking: Asking, number: u32) -> Option<(Asking, Rc<Courier>)> {
    let courier = asking.peer().couriers.borrow().get(&number).cloned();
    if let Some(courier) = courier {
        return Some((asking, courier));
    }
    asking.refused(&unknown("there is no subscription of that number on this connection"));
    None
}

fn unknown(words: &str) -> RemoteError {
    RemoteError::new(ErrorCode::UnknownSubscription, words)
}

/// Lets more messages be sent. Who wants an answer has it behind what is ready.
pub(crate) fn credit(asking: Asking, credit: Credit) {
    if let Some((asking, courier)) = of(asking, credit.subscription) {
        courier.add_credit(credit.credit);
        if asking.is_one_way() {
            asking.done();
            courier.pump();
        } else {
            courier.look(asking);
        }
    }
}

/// Ends a subscription; answered when what it held is given back.
pub(crate) fn unsubscribe(asking: Asking, number: u32) {
    if let Some((asking, courier)) = of(asking, number) {
        asking.peer().couriers.borrow_mut().remove(&number);
        courier.end();
        courier.run(Errand::Close, Some(asking));
    }
}
