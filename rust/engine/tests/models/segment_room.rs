//! More than a segment holds, while a checkpoint is taken: publishers wait for room, the helper prepares it, segments
//! change.

use std::sync::Arc;
use std::time::Duration;

use delaymq_engine::{Due, OwnerOptions, modelled};

use crate::world::{Kept, World, batch_of};

/// Four of them fill a segment.
const BODY_BYTES: usize = 15_000;

/// See the module.
pub(crate) fn rooms(world: &Arc<World>) {
    let store = world.open_with(OwnerOptions { copy_after_ms: 0, ..OwnerOptions::default() });
    let threads = ["left", "right"].map(|name| {
        let (world, store) = (Arc::clone(world), Kept::new(Arc::clone(&store)));
        shuttle::thread::spawn(move || {
            for number in 0..3 {
                let head = format!("{name}-{number}:");
                let body = format!("{head}{}", "x".repeat(BODY_BYTES));
                store.publish(&mut batch_of(&store, &[&body], Due::After(60_000))).unwrap();
                assert!(world.keeps(&head), "{head} was answered and is not kept");
            }
        })
    });
    store.checkpoint().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(modelled::now() < Duration::from_secs(1), "somebody was not told that there is room");
    store.checkpoint().unwrap();
    store.close().unwrap();
    assert_eq!(world.left().pending, 6);
}
