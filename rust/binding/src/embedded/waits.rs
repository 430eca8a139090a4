//! Waits that a signal can end. They run in slices, and Python's signal handlers run between two slices. Only the main
//! thread runs handlers, so every other thread waits in one piece.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use delaymq_core::error::{Error, Result};
use pyo3::prelude::*;

use crate::convert::errors;

/// How long the main thread waits before it checks for signals: Ctrl-C ends a wait within a tenth of a second.
const SLICE: Duration = Duration::from_millis(40);
/// Practically without end: the awaited event wakes the waiting thread.
const LONG: Duration = Duration::from_secs(3_600);

/// The rest of a wait.
pub(crate) struct Wait {
    /// None for a wait without end.
    end: Option<Instant>,
    slice: Duration,
}

impl Wait {
    pub(crate) fn new(timeout_ms: Option<u64>) -> Self {
        let end = timeout_ms.and_then(|timeout| Instant::now().checked_add(Duration::from_millis(timeout)));
        Self { end, slice: SLICE }
    }

    /// The next slice, and whether it is the last.
    pub(crate) fn slice(&self) -> (Duration, bool) {
        let left = self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
        (left.min(self.slice), left <= self.slice)
    }

    /// Runs signal handlers between two slices. The first call also finds out whether this thread runs handlers.
    pub(crate) fn look_for_signals(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.slice == LONG {
            return Ok(());
        }
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        if !threading.call_method0("get_ident")?.eq(main)? {
            self.slice = LONG;
            return Ok(());
        }
        py.check_signals()
    }
}

/// Does long work on a thread of its own, so that a signal can end the wait for it; the work itself is not
/// interrupted.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (done, mut finished) = sync_channel(1);
    let started = std::thread::Builder::new().name("delaymq-call".to_owned()).spawn(move || {
        // The waiting thread may have stopped waiting.
        let _unheard = done.send(work());
    });
    started?;
    let mut wait = Wait::new(None);
    loop {
        let (slice, _) = wait.slice();
        let waited;
        (waited, finished) = py.detach(move || (finished.recv_timeout(slice), finished));
        match waited {
            Ok(result) => return result.map_err(|error| errors::raised(py, error)),
            Err(RecvTimeoutError::Timeout) => wait.look_for_signals(py)?,
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "a thread died while it did what was asked".to_owned();
                return Err(errors::raised(py, Error::Poisoned { reason }));
            }
        }
    }
}
