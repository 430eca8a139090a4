//! A series that two threads begin at once, while its messages become due and are moved, and checkpoints are written.

use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{CatchUp, IfExists, MoveOutcome, NewRecurring, Receipt, RecurringListed, Recurs, Store};

use crate::changes::{changer, checkpoint};
use crate::consumers::body_of;
use crate::world::{START, SUBJECT, World, subscribe, trusted_now};

const LONG: Duration = Duration::from_secs(30);
const EVERY_MS: u64 = 60_000;
const SERIES: NewRecurring<'_> = NewRecurring {
    name: "minutely",
    recurs: Recurs::Every(EVERY_MS),
    zone: "UTC",
    start: None,
    catch_up: CatchUp::One,
    expires_after: None,
    if_exists: IfExists::Keep,
    meta: &crate::world::META,
    body: b"again",
};
/// So often others may go first before somebody has proposed what is owed.
const LOOKS_MAX: usize = 2_000;

fn listed(store: &Store) -> RecurringListed {
    let mut all = store.recurring(None, 0, 10).unwrap();
    assert_eq!(all.len(), 1, "what recurs is gone, or there twice");
    all.remove(0)
}

/// The one that waits, without any time passing before there is one.
fn waiting(store: &Store) -> Receipt {
    for _ in 0..LOOKS_MAX {
        if let Some(receipt) = listed(store).pending {
            assert_eq!(store.status().unwrap().pending, 1, "two of one series wait");
            return receipt;
        }
        // Others go first, also where orders are those of PCT.
        shuttle::thread::yield_now();
    }
    panic!("nobody was told that it is owed");
}

/// See the module. Each comes at its time, once, and the next one waits before time passes.
pub(crate) fn series(world: &Arc<World>) {
    let store = world.open();
    let messages = subscribe(&store);
    let beginners = [(); 2].map(|()| {
        changer(world, &store, |world, store| {
            let begun = store.recur(SUBJECT, &SERIES).unwrap();
            assert!(world.left().pending <= 1, "two of one series are kept");
            begun.number
        })
    });
    let mut written = checkpoint(&store);
    let [first, second] = beginners.map(|beginner| beginner.join().unwrap());
    assert_eq!(first, second, "one name, two series");
    let mut expected = START;
    for round in 0..3 {
        expected = expected.plus(EVERY_MS);
        let receipt = waiting(&store);
        assert_eq!(receipt.key.due, expected, "one is left out, or comes twice");
        written.join().unwrap();
        let before = trusted_now();
        written = checkpoint(&store);
        // The second one comes later than its rule says, and the third one does not.
        if round == 1 {
            let found = store.move_to(&receipt, delaymq_engine::Due::At(expected.plus(500))).unwrap();
            assert!(matches!(found, MoveOutcome::Done(_)));
        }
        assert_eq!(trusted_now(), before, "somebody waited for the time");
        let pulled = messages.pull(2, LONG.max(Duration::from_millis(2 * EVERY_MS))).unwrap();
        assert_eq!(pulled.iter().map(body_of).collect::<Vec<_>>(), ["again"], "not one came");
        let due = expected.plus(if round == 1 { 500 } else { 0 });
        assert_eq!((pulled[0].due, trusted_now()), (due, due), "it is not on time");
        messages.acknowledge(&[pulled[0].key]).unwrap();
        assert!(messages.flush(LONG).unwrap());
    }
    written.join().unwrap();
    waiting(&store);
    store.checkpoint().unwrap();
    drop(messages);
    store.close().unwrap();
    drop(store);
    let store = world.open();
    assert_eq!((waiting(&store).key.due, listed(&store).number), (expected.plus(EVERY_MS), first));
    assert!(store.end_recurring(SUBJECT, SERIES.name).unwrap());
    store.close().unwrap();
    assert_eq!(world.left().pending, 0);
}
