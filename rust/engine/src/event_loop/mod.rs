//! What event loops use: calls that never wait, and wake-ups.
//!
//! In: calls from the thread of an event loop. Out: an answer, or "this would wait"; a wake-up of the loop on news.
//! Read `notifier` (how a loop is woken), then `listener` (one loop among several on a store) and `nonblocking` (the calls).

pub(crate) mod listener;
pub(crate) mod nonblocking;
pub(crate) mod notifier;
