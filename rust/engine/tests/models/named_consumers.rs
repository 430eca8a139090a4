//! Named consumers on an event loop, which another thread ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::Error;
use delaymq_core::queues::tags::{Filter, TagRule};
use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_core::units::PullOffset;
use delaymq_engine::{ConsumerId, Due, Judging, NamedOptions, PullBounds, RetryRule, StartAt, Store, TriedRun};

use crate::consumers::body_of;
use crate::publishers::{answered, at_once, ended_soon};
use crate::wake_ups::Bell;
use crate::world::{GROUP, Kept, SUBJECT, World, batch_of, subscribe};

const ID: ConsumerId<'_> = ConsumerId { subject: SUBJECT, group: GROUP, consumer: "host-7@@0a1b" };
const BOUNDS: PullBounds = PullBounds { count_max: 2, bytes_max: usize::MAX, in_flight_max: 16 };
const AT_ONCE: RetryRule = RetryRule { delay_ms: 0, attempts_max: 3, reason: None };
const BODIES: [&str; 3] = ["one", "two", "three"];

fn earliest() -> NamedOptions {
    NamedOptions { start: StartAt::Unfinished, ..NamedOptions::default() }
}

fn published(world: &Arc<World>, store: &Arc<Store>) -> shuttle::thread::JoinHandle<()> {
    let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(store)));
    shuttle::thread::spawn(move || {
        for body in BODIES {
            store.publish(&mut batch_of(&store, &[body], Due::After(0))).unwrap();
            answered(&world, body);
        }
    })
}

/// It is told of what comes, gets each once under neighbouring offsets, and is done with it durably.
pub(crate) fn named(world: &Arc<World>) {
    let store = world.open();
    let consumer = Kept::new(store.register_named_consumer(ID, earliest()).unwrap().finish().unwrap().0);
    let (bell, listener) = Bell::hung_up(&store);
    consumer.watch_by(&listener, 3).unwrap();
    let publisher = published(world, &store);
    let mut bodies = Vec::new();
    while bodies.len() < BODIES.len() {
        listener.drain().unwrap();
        while let Some(run) = consumer.pull(BOUNDS).unwrap() {
            assert_eq!(run.first, PullOffset(bodies.len() as u64));
            bodies.extend(run.messages.iter().map(body_of));
        }
        if bodies.len() < BODIES.len() {
            bell.wait();
        }
    }
    assert_eq!(bodies, BODIES);
    at_once("the named consumer");
    let end = consumer.settle(&[PullOffset(0)..PullOffset(3)], &[], AT_ONCE).unwrap();
    while !listener.want(end).unwrap() {
        bell.wait();
        listener.drain().unwrap();
    }
    assert_eq!(world.left().ready, 0, "what is done with comes again after a stop now");
    publisher.join().unwrap();
    store.close().unwrap();
    ended_soon();
}

/// What it held when somebody ended it comes to the next of its group, with what it was not given.
pub(crate) fn ended(world: &Arc<World>) {
    let store = world.open();
    let consumer = Kept::new(store.register_named_consumer(ID, earliest()).unwrap().finish().unwrap().0);
    let publisher = published(world, &store);
    let ender = {
        let store = Kept::new(Arc::clone(&store));
        shuttle::thread::spawn(move || assert!(store.end_named_consumer(ID, AT_ONCE).unwrap().is_some()))
    };
    for _ in 0..3 {
        match consumer.pull(BOUNDS) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Error::Closed);
                break;
            }
        }
    }
    ender.join().unwrap();
    publisher.join().unwrap();
    assert_eq!(consumer.pull(BOUNDS).map(drop), Err(Error::Closed));
    let (next, mut bodies) = (subscribe(&store), BTreeSet::new());
    while bodies.len() < BODIES.len() {
        let pulled = next.pull(3, Duration::from_secs(30)).unwrap();
        assert!(!pulled.is_empty(), "only {bodies:?} came to the next consumer");
        assert!(pulled.iter().all(|message| bodies.insert(body_of(message))), "twice");
    }
    assert_eq!(bodies, BODIES.map(str::to_owned).into());
    at_once("the next consumer");
    store.close().unwrap();
}

/// Two consumers with filters judge the same messages: each that passes comes to one of them, and what does not is
/// finished.
pub(crate) fn judged(world: &Arc<World>) {
    let store = world.open();
    let mut batch = store.batch();
    for (body, tag) in [("one", "no"), ("two", "yes"), ("three", "no"), ("four", "yes")] {
        let tags = vec![tag.to_owned()];
        let meta = encode_meta(&Meta { message_id: String::new(), tags, attributes: Vec::new() }).unwrap();
        batch.push(SUBJECT, Due::After(0), &meta, body.as_bytes()).unwrap();
    }
    store.publish(&mut batch).unwrap();
    let pulls = ["one", "two"].map(|name| {
        let store = Kept::new(Arc::clone(&store));
        shuttle::thread::spawn(move || {
            let id = ConsumerId { consumer: name, ..ID };
            let consumer = Kept::new(store.register_named_consumer(id, earliest()).unwrap().finish().unwrap().0);
            let filters = [Filter::Tags { rule: TagRule::Any, tags: vec!["yes".to_owned()] }];
            let judging = Judging { filters: &filters, judged_max: 100, returns_part: true };
            let mut bodies = Vec::new();
            while let TriedRun::Run(run) = consumer.pull_passing(BOUNDS, judging).unwrap() {
                assert_eq!(run.first, PullOffset(bodies.len() as u64));
                bodies.extend(run.messages.iter().map(body_of));
            }
            bodies
        })
    });
    let mut bodies: Vec<String> = pulls.into_iter().flat_map(|pull| pull.join().unwrap()).collect();
    bodies.sort_unstable();
    assert_eq!(bodies, ["four", "two"]);
    let lag: u64 = store.groups().unwrap().iter().filter(|group| group.name == GROUP).map(|group| group.lag).sum();
    assert_eq!(lag, 2, "what does not pass is finished");
    store.close().unwrap();
    ended_soon();
}
