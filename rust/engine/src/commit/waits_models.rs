//! Models of the waits, in every order of their threads' steps.

use std::panic::catch_unwind;

use delaymq_core::planted::plant;
use shuttle::scheduler::DfsScheduler;
use shuttle::{Config, FailurePersistence, Runner};

use super::*;
use crate::sync::modelled::begin;

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

fn beside<T: Send + Sync + 'static>(shared: &Arc<T>, act: fn(&T)) -> shuttle::thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    shuttle::thread::spawn(move || act(&shared))
}

fn a_position_is_reached() {
    let positions = Arc::new(Positions::default());
    let other = beside(&positions, |positions| positions.advance(Sequence(2)));
    assert_eq!(positions.wait(Sequence(2), None), Waited::Reached);
    other.join().unwrap();
    assert!(held(&positions.waiters).is_empty());
}

fn a_position_is_reached_for_two() {
    let positions = Arc::new(Positions::default());
    let other = beside(&positions, |positions| assert_eq!(positions.wait(Sequence(1), None), Waited::Reached));
    positions.advance(Sequence(2));
    assert_eq!(positions.wait(Sequence(2), None), Waited::Reached);
    other.join().unwrap();
}

fn a_position_is_never_reached() {
    let positions = Arc::new(Positions::default());
    let other = beside(&positions, Positions::end);
    assert_eq!(positions.wait(Sequence(2), None), Waited::Ended);
    other.join().unwrap();
}

fn a_signal_is_raised() {
    let signal = Arc::new(Signal::default());
    let other = beside(&signal, Signal::raise);
    assert!(signal.sleep(Duration::MAX));
    other.join().unwrap();
}

fn there_is_news() {
    let news = Arc::new(EventCount::default());
    let seen = news.count();
    let other = beside(&news, EventCount::notify_all);
    assert!(news.wait_beyond(seen, Duration::MAX));
    other.join().unwrap();
}

#[test]
fn nobody_is_left_waiting_in_any_order() {
    let models = [
        a_position_is_reached,
        a_position_is_reached_for_two,
        a_position_is_never_reached,
        a_signal_is_raised,
        there_is_news,
    ];
    let orders = models.map(in_every_order);
    assert!(orders.iter().all(|orders| *orders >= 10), "{orders:?}");
}

#[test]
fn who_looks_up_waiters_too_early_or_not_at_all_is_found() {
    for fault in [Planted::WaiterNotWoken, Planted::WaitersCountedFirst] {
        plant(Some(fault));
        let failed = catch_unwind(|| in_every_order(a_position_is_reached));
        plant(None);
        let found = failed.expect_err("it was not found");
        assert!(found.downcast_ref::<String>().is_some_and(|words| words.contains("deadlock")), "{fault:?}");
    }
}
