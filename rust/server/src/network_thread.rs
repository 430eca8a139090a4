//! The thread with the sockets of a server or standby: its start, its stop and its end.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::LocalSet;
use tokio::time::sleep;

use crate::options::ServerError;

/// How long subscriptions may take to close after every connection has gone, and threads to end.
pub(crate) const CLOSING: Duration = Duration::from_secs(5);
/// The longest patience of a stop.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The time until which requests under way are answered; `None` until a stop.
pub(crate) type Deadline = watch::Receiver<Option<Instant>>;

/// The result of a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Connections that were closed with something under way.
    pub cut_off: usize,
}

/// Reports how the thread stopped to the thread that waits, in whatever way it ends.
struct Ending {
    stopped: Mutex<Option<Stopped>>,
    happened: Condvar,
}

struct Told(Arc<Ending>, Stopped);

impl Drop for Told {
    fn drop(&mut self) {
        *self.0.stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.1);
        self.0.happened.notify_all();
    }
}

/// See the module. Dropping it ends the thread at once.
pub(crate) struct NetworkThread {
    /// The process that has the thread. A forked child does not.
    process: u32,
    deadline: watch::Sender<Option<Instant>>,
    ending: Arc<Ending>,
    thread: Option<JoinHandle<()>>,
}

impl NetworkThread {
    /// A runtime for one thread, with at most so many threads for work that may block.
    pub(crate) fn runtime(blocking_threads: usize) -> Result<Runtime, ServerError> {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().max_blocking_threads(blocking_threads).build();
        runtime.map_err(|error| ServerError::Thread { reason: error.to_string() })
    }

    /// Starts the thread, where `run` makes its work. All tasks have ended, and their sockets are closed, when
    /// [`Self::wait`] returns.
    pub(crate) fn start<R, F>(name: &str, runtime: Runtime, run: R) -> Result<Self, ServerError>
    where
        R: FnOnce(Deadline) -> F + Send + 'static,
        F: Future<Output = Stopped>,
    {
        let (deadline, told) = watch::channel(None);
        let ending = Arc::new(Ending { stopped: Mutex::new(None), happened: Condvar::new() });
        let reported = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut reported = Told(reported, Stopped { cut_off: 0 });
            reported.1 = LocalSet::new().block_on(&runtime, async move { run(told).await });
            runtime.shutdown_timeout(CLOSING);
        });
        let thread = thread.map_err(|error| ServerError::Thread { reason: error.to_string() })?;
        Ok(Self { process: std::process::id(), deadline, ending, thread: Some(thread) })
    }

    /// Begins to stop. A later call with less patience replaces an earlier one.
    pub(crate) fn stop(&self, patience: Duration) {
        let now = Instant::now();
        let deadline = now.checked_add(patience.min(PATIENCE_MAX)).unwrap_or(now);
        self.deadline.send_modify(|known| *known = Some(known.map_or(deadline, |known| known.min(deadline))));
    }

    /// Waits until the thread has stopped; `None` if that took longer than `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<Stopped> {
        let stopped = self.ending.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ending.happened.wait_timeout_while(stopped, timeout, |stopped| stopped.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for NetworkThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process != std::process::id() {
            std::mem::forget(thread);
            return;
        }
        self.stop(Duration::ZERO);
        drop(thread.join());
    }
}

/// Waits until every connection has gone, or until the deadline. Returns true if they have gone. `left` is notified when
/// one goes.
pub(crate) async fn have_gone(deadline: &mut Deadline, left: &Notify, is_left: impl Fn() -> bool) -> bool {
    loop {
        let until = deadline.borrow_and_update().unwrap_or_else(Instant::now);
        let patience = until.saturating_duration_since(Instant::now());
        if is_left() {
            return true;
        }
        if patience.is_zero() {
            return false;
        }
        tokio::select! {
            () = left.notified() => {}
            _ = deadline.changed() => {}
            () = sleep(patience) => {}
        }
    }
}
