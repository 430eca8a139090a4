//! SUBSCRIBE, CREDIT and UNSUBSCRIBE.

use std::rc::Rc;

use delaymq_core::error::Error;
use delaymq_core::queues::tags::Filter;
use delaymq_core::store::Selection;
use delaymq_core::wire::extension::consume::{Credit, Subscribe, Subscribed};
use delaymq_core::wire::extension::errors::{ErrorCode, RemoteError};
use delaymq_engine::SubscribeOptions;
use tokio::task::spawn_local;

use crate::blocking_pool::{Place, Pool, Work};
use crate::connection::peer::MemoryReservation;
use crate::requests::responder::Responder;
use crate::subscriptions::blocking_tasks::BlockingTask;
use crate::subscriptions::subscription_delivery::SubscriptionDelivery;

/// A SUBSCRIBE, while its group and consumer are being created.
struct Wanted {
    number: u32,
    selection: Selection,
    group: String,
    consumer: String,
    options: SubscribeOptions,
    credit: u32,
    kept: MemoryReservation,
    /// The subjects that the reservation is for.
    subjects_count: usize,
}

/// Subscribes.
pub(crate) fn subscribe(responder: Responder, subscribe: Subscribe<'_>) {
    let peer = Rc::clone(responder.peer());
    let state = Rc::clone(peer.state());
    let number = subscribe.subscription;
    if subscribe.is_broadcast {
        let (expected, found) = ("a group whose consumers share".to_owned(), "broadcast".to_owned());
        return responder.failed(&Error::InvalidArgument { argument: "broadcast", expected, found });
    }
    if peer.deliveries.borrow().contains_key(&number) || peer.subscribing.borrow().contains(&number) {
        return responder.refused(&unknown("there is a subscription of that number already"));
    }
    let selection = match Selection::of(&subscribe.subjects) {
        Ok(selection) => selection,
        Err(error) => return responder.failed(&error),
    };
    let subjects_count = subscribe.subjects.len();
    let kept = kept_bytes(&subscribe.filters).saturating_add(subjects_bytes(subjects_count));
    let Some(kept) = peer.reserve_memory(kept) else { return responder.busy() };
    let count = peer.deliveries.borrow().len().saturating_add(peer.subscribing.borrow().len());
    let Some(place) = state.pool.place().filter(|_| count < state.options.subscriptions_max) else {
        return responder.busy();
    };
    let (start, in_flight_max) = (subscribe.start, subscribe.in_flight_max);
    let wanted = Wanted {
        number,
        selection,
        group: subscribe.group.to_owned(),
        consumer: subscribe.consumer.to_owned(),
        options: SubscribeOptions { in_flight_max, start, filters: subscribe.filters, ..SubscribeOptions::default() },
        credit: subscribe.credit,
        kept,
        subjects_count,
    };
    peer.subscribing.borrow_mut().push(number);
    spawn_local(begin(responder, wanted, place));
}

/// The memory of one subject of a subscription beside the first: its names, queues and places in tables.
const SUBJECT_BYTES: usize = 640;

/// The memory of so many subjects of a subscription, without that of the first.
pub(crate) fn subjects_bytes(count: usize) -> usize {
    count.saturating_sub(1).saturating_mul(SUBJECT_BYTES)
}

/// The memory that the filters of a subscription keep while it lives; most keep none.
fn kept_bytes(filters: &[Filter]) -> usize {
    filters.iter().filter(|filter| !filter.passes_all()).map(Filter::memory_bytes).sum()
}

async fn begin(responder: Responder, wanted: Wanted, place: Place) {
    let peer = Rc::clone(responder.peer());
    let store = std::sync::Arc::clone(&peer.state().store);
    let Wanted { number, selection, group, consumer, options, credit, kept, subjects_count } = wanted;
    let begun = Pool::ask(place, Work::Request, move || store.subscribe_to(selection, &group, options)).await;
    peer.subscribing.borrow_mut().retain(|other| *other != number);
    let subscription = match begun {
        Some(Ok(subscription)) => subscription,
        Some(Err(error)) => return responder.failed(&error),
        None => return responder.died(),
    };
    let is_new = subscription.starts_group();
    let delivery = SubscriptionDelivery::new(&peer, number, subscription, (kept, subjects_count));
    if peer.has_left() {
        return delivery.leave();
    }
    // A prefix may have selected more subjects than the connection has memory for.
    if !delivery.keeps_subjects() {
        delivery.leave();
        return responder.busy();
    }
    let consumer = if consumer.is_empty() { format!("delaymq-{}", delivery.token) } else { consumer };
    peer.deliveries.borrow_mut().insert(number, Rc::clone(&delivery));
    peer.state().watch_subscription(&delivery);
    responder.answer_with(|out| Subscribed { consumer, is_new }.put(out));
    delivery.add_credit(credit);
    delivery.pump();
}

/// As [`of`], for a task that waits its turn. Also answers if too many wait already.
pub(crate) fn of_patient(responder: Responder, number: u32) -> Option<(Responder, Rc<SubscriptionDelivery>)> {
    let (responder, delivery) = of(responder, number)?;
    if delivery.is_crowded() {
        responder.busy();
        return None;
    }
    Some((responder, delivery))
}

/// The subscription with this number. Answers an error if there is none.
pub(crate) fn of(responder: Responder, number: u32) -> Option<(Responder, Rc<SubscriptionDelivery>)> {
    let delivery = responder.peer().deliveries.borrow().get(&number).cloned();
    if let Some(delivery) = delivery {
        return Some((responder, delivery));
    }
    responder.refused(&unknown("there is no subscription of that number on this connection"));
    None
}

fn unknown(words: &str) -> RemoteError {
    RemoteError::new(ErrorCode::UnknownSubscription, words)
}

/// Adds credit. A request that wants an answer gets it behind the messages that are ready.
pub(crate) fn credit(responder: Responder, credit: Credit) {
    if let Some((responder, delivery)) = of(responder, credit.subscription) {
        delivery.add_credit(credit.credit);
        if responder.is_one_way() {
            responder.done();
            delivery.pump();
        } else {
            delivery.look(responder);
        }
    }
}

/// Ends a subscription. Answers when its messages are given back.
pub(crate) fn unsubscribe(responder: Responder, number: u32) {
    if let Some((responder, delivery)) = of(responder, number) {
        responder.peer().deliveries.borrow_mut().remove(&number);
        delivery.end();
        delivery.run(BlockingTask::Close, Some(responder));
    }
}
