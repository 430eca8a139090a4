//! A store that leads, and the thread of its node, which says what the copies have.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::replication::LogView;
use delaymq_engine::{CopyCount, Due, Store};
use shuttle::sync::atomic::AtomicBool;

use crate::consumers::body_of;
use crate::publishers::{answered, at_once};
use crate::world::{Kept, Told, World, batch_of, subscribe};

const ENOUGH: CopyCount = CopyCount { copies: 2, min_copies: 2 };

/// Commits what is durable when the store has something new, until it is told to end.
fn node(store: &Arc<Store>, told: &Arc<Told>, is_over: &Arc<AtomicBool>) -> shuttle::thread::JoinHandle<()> {
    let (store, told, is_over) = (Kept::new(Arc::clone(store)), Arc::clone(told), Arc::clone(is_over));
    shuttle::thread::spawn(move || {
        while !is_over.load(Ordering::SeqCst) {
            told.wait();
            match store.commit(store.durable(), ENOUGH) {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
}

/// A publish is answered when the node has committed it, and a consumer gets the message then, without waiting for the time.
pub(crate) fn committed(world: &Arc<World>) {
    let (store, told) = world.lead();
    let is_over = Arc::new(AtomicBool::new(false));
    store.commit(store.durable(), ENOUGH).unwrap();
    assert!(store.has_begun());
    let node = node(&store, &told, &is_over);
    let messages = subscribe(&store);
    let publishers = ["left", "right"].map(|name| {
        let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(&store)));
        shuttle::thread::spawn(move || {
            for number in 0..2 {
                let body = format!("{name}-{number}");
                store.publish(&mut batch_of(&store, &[&body], Due::After(0))).unwrap();
                answered(&world, &body);
            }
        })
    });
    let mut bodies = Vec::new();
    while bodies.len() < 4 {
        let pulled = messages.pull(4, Duration::from_secs(30)).unwrap();
        assert!(!pulled.is_empty(), "nothing came");
        bodies.extend(pulled.iter().map(body_of));
    }
    at_once("a consumer");
    for publisher in publishers {
        publisher.join().unwrap();
    }
    bodies.sort();
    assert_eq!(bodies, ["left-0", "left-1", "right-0", "right-1"]);
    assert!(store.status().unwrap().visible <= store.durable());
    is_over.store(true, Ordering::SeqCst);
    told.tell();
    node.join().unwrap();
    store.abandon().unwrap();
}
