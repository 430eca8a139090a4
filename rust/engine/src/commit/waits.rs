//! Waits by position: a thread that waits for a sequence is woken when that is visible, and not before. An event loop
//! is woken by its notifier.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::Sequence;

use crate::event_loop::notifier::{Notifier, Notifiers};
use crate::held;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Condvar, Instant, Mutex, MutexGuard, Thread, thread};

struct Waiter {
    until: Sequence,
    thread: Thread,
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// The position was reached.
    Reached,
    /// It took longer than allowed.
    TimedOut,
    /// It will never be reached.
    Ended,
}

/// The visible position, and the threads that wait for it.
#[derive(Default)]
pub(crate) struct Positions {
    visible: AtomicU64,
    ended: AtomicBool,
    waiting: AtomicUsize,
    waiters: Mutex<Vec<Waiter>>,
    notifiers: Arc<Notifiers>,
}

impl Positions {
    /// Everything below `visible` is visible.
    pub(crate) fn starting_at(visible: Sequence, notifiers: Arc<Notifiers>) -> Self {
        Self { visible: AtomicU64::new(visible.0), notifiers, ..Self::default() }
    }

    /// Facts below this are visible.
    pub(crate) fn visible(&self) -> Sequence {
        Sequence(self.visible.load(Ordering::SeqCst))
    }

    /// Everything below `visible` is visible now. Two threads may call this at once, so it never goes back.
    pub(crate) fn advance(&self, visible: Sequence) {
        let overlooked = is_on(Planted::WaitersCountedFirst) && self.waiting.load(Ordering::SeqCst) == 0;
        self.visible.fetch_max(visible.0, Ordering::SeqCst);
        if !overlooked && !is_on(Planted::WaiterNotWoken) {
            self.wake(|waiter| waiter.until <= visible);
        }
        self.notifiers.each(|notifier| notifier.reached(visible));
    }

    /// Nothing more will become visible.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.wake(|_| true);
        self.notifiers.each(Notifier::end);
    }

    fn wake(&self, whom: impl Fn(&Waiter) -> bool) {
        // A waiting thread counts itself first and looks at the position afterwards. So either it sees the new
        // position, or it is counted here.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut waiters = held(&self.waiters);
        waiters.retain(|waiter| {
            let reached = whom(waiter);
            if reached {
                waiter.thread.unpark();
            }
            !reached
        });
    }

    /// Waits until everything below `until` is visible; without end where `timeout` is `None`.
    pub(crate) fn wait(&self, until: Sequence, timeout: Option<Duration>) -> Waited {
        if let Some(waited) = self.look(until) {
            return waited;
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waited = self.park_until(until, deadline);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    fn park_until(&self, until: Sequence, deadline: Option<Instant>) -> Waited {
        let thread = thread::current();
        held(&self.waiters).push(Waiter { until, thread: thread.clone() });
        let waited = loop {
            if let Some(waited) = self.look(until) {
                break waited;
            }
            match deadline {
                None => thread::park(),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break Waited::TimedOut;
                    }
                    thread::park_timeout(left);
                }
            }
        };
        held(&self.waiters).retain(|waiter| waiter.thread.id() != thread.id() || waiter.until != until);
        waited
    }

    fn look(&self, until: Sequence) -> Option<Waited> {
        if self.visible() >= until {
            return Some(Waited::Reached);
        }
        self.ended.load(Ordering::SeqCst).then_some(Waited::Ended)
    }
}

/// Waits as long as `is_so` holds, at most for `timeout`.
pub(crate) fn wait_while<'a, T>(
    changed: &Condvar,
    mut state: MutexGuard<'a, T>,
    timeout: Duration,
    is_so: impl Fn(&T) -> bool,
) -> MutexGuard<'a, T> {
    let deadline = Instant::now().checked_add(timeout);
    while is_so(&state) {
        state = match deadline {
            None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
    state
}

/// A signal that one thread sleeps for and others raise. Raised twice before it is seen, it counts once. Without a
/// sleeper it costs a mutex and no system call.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    raised: Condvar,
}

#[derive(Default)]
struct SignalState {
    raised: bool,
    sleepers: u32,
}

impl Signal {
    /// Wakes the sleeper, or keeps the next one awake.
    pub(crate) fn raise(&self) {
        let mut state = held(&self.state);
        state.raised = true;
        if state.sleepers > 0 {
            self.raised.notify_one();
        }
    }

    /// Sleeps until the signal is raised, at most for `timeout`. Returns true if it was raised.
    pub(crate) fn sleep(&self, timeout: Duration) -> bool {
        let mut state = held(&self.state);
        state.sleepers = state.sleepers.saturating_add(1);
        let mut state = wait_while(&self.raised, state, timeout, |state| !state.raised);
        state.sleepers = state.sleepers.saturating_sub(1);
        std::mem::take(&mut state.raised)
    }
}

/// An event count: a thread that looks before it sleeps misses no event.
#[derive(Default)]
pub(crate) struct EventCount {
    state: Mutex<EventCountState>,
    arrived: Condvar,
}

#[derive(Default)]
struct EventCountState {
    count: u64,
    waiting: u32,
    listener: Option<Listener>,
}

/// The event loop that hears of events, and whether it waits for one.
struct Listener {
    notifier: Arc<Notifier>,
    token: u64,
    waits: bool,
}

impl EventCount {
    /// How many events there were so far.
    pub(crate) fn count(&self) -> u64 {
        held(&self.state).count
    }

    /// Counts an event and wakes all waiters.
    pub(crate) fn notify_all(&self) {
        let mut state = held(&self.state);
        state.count = state.count.wrapping_add(1);
        if state.waiting > 0 {
            self.arrived.notify_all();
        }
        if let Some(listener) = &mut state.listener
            && std::mem::take(&mut listener.waits)
        {
            listener.notifier.news(listener.token);
        }
    }

    /// From now on this listener may wait for events, under a token of its own.
    pub(crate) fn listen(&self, notifier: Arc<Notifier>, token: u64) {
        held(&self.state).listener = Some(Listener { notifier, token, waits: false });
    }

    /// The listener waits for more events than `seen`. Returns false if there are some already.
    pub(crate) fn await_beyond(&self, seen: u64) -> bool {
        let mut state = held(&self.state);
        let none_yet = state.count == seen;
        if let Some(listener) = &mut state.listener {
            listener.waits = none_yet;
        }
        none_yet
    }

    /// Waits until there are more events than `seen`. Returns false if none came in time.
    pub(crate) fn wait_beyond(&self, seen: u64, timeout: Duration) -> bool {
        let mut state = held(&self.state);
        state.waiting = state.waiting.saturating_add(1);
        let mut state = wait_while(&self.arrived, state, timeout, |state| state.count == seen);
        state.waiting = state.waiting.saturating_sub(1);
        state.count != seen
    }
}

#[cfg(feature = "model")]
#[path = "waits_models.rs"]
pub mod models;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_waiter_is_released_at_its_position_and_not_before() {
        let positions = Arc::new(Positions::default());
        let other = Arc::clone(&positions);
        let waiter = std::thread::spawn(move || other.wait(Sequence(5), None));
        positions.advance(Sequence(4));
        assert_eq!(positions.wait(Sequence(5), Some(Duration::from_millis(20))), Waited::TimedOut);
        assert!(!waiter.is_finished());
        positions.advance(Sequence(5));
        assert_eq!(waiter.join().unwrap(), Waited::Reached);
        assert!(held(&positions.waiters).is_empty());
    }

    #[test]
    fn what_is_visible_stays_visible() {
        let positions = Positions::default();
        positions.advance(Sequence(5));
        positions.advance(Sequence(4));
        assert_eq!(positions.visible(), Sequence(5));
    }

    #[test]
    fn the_end_releases_everybody() {
        let positions = Arc::new(Positions::default());
        let other = Arc::clone(&positions);
        let waiter = std::thread::spawn(move || other.wait(Sequence(5), None));
        std::thread::sleep(Duration::from_millis(5));
        positions.end();
        assert_eq!(waiter.join().unwrap(), Waited::Ended);
    }

    #[test]
    fn a_signal_raised_early_is_not_lost() {
        let signal = Signal::default();
        signal.raise();
        assert!(signal.sleep(Duration::from_secs(5)));
        assert!(!signal.sleep(Duration::from_millis(1)));
    }

    #[test]
    fn news_before_the_wait_is_seen() {
        let news = EventCount::default();
        let seen = news.count();
        news.notify_all();
        assert!(news.wait_beyond(seen, Duration::from_secs(5)));
        assert!(!news.wait_beyond(news.count(), Duration::from_millis(1)));
    }

    #[test]
    fn a_listener_hears_once_for_each_time_it_waits() {
        let notifier = Arc::new(Notifier::default());
        notifier.listen().unwrap();
        let news = EventCount::default();
        news.listen(Arc::clone(&notifier), 3);
        let seen = news.count();
        news.notify_all();
        assert!(notifier.drain().tokens.is_empty());
        assert!(!news.await_beyond(seen));
        assert!(news.await_beyond(news.count()));
        news.notify_all();
        news.notify_all();
        assert_eq!(notifier.drain().tokens, [3]);
    }
}
