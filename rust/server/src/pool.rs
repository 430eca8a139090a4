//! Threads for what may have to wait, few and bounded. Work of subscriptions is one piece at a time
//! for each of them; work of requests is counted, so that it leaves threads for that.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// All threads.
pub(crate) const THREADS: usize = 12;
/// Those that requests may have at once.
const THREADS_OF_REQUESTS: usize = 4;
/// Those that subscriptions and consumers which end may have at once.
const THREADS_OF_ENDS: usize = 4;

/// See the module.
pub(crate) struct Pool {
    requests: Semaphore,
    ends: Semaphore,
    waiting: Cell<usize>,
    waiting_max: usize,
}

/// A request's place among those that wait.
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
            ends: Semaphore::new(THREADS_OF_ENDS),
            waiting: Cell::new(0),
            waiting_max,
        })
    }

    /// A place for a request; `None` where as many wait as may.
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

    /// Does a request's work; `None` where it panicked.
    pub(crate) async fn ask<T: Send + 'static>(place: Place, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _permit = place.0.requests.acquire().await.ok();
        Self::run(work).await
    }

    /// Ends something, which waits until that is durable; `None` where it panicked. However many end while
    /// the disk takes its time, threads are left for the others.
    pub(crate) async fn end<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let _permit = self.ends.acquire().await.ok();
        Self::run(work).await
    }

    /// Does a subscription's work; `None` where it panicked.
    pub(crate) async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        spawn_blocking(work).await.ok()
    }
}
