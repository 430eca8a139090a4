//! The threads of the connections, and their end.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    running: Arc<Running>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

/// Counts a thread until it ends, also by a panic.
struct Token(Arc<Running>);

impl Drop for Token {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count = count.saturating_sub(1);
        self.0.ended.notify_all();
    }
}

impl Threads {
    /// Starts a thread.
    pub(crate) fn start(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut handles = lock(&self.handles);
        handles.retain(|handle| !handle.is_finished());
        let mut count = lock(&self.running.count);
        *count = count.saturating_add(1);
        drop(count);
        let token = Token(Arc::clone(&self.running));
        let started = Builder::new().name(name.to_owned()).spawn(move || {
            let _token = token;
            run();
        });
        handles.push(started?);
        Ok(())
    }

    /// Waits until all threads have ended, for `at_most`.
    pub(crate) fn join(&self, at_most: Duration) {
        let mine = std::thread::current().id();
        // A thread that ends the connections from its sink does not wait for itself.
        let left = usize::from(lock(&self.handles).iter().any(|handle| handle.thread().id() == mine));
        let count = lock(&self.running.count);
        let waited = self.running.ended.wait_timeout_while(count, at_most, |count| *count > left);
        let is_over = *waited.unwrap_or_else(PoisonError::into_inner).0 <= left;
        let handles = std::mem::take(&mut *lock(&self.handles));
        for handle in handles.into_iter().filter(|handle| handle.thread().id() != mine) {
            if is_over || handle.is_finished() {
                // It returns nothing, and a panic of it was printed.
                drop(handle.join());
            }
        }
    }
}

/// The lock. A panic of a sink leaves nothing half done under it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_join_waits_for_all_threads_also_for_one_that_panics() {
        let threads = Threads::default();
        let (sender, receiver) = mpsc::channel::<()>();
        threads.start("panics", || panic!("as planned")).unwrap();
        threads.join(Duration::from_secs(600));
        assert_eq!(*lock(&threads.running.count), 0);
        threads.start("waits", move || assert!(receiver.recv().is_err())).unwrap();
        threads.join(Duration::from_millis(10));
        assert_eq!(*lock(&threads.running.count), 1);
        drop(sender);
        threads.join(Duration::from_secs(600));
        assert_eq!(*lock(&threads.running.count), 0);
    }

    #[test]
    fn a_thread_that_joins_does_not_wait_for_itself() {
        let threads = Arc::new(Threads::default());
        let (sender, receiver) = mpsc::channel();
        let mine = Arc::clone(&threads);
        let run = move || {
            mine.join(Duration::from_secs(600));
            sender.send(()).unwrap();
        };
        threads.start("joins", run).unwrap();
        receiver.recv().unwrap();
    }
}
