//! Publishers, a consumer, and a thread that cancels.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{CancelOutcome, Delivered, DeliveryKey, Due, Store, Subscription, modelled};

use crate::publishers::{answered, at_once, ended_soon};
use crate::world::{Kept, World, batch_of, subscribe, trusted_now};

const LONG: Duration = Duration::from_secs(30);

pub(crate) fn body_of(message: &Delivered) -> String {
    String::from_utf8(message.body().to_vec()).unwrap()
}

/// Takes so many messages, each once, and none whose facts a stop now would lose.
fn take(world: &World, messages: &Subscription, count: usize) -> Vec<DeliveryKey> {
    let (mut keys, mut bodies) = (Vec::new(), BTreeSet::new());
    while keys.len() < count {
        let pulled = messages.pull(count, LONG).unwrap();
        assert!(!pulled.is_empty(), "nothing came for {LONG:?}");
        for message in &pulled {
            let body = body_of(message);
            assert!(world.keeps(&body), "{body} was handed over and is not kept");
            assert!(message.due <= trusted_now(), "{body} is early");
            assert!(bodies.insert(body), "twice");
            keys.push(message.key);
        }
        assert!(world.left().ready >= keys.len() as u64, "what was handed over is not ready after a stop now");
    }
    keys
}

fn published(world: &Arc<World>, store: &Arc<Store>, name: &'static str) -> shuttle::thread::JoinHandle<()> {
    let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(store)));
    shuttle::thread::spawn(move || {
        for number in 0..2 {
            let body = format!("{name}-{number}");
            store.publish(&mut batch_of(&store, &[&body], Due::After(0))).unwrap();
            answered(&world, &body);
        }
    })
}

/// What is due is handed over at once, once, and when it is durable; so is its end.
pub(crate) fn consumers(world: &Arc<World>) {
    let store = world.open();
    let messages = subscribe(&store);
    let publishers = [published(world, &store, "left"), published(world, &store, "right")];
    let canceller = {
        let store = Kept::new(Arc::clone(&store));
        shuttle::thread::spawn(move || {
            let receipts = store.publish(&mut batch_of(&store, &["cancelled"], Due::After(60_000))).unwrap();
            assert_eq!(store.cancel(&receipts.get(0).unwrap()).unwrap(), CancelOutcome::Done);
            at_once("the cancel");
        })
    };
    let keys = take(world, &messages, 4);
    at_once("the consumer");
    messages.acknowledge(&keys).unwrap();
    assert!(messages.flush(LONG).unwrap());
    at_once("the flush");
    assert_eq!(world.left().ready, 0, "what was acknowledged comes again after a stop now");
    for thread in publishers.into_iter().chain([canceller]) {
        thread.join().unwrap();
    }
    store.close().unwrap();
    ended_soon();
    assert_eq!(world.left().pending, 0);
}

/// What is due later comes at its millisecond, also where it was published last and is due first.
pub(crate) fn later(world: &Arc<World>) {
    let store = world.open();
    let messages = subscribe(&store);
    store.publish(&mut batch_of(&store, &["first"], Due::After(20))).unwrap();
    let other = {
        let store = Kept::new(Arc::clone(&store));
        shuttle::thread::spawn(move || {
            modelled::sleep(Duration::from_millis(8));
            store.publish(&mut batch_of(&store, &["second"], Due::After(3))).unwrap();
        })
    };
    for expected in ["second", "first"] {
        let pulled = messages.pull(1, LONG).unwrap();
        assert_eq!(pulled.iter().map(body_of).collect::<Vec<_>>(), [expected]);
        assert_eq!(pulled[0].due, trusted_now(), "{expected} is not on time");
    }
    other.join().unwrap();
    store.close().unwrap();
}
