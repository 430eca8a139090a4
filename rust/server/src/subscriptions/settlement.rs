//! ACKNOWLEDGE, `GIVE_BACK`, `PUT_AWAY` and FLUSH: settlements of a subscription, in the order of their connection.

use std::rc::Rc;

use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack, PutAway};
use delaymq_engine::{DeliveryKey, DeliveryRange};

use crate::requests::responder::Responder;
use crate::subscriptions::blocking_tasks::BlockingTask;
use crate::subscriptions::subscribe::{of, of_patient};
use crate::subscriptions::subscription_delivery::SubscriptionDelivery;

/// Finishes messages.
pub(crate) fn acknowledge(responder: Responder, acknowledge: &Acknowledge) {
    let Some((responder, delivery)) = of(responder, acknowledge.subscription) else { return };
    let ranges = acknowledge.ranges.iter();
    let ranges: Vec<_> =
        ranges.map(|range| DeliveryRange { queue: range.queue, first: range.first, count: range.count }).collect();
    match delivery.subscription.acknowledge_ranges(&ranges) {
        Err(error) => responder.failed(&error),
        Ok(()) if responder.is_one_way() => responder.done(),
        Ok(()) => flush_now(responder, &delivery),
    }
    // There is room for further messages.
    delivery.pump();
}

/// Gives messages back for a retry.
pub(crate) fn give_back(responder: Responder, give_back: GiveBack) {
    let Some((responder, delivery)) = of_patient(responder, give_back.subscription) else { return };
    let messages = give_back.messages.into_iter();
    let messages = messages.map(|one| (DeliveryKey { queue: one.queue, offset: one.offset }, one.delay_ms)).collect();
    let is_flushed = !responder.is_one_way();
    delivery.run(BlockingTask::GiveBack { messages, is_flushed }, Some(responder));
}

/// Moves messages to the dead letters.
pub(crate) fn put_away(responder: Responder, put_away: &PutAway<'_>) {
    let Some((responder, delivery)) = of_patient(responder, put_away.subscription) else { return };
    let keys = put_away.keys.iter().map(|(queue, offset)| DeliveryKey { queue: *queue, offset: *offset }).collect();
    let (reason, is_flushed) = (put_away.reason.to_owned(), !responder.is_one_way());
    delivery.run(BlockingTask::PutAway { keys, reason, is_flushed }, Some(responder));
}

/// Waits until earlier settlements are durable.
pub(crate) fn flush(responder: Responder, number: u32) {
    if let Some((responder, delivery)) = of_patient(responder, number) {
        flush_now(responder, &delivery);
    }
}

fn flush_now(responder: Responder, delivery: &Rc<SubscriptionDelivery>) {
    if !delivery.is_settled() {
        return delivery.run(BlockingTask::Flush, Some(responder));
    }
    match delivery.subscription.begin_flush() {
        Ok(Some(position)) => {
            let state = Rc::clone(responder.state());
            state.promise(position, Box::new(|kept| responder.settled(kept)));
        }
        Ok(None) => delivery.run(BlockingTask::Flush, Some(responder)),
        Err(error) => responder.failed(&error),
    }
}
