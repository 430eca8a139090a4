//! Consumer presence: which threads consume, and whether each has seen everything. A manual clock waits for them before
//! it moves on, so that a consumer acts at the time at which it was given a message.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::commit::waits::EventCount;
use crate::held;
use crate::sync::{Instant, Mutex};

/// Counts what consumers have done, for a clock that waits for them.
#[derive(Default)]
pub struct Activity(pub(crate) EventCount);

/// A thread, for as long as it runs.
struct ThreadToken(Arc<()>);

thread_local! {
    static HERE: ThreadToken = ThreadToken(Arc::new(()));
}

/// A token of the calling thread, which ends with it.
pub(crate) fn this_thread() -> Weak<()> {
    HERE.try_with(|here| Arc::downgrade(&here.0)).unwrap_or_default()
}

/// What a thread did last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It looked and found nothing, after so many events.
    Idle { seen: u64 },
    /// It got messages, or has not seen the newest event.
    Busy { since: Instant },
}

struct ConsumingThread {
    thread: Weak<()>,
    doing: Doing,
}

/// The state of the consumers of one or more subscriptions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ConsumerState {
    /// No other thread consumes.
    Nobody,
    /// All have seen everything, and are done with it.
    Idle,
    /// A consumer is at work.
    Busy,
}

/// The threads that consume from one subscription, if the clock waits for consumers; nothing otherwise.
pub(crate) struct ConsumerPresence {
    activity: Option<Arc<Activity>>,
    /// The event loop's thread, if all consumers here serve one event loop.
    event_loop: OnceLock<Weak<()>>,
    consuming_threads: Mutex<Vec<ConsumingThread>>,
}

impl ConsumerPresence {
    pub(crate) fn new(activity: Option<Arc<Activity>>) -> Self {
        Self { activity, event_loop: OnceLock::new(), consuming_threads: Mutex::default() }
    }

    /// True if the clock waits for consumers.
    pub(crate) fn is_kept(&self) -> bool {
        self.activity.is_some()
    }

    /// The calling thread is that of an event loop: all threads that consume here do so for it.
    pub(crate) fn belongs_here(&self) {
        if self.is_kept() {
            // Only the first call counts: a subscription belongs to one loop.
            let _first = self.event_loop.set(this_thread());
        }
    }

    /// The calling thread looked after so many events, and found nothing.
    pub(crate) fn found_nothing(&self, seen: u64) {
        self.note(Doing::Idle { seen });
    }

    /// The calling thread got messages, or settled some.
    pub(crate) fn is_at_work(&self) {
        self.note(Doing::Busy { since: Instant::now() });
    }

    fn note(&self, doing: Doing) {
        let Some(activity) = &self.activity else { return };
        let here = self.event_loop.get().cloned().unwrap_or_else(this_thread);
        let mut consuming_threads = held(&self.consuming_threads);
        match consuming_threads.iter_mut().find(|consuming_thread| consuming_thread.thread.ptr_eq(&here)) {
            Some(consuming_thread) if consuming_thread.doing == doing => return,
            Some(consuming_thread) => consuming_thread.doing = doing,
            None => consuming_threads.push(ConsumingThread { thread: here, doing }),
        }
        drop(consuming_threads);
        activity.0.notify_all();
    }

    /// No thread consumes any more.
    pub(crate) fn end(&self) {
        held(&self.consuming_threads).clear();
        if let Some(activity) = &self.activity {
            activity.0.notify_all();
        }
    }

    /// How many running threads, except the calling one, have asked for messages here.
    pub(crate) fn count(&self) -> usize {
        let here = this_thread();
        let is_there = |one: &&ConsumingThread| !one.thread.ptr_eq(&here) && one.thread.strong_count() > 0;
        held(&self.consuming_threads).iter().filter(is_there).count()
    }

    /// The state of all threads except the calling one, as of so many events. A thread that has ended, or did nothing
    /// for longer than `patience`, is forgotten.
    pub(crate) fn consumer_state(&self, news: u64, patience: Duration) -> ConsumerState {
        let here = this_thread();
        let now = Instant::now();
        let mut rest = ConsumerState::Nobody;
        held(&self.consuming_threads).retain_mut(|consuming_thread| {
            if consuming_thread.thread.ptr_eq(&here) || consuming_thread.thread.strong_count() == 0 {
                return false;
            }
            match consuming_thread.doing {
                Doing::Idle { seen } if seen == news => rest = rest.max(ConsumerState::Idle),
                Doing::Idle { .. } => {
                    consuming_thread.doing = Doing::Busy { since: now };
                    rest = ConsumerState::Busy;
                }
                Doing::Busy { since } if now.duration_since(since) >= patience => return false,
                Doing::Busy { .. } => rest = ConsumerState::Busy,
            }
            true
        });
        rest
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_thread_is_waited_for_until_it_has_seen_the_news_or_ends() {
        let presence = Arc::new(ConsumerPresence::new(Some(Arc::default())));
        let other = Arc::clone(&presence);
        let (send, receive) = channel::<Box<dyn FnOnce(&ConsumerPresence) + Send>>();
        let (done, finished) = channel();
        let thread = std::thread::spawn(move || {
            for work in receive {
                work(&other);
                done.send(()).unwrap();
            }
        });
        let run = |work: Box<dyn FnOnce(&ConsumerPresence) + Send>| {
            send.send(work).unwrap();
            finished.recv().unwrap();
        };
        assert_eq!(presence.consumer_state(0, LONG), ConsumerState::Nobody);
        run(Box::new(|presence| presence.found_nothing(3)));
        assert_eq!(presence.consumer_state(3, LONG), ConsumerState::Idle);
        assert_eq!(presence.count(), 1);
        assert_eq!(presence.consumer_state(4, LONG), ConsumerState::Busy);
        run(Box::new(ConsumerPresence::is_at_work));
        assert_eq!(presence.consumer_state(4, LONG), ConsumerState::Busy);
        run(Box::new(|presence| presence.found_nothing(4)));
        assert_eq!(presence.consumer_state(4, LONG), ConsumerState::Idle);
        run(Box::new(ConsumerPresence::is_at_work));
        assert_eq!(presence.consumer_state(4, Duration::ZERO), ConsumerState::Nobody, "nobody waits for ever");
        run(Box::new(ConsumerPresence::is_at_work));
        drop(send);
        thread.join().unwrap();
        assert_eq!(presence.count(), 0);
        assert_eq!(presence.consumer_state(4, LONG), ConsumerState::Nobody, "it has ended");
    }

    #[test]
    fn the_thread_that_asks_does_not_wait_for_itself() {
        let presence = ConsumerPresence::new(Some(Arc::default()));
        presence.is_at_work();
        assert_eq!(presence.consumer_state(0, LONG), ConsumerState::Nobody);
    }

    #[test]
    fn what_threads_do_for_an_event_loop_is_the_loops() {
        let presence = Arc::new(ConsumerPresence::new(Some(Arc::default())));
        presence.belongs_here();
        let other = Arc::clone(&presence);
        std::thread::spawn(move || other.is_at_work()).join().unwrap();
        assert_eq!(presence.consumer_state(0, LONG), ConsumerState::Nobody, "this thread is the loop's");
        let other = Arc::clone(&presence);
        std::thread::spawn(move || other.is_at_work()).join().unwrap();
        let other = Arc::clone(&presence);
        let seen = std::thread::spawn(move || other.consumer_state(0, LONG)).join().unwrap();
        assert_eq!(seen, ConsumerState::Busy);
    }

    #[test]
    fn the_same_again_is_no_activity() {
        let activity = Arc::<Activity>::default();
        let presence = ConsumerPresence::new(Some(Arc::clone(&activity)));
        presence.found_nothing(1);
        let seen = activity.0.count();
        presence.found_nothing(1);
        assert_eq!(activity.0.count(), seen);
        presence.end();
        assert_ne!(activity.0.count(), seen);
    }
}
