//! The blocking pool: a few threads for work that may wait for the disk or for other threads. Each kind of work has
//! threads of its own, so that no kind waits for another, however slow the disk is.

use std::cell::Cell;
use std::rc::Rc;

use delaymq_core::error::{Error, Result};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The kinds of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// A request that may wait for a sync.
    Request,
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
    /// A bulk load. It reads whole files as fast as the disk can, so two at once gain nothing. A repeated load waits for
    /// the first.
    Load,
}

impl Work {
    const ALL: [Self; 7] =
        [Self::Request, Self::Subscription, Self::LookUp, Self::Pull, Self::Settle, Self::End, Self::Load];

    const fn threads(self) -> usize {
        match self {
            Self::Request | Self::Subscription => 4,
            Self::LookUp | Self::Pull | Self::Settle | Self::End => 3,
            Self::Load => 1,
        }
    }
}

/// The threads of all kinds of work.
pub(crate) fn threads() -> usize {
    Work::ALL.into_iter().map(Work::threads).sum()
}

/// See the module.
pub(crate) struct Pool {
    /// In the order of `Work::ALL`.
    kinds: [Semaphore; Work::ALL.len()],
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
        let kinds = Work::ALL.map(|work| Semaphore::new(work.threads()));
        Rc::new(Self { kinds, waiting: Cell::new(0), waiting_max })
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

    /// Runs the work of a request, which keeps its place until then; `None` if it panicked.
    pub(crate) async fn ask<T: Send + 'static>(
        place: Place,
        kind: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        place.0.run(kind, work).await
    }

    /// Runs work after earlier work of its kind; `None` if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        kind: Work,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let threads = self.kinds.get(kind as usize)?;
        let _permit = threads.acquire().await.ok();
        spawn_blocking(work).await.ok()
    }

    /// As [`Self::run`]. Fails with the work's errors, and with `Closed` if it panicked.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        kind: Work,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(kind, work).await.unwrap_or(Err(Error::Closed))
    }
}
