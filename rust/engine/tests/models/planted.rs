//! Each planted fault is found: a model that cannot see it would not see a real one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::planted::{Planted, plant};
use delaymq_engine::Durability;

use crate::explorer::{Tried, note};
use crate::world::World;

/// Orders of each kind in which each fault must be found. Most are found within 70, a quarter of the orders of one kind
/// in which the models are tried. `InboxLeftBehind` and `WaitersCountedFirst` are rarer (found in order 1,622 and 4,554,
/// of both kinds together), so that the soak alone finds their like for certain.
const ORDERS_MAX: usize = 3_000;

fn words_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Sees this mistake fail this model, with these words.
pub(crate) fn finds(fault: Planted, words: &str, durability: Durability, model: fn(&Arc<World>)) {
    let folder = tempfile::tempdir().unwrap();
    let tried = Tried::default();
    plant(Some(fault));
    // What a failed model leaves behind belongs to it alone.
    let failed = catch_unwind(AssertUnwindSafe(|| tried.both(ORDERS_MAX, folder.path(), durability, model)));
    plant(None);
    let orders = tried.orders.load(Ordering::Relaxed);
    let found = failed.expect_err("it was not found");
    let found = words_of(found.as_ref());
    assert!(found.contains(words), "{fault:?} was found by other words: {found}");
    note(&format!("{fault:?}: found in order {orders}: {}", found.lines().next().unwrap_or_default()));
}
