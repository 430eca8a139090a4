//! Threads for what may have to wait, few and bounded. Each sort of work has a share of its own, so that
//! none waits for another, however long the disk takes.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// What a thread is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// What a subscription pulls and settles, one piece at a time for each.
    Subscription,
    /// Something is looked up: that waits for others, and for no sync.
    LookUp,
    /// Messages for a consumer of QMQ.
    Pull,
    /// What a consumer of QMQ settles.
    Settle,
    /// A subscription or a consumer ends, which waits until that is durable.
    End,
    /// What was staged is read and adopted.
    Load,
}

/// How many threads each sort of work may have at once.
const THREADS_OF_REQUESTS: usize = 4;
const THREADS_OF_SUBSCRIPTIONS: usize = 4;
const THREADS_OF_LOOK_UPS: usize = 3;
const THREADS_OF_PULLS: usize = 3;
const THREADS_OF_SETTLING: usize = 3;
const THREADS_OF_ENDS: usize = 3;
/// Files are read whole, as fast as that goes: nobody gains where two are, and who asks again waits for the first time.
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

    /// A place for a request; `None` if as many wait as may.
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

    /// Does a request's work; `None` if it panicked.
    pub(crate) async fn ask<T: Send + 'static>(place: Place, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&place.0.requests, work).await
    }

    /// As [`Self::ask`], for a request that only looks something up: those that wait for a sync do not
    /// hold it up.
    pub(crate) async fn look<T: Send + 'static>(place: Place, look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        in_turn(&place.0.look_ups, look).await
    }

    /// Does a piece of work after those of its sort that came before; `None` if it panicked.
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
