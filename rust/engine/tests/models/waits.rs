//! The waits alone, in every order of their threads' steps. `waits_models.rs` in the crate has their models.

use std::panic::catch_unwind;

use delaymq_core::planted::{Planted, plant};
use delaymq_engine::modelled::begin;
use delaymq_engine::waits_models::MODELS;
use shuttle::scheduler::DfsScheduler;
use shuttle::{Config, FailurePersistence, Runner};

/// Runs the model in every order. Returns how many orders there are.
fn in_every_order(model: fn()) -> usize {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    Runner::new(DfsScheduler::new(None, false), config).run(move || {
        begin();
        model();
    })
}

#[test]
fn nobody_is_left_waiting_in_any_order() {
    let orders = MODELS.map(in_every_order);
    assert!(orders.iter().all(|orders| *orders >= 10), "{orders:?}");
}

#[test]
fn who_looks_up_waiters_too_early_or_not_at_all_is_found() {
    let [a_position_is_reached, ..] = MODELS;
    for fault in [Planted::WaiterNotWoken, Planted::WaitersCountedFirst] {
        plant(Some(fault));
        let failed = catch_unwind(|| in_every_order(a_position_is_reached));
        plant(None);
        let found = failed.expect_err("it was not found");
        assert!(found.downcast_ref::<String>().is_some_and(|words| words.contains("deadlock")), "{fault:?}");
    }
}
