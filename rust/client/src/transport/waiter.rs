//! The waiters of answers: a thread with a slot, an event loop with a token.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::session::Outcome;

/// The receiver of an answer.
#[derive(Clone, Debug)]
pub enum Waiter {
    /// A thread.
    Thread(Arc<Slot>),
    /// An event loop, which knows its call by this number.
    Loop(u64),
}

/// An answer for one waiting thread, or news for it.
#[derive(Debug, Default)]
pub struct Slot {
    answer: Mutex<Option<Outcome>>,
    has_news: AtomicBool,
    /// Signalled with the lock of the connection held.
    pub(super) changed: Condvar,
}

impl Slot {
    /// An empty slot.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn fill(&self, outcome: Outcome) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.changed.notify_one();
    }

    /// There is news of the subscription that the thread watches.
    pub(super) fn notify(&self) {
        self.has_news.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// True if there is an answer, or news.
    pub(super) fn is_ready(&self) -> bool {
        self.has_news.load(Ordering::Acquire) || self.is_answered()
    }

    /// True if there is an answer.
    pub fn is_answered(&self) -> bool {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Ends the news so far: what comes from now on is news again.
    pub fn rest(&self) {
        self.has_news.store(false, Ordering::Release);
    }

    /// The answer, if it has come.
    pub fn take(&self) -> Option<Outcome> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The slot has an answer or news.
    Ready,
    /// The time is over.
    TimedOut,
    /// A signal arrived.
    Interrupted,
}
