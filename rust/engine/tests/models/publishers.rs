//! Publishers next to each other, with each kind of publish.

use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{Due, Store, modelled};

use crate::world::{Kept, World, batch_of};

/// How long the helper is deaf between two pieces of its work.
const PAUSE_STEP: Duration = Duration::from_millis(1);

/// Nobody waits for the time who could be answered.
pub(crate) fn at_once(what: &str) {
    at_once_since(Duration::ZERO, what);
}

/// So it is where time has passed before.
pub(crate) fn at_once_since(began: Duration, what: &str) {
    assert_eq!(modelled::now(), began, "{what} was not woken and waited for the time");
}

/// So it is with the end of a store, but for the step of a pause that the helper may be taking.
pub(crate) fn ended_soon() {
    assert!(modelled::now() <= PAUSE_STEP, "the end waited for the time");
}

/// What was answered is durable, and was not kept waiting.
pub(crate) fn answered(world: &World, body: &str) {
    assert!(world.keeps(body), "{body} was answered and is not kept");
    at_once(body);
}

fn led(world: &World, store: &Store) {
    for body in ["led-1", "led-2"] {
        store.publish(&mut batch_of(store, &[body], Due::After(0))).unwrap();
        answered(world, body);
    }
}

fn begun(world: &World, store: &Store) {
    let mut batch = batch_of(store, &["begun-1", "begun-2"], Due::After(60_000));
    let ticket = loop {
        if let Some(ticket) = store.begin_publish(&mut batch).unwrap() {
            break ticket;
        }
    };
    ticket.finish().unwrap();
    answered(world, "begun-1");
    answered(world, "begun-2");
}

/// One thread submits and waits, another looks at the same ticket now and then.
fn submitted(world: &Arc<World>, store: &Store) {
    let ticket = Arc::new(store.submit(&mut batch_of(store, &["submitted"], Due::After(0))).unwrap());
    let (watched, watching) = (Arc::clone(&ticket), Arc::clone(world));
    let watcher = shuttle::thread::spawn(move || {
        for _ in 0..3 {
            if watched.is_done() {
                answered(&watching, "submitted");
            }
        }
    });
    assert!(ticket.wait(Duration::from_secs(30)).unwrap().is_some());
    answered(world, "submitted");
    watcher.join().unwrap();
}

/// See the module.
pub(crate) fn publishers(world: &Arc<World>) {
    let store = world.open();
    let ways: [fn(&Arc<World>, &Store); 3] =
        [|world, store| led(world, store), |world, store| begun(world, store), submitted];
    let threads = ways.map(|way| {
        let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(&store)));
        shuttle::thread::spawn(move || way(&world, &store))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    store.close().unwrap();
    ended_soon();
    let left = world.left();
    assert_eq!((left.pending, left.ready), (2, 3));
}
