//! Which threads consume, and whether each has seen all there is. A clock that is turned by hand
//! waits for them before it moves on, so that what a consumer does at one time happens at that time.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::commit::waits::News;
use crate::held;
use crate::sync::{Instant, Mutex};

/// Tells a clock that some consumer has done something.
#[derive(Default)]
pub struct Activity(News);

impl Activity {
    /// How much was done so far.
    pub(crate) fn count(&self) -> u64 {
        self.0.count()
    }

    /// Something was done.
    pub(crate) fn tell(&self) {
        self.0.tell_all();
    }

    /// Waits until more was done than `seen`, at most for `timeout`.
    pub(crate) fn wait_beyond(&self, seen: u64, timeout: Duration) {
        self.0.wait_beyond(seen, timeout);
    }
}

/// A thread, for as long as it runs.
struct Presence(Arc<()>);

thread_local! {
    static HERE: Presence = Presence(Arc::new(()));
}

/// Names the calling thread; does not outlive it.
pub(crate) fn this_thread() -> Weak<()> {
    HERE.try_with(|here| Arc::downgrade(&here.0)).unwrap_or_default()
}

/// What a thread did last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// It looked and found nothing, after so much news.
    Resting { seen: u64 },
    /// It was given messages, or there is news that it has not seen.
    Away { since: Instant },
}

struct Attendant {
    thread: Weak<()>,
    doing: Doing,
}

/// How the consumers of one or more subscriptions are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rest {
    /// Nobody else consumes.
    Nobody,
    /// All have seen all there is, and are done with it.
    Resting,
    /// Somebody is at work.
    Awaited,
}

/// The threads that consume from one subscription.
pub(crate) struct Attendance {
    activity: Arc<Activity>,
    /// The thread of the event loop that all who consume here serve.
    event_loop: OnceLock<Weak<()>>,
    attendants: Mutex<Vec<Attendant>>,
}

impl Attendance {
    pub(crate) fn new(activity: Arc<Activity>) -> Self {
        Self { activity, event_loop: OnceLock::new(), attendants: Mutex::default() }
    }

    /// The calling thread is an event loop's: whatever thread consumes here does so for it.
    pub(crate) fn belongs_here(&self) {
        // Only the first is heard: a subscription belongs to one loop.
        let _first = self.event_loop.set(this_thread());
    }

    /// This thread looked after so much news, and found nothing.
    pub(crate) fn found_nothing(&self, seen: u64) {
        self.note(Doing::Resting { seen });
    }

    /// This thread was given messages, or did something with them.
    pub(crate) fn is_at_work(&self) {
        self.note(Doing::Away { since: Instant::now() });
    }

    fn note(&self, doing: Doing) {
        let here = self.event_loop.get().cloned().unwrap_or_else(this_thread);
        let mut attendants = held(&self.attendants);
        match attendants.iter_mut().find(|attendant| attendant.thread.ptr_eq(&here)) {
            Some(attendant) if attendant.doing == doing => return,
            Some(attendant) => attendant.doing = doing,
            None => attendants.push(Attendant { thread: here, doing }),
        }
        drop(attendants);
        self.activity.tell();
    }

    /// Nobody consumes any more.
    pub(crate) fn end(&self) {
        held(&self.attendants).clear();
        self.activity.tell();
    }

    /// How many threads beside the calling one have asked for messages here and still run.
    pub(crate) fn count(&self) -> usize {
        let here = this_thread();
        let is_there = |one: &&Attendant| !one.thread.ptr_eq(&here) && one.thread.strong_count() > 0;
        held(&self.attendants).iter().filter(is_there).count()
    }

    /// How all threads but the calling one are, as of so much `news`. One that has ended, or has not
    /// shown itself for longer than `patience`, is forgotten.
    pub(crate) fn rest(&self, news: u64, patience: Duration) -> Rest {
        let here = this_thread();
        let now = Instant::now();
        let mut rest = Rest::Nobody;
        held(&self.attendants).retain_mut(|attendant| {
            if attendant.thread.ptr_eq(&here) || attendant.thread.strong_count() == 0 {
                return false;
            }
            match attendant.doing {
                Doing::Resting { seen } if seen == news => rest = rest.max(Rest::Resting),
                Doing::Resting { .. } => {
                    attendant.doing = Doing::Away { since: now };
                    rest = Rest::Awaited;
                }
                Doing::Away { since } if now.duration_since(since) >= patience => return false,
                Doing::Away { .. } => rest = Rest::Awaited,
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
        let attendance = Arc::new(Attendance::new(Arc::default()));
        let other = Arc::clone(&attendance);
        let (send, receive) = channel::<Box<dyn FnOnce(&Attendance) + Send>>();
        let (done, finished) = channel();
        let thread = std::thread::spawn(move || {
            for work in receive {
                work(&other);
                done.send(()).unwrap();
            }
        });
        let run = |work: Box<dyn FnOnce(&Attendance) + Send>| {
            send.send(work).unwrap();
            finished.recv().unwrap();
        };
        assert_eq!(attendance.rest(0, LONG), Rest::Nobody);
        run(Box::new(|attendance| attendance.found_nothing(3)));
        assert_eq!(attendance.rest(3, LONG), Rest::Resting);
        assert_eq!(attendance.count(), 1);
        assert_eq!(attendance.rest(4, LONG), Rest::Awaited);
        run(Box::new(Attendance::is_at_work));
        assert_eq!(attendance.rest(4, LONG), Rest::Awaited);
        run(Box::new(|attendance| attendance.found_nothing(4)));
        assert_eq!(attendance.rest(4, LONG), Rest::Resting);
        run(Box::new(Attendance::is_at_work));
        assert_eq!(attendance.rest(4, Duration::ZERO), Rest::Nobody, "nobody waits for ever");
        run(Box::new(Attendance::is_at_work));
        drop(send);
        thread.join().unwrap();
        assert_eq!(attendance.count(), 0);
        assert_eq!(attendance.rest(4, LONG), Rest::Nobody, "it has ended");
    }

    #[test]
    fn the_thread_that_asks_does_not_wait_for_itself() {
        let attendance = Attendance::new(Arc::default());
        attendance.is_at_work();
        assert_eq!(attendance.rest(0, LONG), Rest::Nobody);
    }

    #[test]
    fn what_threads_do_for_an_event_loop_is_the_loops() {
        let attendance = Arc::new(Attendance::new(Arc::default()));
        attendance.belongs_here();
        let other = Arc::clone(&attendance);
        std::thread::spawn(move || other.is_at_work()).join().unwrap();
        assert_eq!(attendance.rest(0, LONG), Rest::Nobody, "this thread is the loop's");
        let other = Arc::clone(&attendance);
        std::thread::spawn(move || other.is_at_work()).join().unwrap();
        let other = Arc::clone(&attendance);
        let seen = std::thread::spawn(move || other.rest(0, LONG)).join().unwrap();
        assert_eq!(seen, Rest::Awaited);
    }

    #[test]
    fn the_same_again_is_no_activity() {
        let activity = Arc::<Activity>::default();
        let attendance = Attendance::new(Arc::clone(&activity));
        attendance.found_nothing(1);
        let seen = activity.count();
        attendance.found_nothing(1);
        assert_eq!(activity.count(), seen);
        attendance.end();
        assert_ne!(activity.count(), seen);
    }
}
