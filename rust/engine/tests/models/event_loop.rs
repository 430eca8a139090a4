//! An event loop that publishes and consumes. It waits for nothing but wake-ups, and is woken for both.

use std::sync::Arc;

use delaymq_engine::{ConsumerId, Due, NamedConsumer, NamedOptions, PullBounds, StartAt, TriedRun};

use crate::consumers::body_of;
use crate::publishers::{answered, at_once};
use crate::wake_ups::Bell;
use crate::world::{GROUP, Kept, SUBJECT, World, batch_of};

const ID: ConsumerId<'_> = ConsumerId { subject: SUBJECT, group: GROUP, consumer: "host-7@@0a1b" };
const BOUNDS: PullBounds = PullBounds { count_max: 10, bytes_max: usize::MAX, in_flight_max: 16 };

/// Pulls what there is, all of it kept; how many messages that were.
fn pulled(world: &World, consumer: &NamedConsumer) -> usize {
    let mut count = 0;
    loop {
        let run = match consumer.try_pull(BOUNDS).unwrap() {
            TriedRun::Run(run) => Some(run),
            TriedRun::Nothing | TriedRun::Soon => None,
            TriedRun::WouldWait => consumer.pull(BOUNDS).unwrap(),
        };
        let Some(run) = run else { return count };
        for body in run.messages.iter().map(body_of) {
            assert!(world.keeps(&body), "{body} was pulled and is not kept");
            count += 1;
        }
    }
}

/// See the module.
pub(crate) fn event_loop(world: &Arc<World>) {
    let store = world.open();
    let options = NamedOptions { start: StartAt::Unfinished, ..NamedOptions::default() };
    let consumer = Kept::new(store.register_named_consumer(ID, options).unwrap().finish().unwrap().0);
    let (bell, listener) = Bell::hung_up(&store);
    consumer.watch_by(&listener, 7).unwrap();
    let other = {
        let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(&store)));
        shuttle::thread::spawn(move || {
            for body in ["other-1", "other-2"] {
                store.publish(&mut batch_of(&store, &[body], Due::After(0))).unwrap();
                answered(&world, body);
            }
        })
    };
    let own = store.try_publish(&mut batch_of(&store, &["own"], Due::After(0))).unwrap().unwrap();
    let (mut count, mut is_answered) = (0, false);
    loop {
        listener.drain().unwrap();
        if !is_answered && listener.want(own.end()).unwrap() {
            answered(world, "own");
            is_answered = true;
        }
        count += pulled(world, &consumer);
        if is_answered && count == 3 {
            break;
        }
        bell.wait();
    }
    at_once("the event loop");
    other.join().unwrap();
    store.close().unwrap();
}
