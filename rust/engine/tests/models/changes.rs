//! Cancels and moves, by receipt, by key and by id, while others change the same message, it becomes due, and a
//! checkpoint is written.

use std::sync::Arc;
use std::time::Duration;

use delaymq_core::record::message::{Meta, encode_meta};
use delaymq_engine::{
    CancelOutcome, Due, Fate, IfExists, LookedUpKey, MoveOutcome, PublishTerms, Receipt, Store, modelled,
};
use shuttle::thread::JoinHandle;

use crate::consumers::body_of;
use crate::publishers::{answered, at_once_since};
use crate::world::{Kept, SUBJECT, World, batch_of, subscribe};

const LONG: Duration = Duration::from_secs(30);
const FAR: Due = Due::After(60_000);
const KEY: &str = "17";

/// One who does this with the store, and is answered without waiting for the time.
pub(crate) fn changer<T: Send + 'static>(
    world: &Arc<World>,
    store: &Arc<Store>,
    change: impl FnOnce(&World, &Store) -> T + Send + 'static,
) -> JoinHandle<T> {
    let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(store)));
    shuttle::thread::spawn(move || {
        let began = modelled::now();
        let found = change(&world, &store);
        at_once_since(began, "a change");
        found
    })
}

pub(crate) fn checkpoint(store: &Arc<Store>) -> JoinHandle<()> {
    let store = Kept::new(Arc::clone(store));
    shuttle::thread::spawn(move || store.checkpoint().unwrap())
}

fn published(store: &Store, body: &str, terms: &PublishTerms<'_>, id: &str) -> Receipt {
    let mut batch = store.batch();
    let meta = encode_meta(&Meta { message_id: id.to_owned(), ..Meta::default() }).unwrap();
    batch.push_on_terms(SUBJECT, FAR, (&meta, body.as_bytes()), terms).unwrap();
    store.publish(&mut batch).unwrap().get(0).unwrap()
}

/// A message that one moves to now and another cancels comes once, or never, as they were told.
pub(crate) fn by_receipt(world: &Arc<World>) {
    let store = world.open();
    let messages = subscribe(&store);
    let receipt = store.publish(&mut batch_of(&store, &["one"], FAR)).unwrap().get(0).unwrap();
    let written = checkpoint(&store);
    let mover = changer(world, &store, move |world, store| {
        let found = store.move_to(&receipt, Due::After(0)).unwrap();
        let moved = matches!(found, MoveOutcome::Done(_));
        assert!(!moved || world.left().ready == 1, "a move was answered and is not kept");
        found
    });
    let canceller = changer(world, &store, move |world, store| {
        let found = store.cancel(&receipt).unwrap();
        assert!(found != CancelOutcome::Done || world.left().pending == 0, "a cancel was answered and is not kept");
        found
    });
    match (mover.join().unwrap(), canceller.join().unwrap()) {
        (MoveOutcome::Done(_), CancelOutcome::NotFound) => {
            let pulled = messages.pull(2, LONG).unwrap();
            assert_eq!(pulled.iter().map(body_of).collect::<Vec<_>>(), ["one"]);
            messages.acknowledge(&[pulled[0].key]).unwrap();
            assert!(messages.flush(LONG).unwrap());
        }
        (MoveOutcome::NotFound, CancelOutcome::Done) => {}
        other => panic!("moved and cancelled: {other:?}"),
    }
    written.join().unwrap();
    assert_eq!(store.status().unwrap().pending, 0, "what has ended is pending");
    store.close().unwrap();
    let left = world.left();
    assert_eq!((left.pending, left.ready), (0, 0));
}

/// Whoever publishes under a key, keeps what has it, or cancels it: one message at most has it in the end.
pub(crate) fn by_key(world: &Arc<World>) {
    let store = world.open();
    let publisher = |if_exists, body: &'static str| {
        changer(world, &store, move |world, store| {
            let terms = PublishTerms { key: Some(KEY), if_exists, deduplicates: false, expires: None };
            let receipt = published(store, body, &terms, "");
            answered(world, body);
            receipt
        })
    };
    let publishers = [publisher(IfExists::Replace, "replaces"), publisher(IfExists::Keep, "keeps")];
    let canceller = changer(world, &store, |_, store| store.cancel_key(SUBJECT, KEY, None).unwrap());
    let written = checkpoint(&store);
    let mut receipts = publishers.map(|publisher| publisher.join().unwrap()).to_vec();
    receipts.dedup();
    let cancelled = canceller.join().unwrap();
    written.join().unwrap();
    receipts.retain(|receipt| store.look_up(receipt).unwrap().fate == Fate::Pending);
    assert!(receipts.len() <= 1, "two messages have one key");
    let expected = receipts.first().map_or(LookedUpKey::NotFound, |receipt| LookedUpKey::Pending(*receipt));
    assert_eq!(store.look_up_key(SUBJECT, KEY).unwrap(), expected, "the key names another");
    assert!(cancelled == CancelOutcome::Done || receipts.len() == 1, "nobody has cancelled, and nothing is pending");
    store.close().unwrap();
    assert_eq!(world.left().pending, receipts.len() as u64);
}

/// Two who publish under one id are told of one message.
pub(crate) fn by_id(world: &Arc<World>) {
    let store = world.open();
    let publishers = [(); 2].map(|()| {
        changer(world, &store, |world, store| {
            let terms = PublishTerms { key: None, if_exists: IfExists::Refuse, deduplicates: true, expires: None };
            let receipt = published(store, "twice", &terms, "id-1");
            answered(world, "twice");
            receipt
        })
    });
    let written = checkpoint(&store);
    let [first, second] = publishers.map(|publisher| publisher.join().unwrap());
    assert_eq!(first, second, "one id, two messages");
    written.join().unwrap();
    store.close().unwrap();
    assert_eq!(world.left().pending, 1);
}
