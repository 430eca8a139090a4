//! The store under a model checker. Publishers, committer, owner, helper and readers are threads that change places at
//! every lock, signal, atomic and disk call, in orders that are drawn. Time passes only when none of them can go on.
//! What a model asserts holds in each order that was tried.
//!
//! `make models` runs it; `DELAYMQ_MODEL_TIMES=20` tries twenty times as many orders, and
//! `DELAYMQ_MODEL_SEED=5` others.

#![cfg(test)]

mod changes;
mod close;
mod consumers;
mod copies;
mod event_loop;
mod explorer;
mod merges;
mod named_consumers;
mod planted;
mod publishers;
mod recurring;
mod segment_room;
mod waits;
mod wake_ups;
mod world;

use std::sync::atomic::Ordering;

use delaymq_core::planted::Planted;
use delaymq_engine::Durability;
use explorer::{Tried, tries};
use planted::finds;

/// Orders that one model is tried in, half of each kind: two milliseconds each, or less. Most planted faults are found
/// within 70, a quarter of those of one kind; `make soak` tries 25 times as many.
const ORDERS: usize = 600;
const BOTH: [(Durability, &str); 2] = [(Durability::Disk, "disk"), (Durability::Os, "os")];

#[test]
fn who_publishes_is_answered_when_it_is_durable_and_at_once() {
    for (durability, name) in BOTH {
        tries(&format!("publishers, {name}"), ORDERS, durability, publishers::publishers);
    }
}

#[test]
fn who_consumes_gets_what_is_durable_once_and_at_once() {
    for (durability, name) in BOTH {
        tries(&format!("consumers, {name}"), ORDERS, durability, consumers::consumers);
    }
    tries("what is due later", ORDERS, Durability::Disk, consumers::later);
}

#[test]
fn what_the_copies_have_is_answered_and_delivered_at_once() {
    tries("copies", ORDERS, Durability::Disk, copies::committed);
}

#[test]
fn who_changes_what_is_pending_is_told_what_became_of_it() {
    for (durability, name) in BOTH {
        tries(&format!("changes by receipt, {name}"), ORDERS / 2, durability, changes::by_receipt);
        tries(&format!("changes by key, {name}"), ORDERS / 2, durability, changes::by_key);
    }
    tries("repetitions", ORDERS / 2, Durability::Disk, changes::by_id);
}

#[test]
fn an_event_loop_that_publishes_and_consumes_is_woken() {
    for (durability, name) in BOTH {
        tries(&format!("event loop, {name}"), ORDERS, durability, event_loop::event_loop);
    }
}

#[test]
fn who_consumes_under_a_name_is_told_and_leaves_what_it_held_to_the_next() {
    for (durability, name) in BOTH {
        tries(&format!("named consumer, {name}"), ORDERS, durability, named_consumers::named);
        tries(&format!("named consumer that is ended, {name}"), ORDERS, durability, named_consumers::ended);
        tries(&format!("named consumers with filters, {name}"), ORDERS / 2, durability, named_consumers::judged);
    }
}

#[test]
fn a_store_that_ends_leaves_nobody_waiting_and_keeps_what_it_answered() {
    for (durability, name) in BOTH {
        tries(&format!("closing, {name}"), ORDERS, durability, close::closing);
        tries(&format!("abandoning, {name}"), ORDERS, durability, close::abandoning);
    }
    tries("closing twice", ORDERS / 2, Durability::Disk, close::closed_twice);
}

#[test]
fn a_disk_that_fails_leaves_nobody_waiting_and_answers_nothing_that_is_lost() {
    for (durability, name) in BOTH {
        tries(&format!("failing disk, {name}"), ORDERS, durability, close::failing);
    }
}

#[test]
fn who_waits_for_room_gets_it_and_checkpoints_are_taken_meanwhile() {
    for (durability, name) in BOTH {
        tries(&format!("room, {name}"), ORDERS / 2, durability, segment_room::rooms);
    }
}

#[test]
fn what_is_changed_while_runs_are_merged_and_punched_is_kept() {
    for (durability, name) in BOTH {
        tries(&format!("merges that copy, {name}"), ORDERS / 6, durability, merges::copied);
        tries(&format!("merges that leave payloads, {name}"), ORDERS / 6, durability, merges::left);
    }
}

#[test]
fn what_recurs_comes_on_time_and_once() {
    for (durability, name) in BOTH {
        tries(&format!("series, {name}"), ORDERS / 6, durability, recurring::series);
    }
}

#[test]
fn the_same_seed_tries_the_same_orders() {
    let folder = tempfile::tempdir().unwrap();
    let tried = [(); 2].map(|()| {
        let tried = Tried::default();
        tried.both(50, folder.path(), Durability::Disk, consumers::consumers);
        tried.steps.load(Ordering::Relaxed)
    });
    assert_eq!(tried[0], tried[1]);
}

#[test]
fn answers_before_the_sync_are_found() {
    let words = "was answered and is not kept";
    finds(Planted::AckBeforeSync, words, Durability::Disk, publishers::publishers);
    finds(Planted::AnswerBeforeVisible, words, Durability::Disk, close::closing);
}

#[test]
fn deliveries_before_the_sync_are_found() {
    finds(Planted::AckBeforeSync, "is not kept", Durability::Disk, consumers::consumers);
    finds(Planted::AcknowledgedUnwritten, "comes again", Durability::Disk, consumers::consumers);
}

#[test]
fn changes_before_the_sync_are_found() {
    finds(Planted::AckBeforeSync, "was answered and is not kept", Durability::Disk, changes::by_receipt);
    finds(Planted::AckBeforeSync, "was answered and is not kept", Durability::Disk, changes::by_key);
}

#[test]
fn merges_and_holes_that_lose_something_are_found() {
    let (pending, gone) = ("what has ended is pending", "a payload is gone");
    finds(Planted::MergedAsFrozen, pending, Durability::Disk, merges::copied);
    finds(Planted::DecidedMeanwhileLost, "a move was answered and is not kept", Durability::Disk, changes::by_receipt);
    finds(Planted::MergeHoldsNothing, gone, Durability::Disk, merges::left);
    finds(Planted::HoleIgnoresUnfinished, gone, Durability::Disk, merges::left);
}

#[test]
fn series_that_do_not_go_on_are_found() {
    finds(Planted::OwingUntold, "nobody was told that it is owed", Durability::Disk, recurring::series);
    finds(Planted::RecurringNotSaved, "what recurs is gone", Durability::Disk, recurring::series);
}

#[test]
fn who_is_not_woken_is_found() {
    let words = "was not woken and waited for the time";
    finds(Planted::WaiterNotWoken, words, Durability::Disk, publishers::publishers);
    finds(Planted::WaitersCountedFirst, words, Durability::Disk, publishers::publishers);
    finds(Planted::QueueLeftBehind, words, Durability::Disk, publishers::publishers);
    finds(Planted::InboxLeftBehind, words, Durability::Disk, consumers::consumers);
    finds(Planted::ConsumersNotTold, words, Durability::Disk, consumers::consumers);
    finds(Planted::FailureUntold, words, Durability::Disk, close::failing);
}
