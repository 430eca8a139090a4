//! Stores that end while they are used: closed, abandoned, or on a disk that fails.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::{Error, StorageFault};
use delaymq_core::storage::Call;
use delaymq_engine::{Due, Store, Subscription, modelled};
use shuttle::rand::Rng;
use shuttle::thread::JoinHandle;

use crate::consumers::body_of;
use crate::publishers::{answered, ended_soon};
use crate::world::{Kept, World, batch_of, subscribe};

/// Publishes until the store refuses; says how many were answered.
type Publisher = fn(&World, &Store, &str) -> Result<(), Error>;

fn leading(world: &World, store: &Store, body: &str) -> Result<(), Error> {
    store.publish(&mut batch_of(store, &[body], Due::After(0)))?;
    assert!(world.keeps(body), "{body} was answered and is not kept");
    Ok(())
}

fn submitting(world: &World, store: &Store, body: &str) -> Result<(), Error> {
    store.submit(&mut batch_of(store, &[body], Due::After(0)))?.finish()?;
    assert!(world.keeps(body), "{body} was answered and is not kept");
    Ok(())
}

fn publishing(
    world: &Arc<World>,
    store: &Arc<Store>,
    name: &'static str,
    publish: Publisher,
    ends: fn(&Error) -> bool,
) -> JoinHandle<u64> {
    let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(store)));
    shuttle::thread::spawn(move || {
        for number in 0..2 {
            if let Err(error) = publish(&world, &store, &format!("{name}-{number}")) {
                assert!(ends(&error), "{error}");
                return number;
            }
        }
        2
    })
}

/// Pulls until the store ends, or all four have come.
fn consuming(messages: &Kept<Arc<Subscription>>, ends: fn(&Error) -> bool) -> JoinHandle<()> {
    let messages = Kept::new(Arc::clone(messages));
    shuttle::thread::spawn(move || {
        let mut bodies = Vec::new();
        while bodies.len() < 4 {
            match messages.pull(4, Duration::from_secs(300)) {
                Ok(pulled) => {
                    assert!(!pulled.is_empty(), "nobody told the consumer that the store ended");
                    bodies.extend(pulled.iter().map(body_of));
                }
                Err(error) => return assert!(ends(&error), "{error}"),
            }
        }
    })
}

fn is_closed(error: &Error) -> bool {
    *error == Error::Closed
}

fn is_poisoned(error: &Error) -> bool {
    matches!(error, Error::Poisoned { .. })
}

fn ended_by(world: &Arc<World>, end: fn(&Store)) {
    let store = world.open();
    let messages = subscribe(&store);
    let publishers = [
        publishing(world, &store, "left", leading, is_closed),
        publishing(world, &store, "right", submitting, is_closed),
    ];
    let consumer = consuming(&messages, is_closed);
    end(&store);
    let answers: u64 = publishers.map(|publisher| publisher.join().unwrap()).into_iter().sum();
    consumer.join().unwrap();
    ended_soon();
    assert!(matches!(store.check(), Err(Error::Closed)));
    assert!(world.left().ready >= answers, "less is kept than was answered");
}

/// Everybody gets an answer or `Closed`, and the close ends.
pub(crate) fn closing(world: &Arc<World>) {
    ended_by(world, |store| store.close().unwrap());
}

/// The same where the store is let go of as by kill -9.
pub(crate) fn abandoning(world: &Arc<World>) {
    ended_by(world, |store| store.abandon().unwrap());
}

/// Everybody gets an answer or `Poisoned`, whichever sync of the disk fails.
pub(crate) fn failing(world: &Arc<World>) {
    let store = world.open();
    let messages = subscribe(&store);
    let calls = shuttle::rand::thread_rng().gen_range(0..6);
    world.disk.fail_call_of(Call::Sync, calls, StorageFault::Io);
    let publishers = [
        publishing(world, &store, "left", leading, is_poisoned),
        publishing(world, &store, "right", submitting, is_poisoned),
    ];
    let consumer = consuming(&messages, is_poisoned);
    let answers: u64 = publishers.map(|publisher| publisher.join().unwrap()).into_iter().sum();
    consumer.join().unwrap();
    // Where the sync was that of a segment to come, it was tried again, which takes its time.
    assert!(modelled::now() < Duration::from_secs(1), "somebody was not told that the store failed");
    if let Err(error) = store.close() {
        assert!(is_poisoned(&error), "{error}");
    }
    world.disk.heal();
    assert!(world.left().ready >= answers, "less is kept than was answered");
}

/// A store that is closed twice at once is closed once, and both callers may go.
pub(crate) fn closed_twice(world: &Arc<World>) {
    let store = world.open();
    store.publish(&mut batch_of(&store, &["one"], Due::After(0))).unwrap();
    answered(world, "one");
    let other = {
        let store = Kept::new(Arc::clone(&store));
        shuttle::thread::spawn(move || store.close().unwrap())
    };
    store.close().unwrap();
    other.join().unwrap();
    ended_soon();
    assert_eq!(world.left().ready, 1);
}
