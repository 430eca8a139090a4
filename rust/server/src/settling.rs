//! What subscriptions settle: ACKNOWLEDGE, `GIVE_BACK`, `PUT_AWAY` and FLUSH, in the order of their
//! connection.

use std::rc::Rc;

use delaymq_core::wire::extension::settle::{Acknowledge, GiveBack, PutAway};
use delaymq_engine::{DeliveryKey, DeliveryRange};

use crate::asking::Asking;
use crate::courier::Courier;
use crate::errands::Errand;
use crate::publishing::Promise;
use crate::subscribing::{of, of_patient};

/// Messages are done.
pub(crate) fn acknowledge(asking: Asking, acknowledge: &Acknowledge) {
    let Some((asking, courier)) = of(asking, acknowledge.subscription) else { return };
    let ranges = acknowledge.ranges.iter();
    let ranges: Vec<_> =
        ranges.map(|range| DeliveryRange { queue: range.queue, first: range.first, count: range.count }).collect();
    match courier.subscription.acknowledge_ranges(&ranges) {
        Err(error) => asking.failed(&error),
        Ok(()) if asking.is_one_way() => asking.done(),
        Ok(()) => flush_now(asking, &courier),
    }
    // There is room for further messages.
    courier.pump();
}

/// Messages shall come again.
pub(crate) fn give_back(asking: Asking, give_back: GiveBack) {
    let Some((asking, courier)) = of_patient(asking, give_back.subscription) else { return };
    let messages = give_back.messages.into_iter();
    let messages = messages.map(|one| (DeliveryKey { queue: one.queue, offset: one.offset }, one.delay_ms)).collect();
    let is_flushed = !asking.is_one_way();
    courier.run(Errand::GiveBack { messages, is_flushed }, Some(asking));
}

/// Messages are put away.
pub(crate) fn put_away(asking: Asking, put_away: &PutAway<'_>) {
    let Some((asking, courier)) = of_patient(asking, put_away.subscription) else { return };
    let keys = put_away.keys.iter().map(|(queue, offset)| DeliveryKey { queue: *queue, offset: *offset }).collect();
    let (reason, is_flushed) = (put_away.reason.to_owned(), !asking.is_one_way());
    courier.run(Errand::PutAway { keys, reason, is_flushed }, Some(asking));
}

/// Waits until what was settled is durable.
pub(crate) fn flush(asking: Asking, number: u32) {
    if let Some((asking, courier)) = of_patient(asking, number) {
        flush_now(asking, &courier);
    }
}

fn flush_now(asking: Asking, courier: &Rc<Courier>) {
    if !courier.is_settled() {
        return courier.run(Errand::Flush, Some(asking));
    }
    match courier.subscription.begin_flush() {
        Ok(Some(position)) => {
            let hub = Rc::clone(asking.hub());
            hub.promise(position, Promise::of(asking));
        }
        Ok(None) => courier.run(Errand::Flush, Some(asking)),
        Err(error) => asking.failed(&error),
    }
}
