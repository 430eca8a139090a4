//! An event loop that publishes and reads a subject by its numbers. It waits for nothing but wake-ups, and is woken for
//! both.

use std::sync::Arc;

use delaymq_core::units::ReadyNumber;
use delaymq_engine::{Due, ReadNumbers, SubjectReader};

use crate::consumers::body_of;
use crate::publishers::{answered, at_once};
use crate::wake_ups::Bell;
use crate::world::{Kept, SUBJECT, World, batch_of};

/// Reads what there is from `from` on, all of it kept; where it goes on.
fn read(world: &World, reader: &SubjectReader, from: ReadyNumber) -> ReadyNumber {
    let mut next = from;
    loop {
        let found = match reader.try_read(next, 10, usize::MAX).unwrap() {
            ReadNumbers::WouldWait => reader.read(next, 10, usize::MAX).unwrap(),
            found => found,
        };
        match found {
            ReadNumbers::Messages { first, messages } => {
                assert_eq!(first, next);
                for body in messages.iter().map(body_of) {
                    assert!(world.keeps(&body), "{body} was read and is not kept");
                }
                next = next.plus(messages.len() as u64);
            }
            other => {
                assert!(matches!(other, ReadNumbers::Nothing { next: there } if there == next), "{other:?}");
                return next;
            }
        }
    }
}

/// See the module.
pub(crate) fn event_loop(world: &Arc<World>) {
    let store = world.open();
    let (bell, listener) = Bell::hung_up(&store);
    let reader = Kept::new(store.subject_reader(SUBJECT).unwrap());
    reader.watch_by(&listener, 7).unwrap();
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
    let (mut next, mut is_answered) = (ReadyNumber(0), false);
    while !is_answered || next < ReadyNumber(3) {
        listener.drain().unwrap();
        if !is_answered && listener.want(own.end()).unwrap() {
            answered(world, "own");
            is_answered = true;
        }
        next = read(world, &reader, next);
        if is_answered && next == ReadyNumber(3) {
            break;
        }
        bell.wait();
    }
    at_once("the event loop");
    other.join().unwrap();
    store.close().unwrap();
}
