//! The blocking pool: a few threads for work that may wait for the disk or for other threads. Each kind of work has
//! threads of its own, so that no kind waits for another, however slow the disk is.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// The pulls and settlements of subscriptions, one at a time for each.
    Subscription,
    /// A look-up: it waits for other threads, but for no sync.
    LookUp,
    /// Pulls of QMQ's consumers.
    Pull,
    /// Settlements of QMQ's consumers.
    Settle,
    /// The end of a subscription or consumer, which waits until it is durable.
    End,
    /// A bulk load.
    Load,
}

/// How many threads each kind of work has.
const THREADS_OF_REQUESTS: usize = 4;
const THREADS_OF_SUBSCRIPTIONS: usize = 4;
const THREADS_OF_LOOK_UPS: usize = 3;
const THREADS_OF_PULLS: usize = 3;
const THREADS_OF_SETTLING: usize = 3;
const THREADS_OF_ENDS: usize = 3;
/// A load reads whole files as fast as the disk can, so two at once gain nothing. A repeated load waits for the first.
const THREADS_OF_LOADS: usize = 1;
/// All of them.
pub(crate) const THREADS: usize = THREADS_OF_REQUESTS
    + THREADS_OF_SUBSCRIPTIONS
    + THREADS_OF_LOOK_UPS
    + THREADS_OF_PULLS
    + THREADS_OF_SETTLING
    + THREADS_OF_ENDS
    + THREADS_OF_LOADS;

/// See the module.
pub(crate) struct Pool {
    requests: Semaphore,
    tasks: Semaphore,
    look_ups: Semaphore,
    pulls: Semaphore,
    settling: Semaphore,
    ends: Semaphore,
    loads: Semaphore,
    waiting: Cell<usize>,
    waiting_max: usize,
}

/// The place of a request among those that wait.
pub(crate) struct Place(Rc<Pool>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.waiting.set(self.0.waiting.get().saturating_sub(1));
    }
}

impl Pool {
    pub(crate) fn new(waiting_max: usize) -> Rc<Self> {
        Rc::new(Self {
            requests: Semaphore::new(THREADS_OF_REQUESTS),
            tasks: Semaphore::new(THREADS_OF_SUBSCRIPTIONS),
            look_ups: Semaphore::new(THREADS_OF_LOOK_UPS),
            pulls: Semaphore::new(THREADS_OF_PULLS),
            settling: Semaphore::new(THREADS_OF_SETTLING),
            ends: Semaphore::new(THREADS_OF_ENDS),
            loads: Semaphore::new(THREADS_OF_LOADS),
            waiting: Cell::new(0),
            waiting_max,
        })
    }

    /// A place for a request; `None` if too many wait.
    pub(crate) fn place(self: &Rc<Self>) -> Option<Place> {
        let waiting = self.waiting.get();
        (waiting < self.waiting_max).then(|| {
            self.waiting.set(waiting.saturating_add(1));
            Place(Rc::clone(self))
        })
    }

    /// How many requests have a place.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Runs the work of a request; `None` if it panicked.
    pub(crate) async fn ask<T: Send + 'static>(place: Place, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&place.0.requests, work).await
    }

    /// As [`Self::ask`], for a request that only looks something up: requests that wait for a sync do not delay it.
    pub(crate) async fn look<T: Send + 'static>(place: Place, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&place.0.look_ups, look).await
    }

    /// Runs work after earlier work of its kind; `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        sort: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let threads = match sort {
            Work::Subscription => &self.tasks,
            Work::LookUp => &self.look_ups,
            Work::Pull => &self.pulls,
            Work::Settle => &self.settling,
            Work::End => &self.ends,
            Work::Load => &self.loads,
        };
        in_turn(threads, work).await
    }
}

async fn in_turn<T: Send + 'static>(threads: &Semaphore, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let _permit = threads.acquire().await.ok();
    spawn_blocking(work).await.ok()
}
