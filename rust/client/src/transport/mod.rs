//! The connection of a client: its socket, its threads, and how callers wait.
//!
//! Enter: calls from any thread. Leave: bytes on a socket, and answers to the threads and event loops that wait.
//!
//! A caller writes its request itself, then waits. One thread at a time reads the socket: the first caller that waits
//! reads for all, so its own answer reaches it without a change of threads. When it leaves, the next waiting caller
//! reads, or the background thread ([`background`]), which always does for an event loop. Read this file first, then
//! `state` (what is under the lock), `background`, `socket`, `waiter` and `wakeup`.
//!
//! No lock is held while a thread waits, calls the report function, or returns.

mod background;
mod socket;
mod state;
mod waiter;
mod wakeup;

use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError, WaitTimeoutResult};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

pub use self::waiter::{Slot, Waited, Waiter};

use self::socket::{PIECE_BYTES, Received, receive};
use self::state::{LoopEvents, Poll, Reader, State};
use self::wakeup::Wakeup;
use crate::failure::{Failure, Kind};
use crate::nodes::Nodes;
use crate::options::ClientOptions;
use crate::session::{CLIENT_CLOSED, Outcome, Report, Session, SubscriptionId};

/// Called with each report, by the background thread.
pub type OnReport = Box<dyn Fn(&Report) + Send + Sync>;

/// How long the end of a client waits for its thread.
const END_WAIT: Duration = Duration::from_secs(5);

/// An answer for an event loop: the number of its call, and the answer.
pub type LoopAnswer = (u64, Outcome);

struct Shared {
    /// All nodes, as errors show them.
    nodes: String,
    /// How long connecting may take.
    hello: Duration,
    started: Instant,
    state: Mutex<State>,
    /// Wakes the background thread.
    background: Condvar,
    /// Signalled when the background thread ends.
    ended: Condvar,
    report: OnReport,
}

/// A client's connection to a server, which is one of several nodes; see the module.
pub struct Connection {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    opened_by: u32,
}

impl Connection {
    /// Begins to connect. `opened` gets the result of the first round of nodes. With `is_for_loop`, an event loop watches
    /// [`Self::descriptor`].
    ///
    /// # Errors
    /// The system has no more descriptors or threads, or the token is too long.
    pub fn open(
        nodes: Nodes,
        options: ClientOptions,
        opened: Waiter,
        is_for_loop: bool,
        report: OnReport,
    ) -> Result<Self, OpenError> {
        let (hello, shown) = (Duration::from_millis(options.hello_ms), options.address.clone());
        let events =
            || io::Result::Ok(LoopEvents { wakeup: Wakeup::new()?, answers: Vec::new(), news: <_>::default() });
        let state = State {
            session: Session::new(options, opened).map_err(OpenError::Argument)?,
            nodes,
            socket: None,
            is_blocked: false,
            reader: Reader::Nobody,
            poll: None,
            leader: None,
            wakeup: Wakeup::new()?,
            sleeps_until_ms: None,
            followers: Vec::new(),
            watchers: <_>::default(),
            waits: 0,
            loop_events: is_for_loop.then(events).transpose()?,
            reports: Vec::new(),
            lost_count: 0,
            is_over: false,
            buffer: vec![0; PIECE_BYTES],
        };
        let shared = Arc::new(Shared {
            nodes: shown,
            hello,
            started: Instant::now(),
            state: Mutex::new(state),
            background: Condvar::new(),
            ended: Condvar::new(),
            report,
        });
        let background = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("delaymq-client".to_owned());
        let thread = thread.spawn(move || background::run(&background))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)), opened_by: std::process::id() })
    }

    /// The process that opened it, which alone may use it.
    pub const fn opened_by(&self) -> u32 {
        self.opened_by
    }

    /// Makes a call of the session, with the time, and passes on what it changed.
    pub fn with<T>(&self, call: impl FnOnce(&mut Session<Waiter>, u64) -> T) -> T {
        let now_ms = self.shared.now_ms();
        let mut state = self.shared.lock();
        let result = call(&mut state.session, now_ms);
        state.pass_on(&self.shared.background);
        result
    }

    /// As [`Self::with`], for a call whose output the next one sends: many calls of an event loop take one write.
    pub fn with_later<T>(&self, call: impl FnOnce(&mut Session<Waiter>, u64) -> T) -> T {
        let now_ms = self.shared.now_ms();
        call(&mut self.shared.lock().session, now_ms)
    }

    /// Waits until the slot has an answer or news, at most for `limit`, and less if a signal arrives.
    pub fn wait(&self, slot: &Arc<Slot>, limit: Duration) -> Waited {
        let end = Instant::now().checked_add(limit);
        let mut state = self.shared.lock();
        state.waits = state.waits.wrapping_add(1);
        let waited = loop {
            if slot.is_ready() {
                break Waited::Ready;
            }
            let left = end.map_or(limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break Waited::TimedOut;
            }
            if state.may_lead() {
                let _leading = Leading(&self.shared);
                state.reader = Reader::Caller;
                state.leader = Some(Arc::clone(slot));
                let is_interrupted;
                (state, is_interrupted) = self.shared.poll(state, Some(left));
                state.reader = Reader::Nobody;
                if is_interrupted && !slot.is_ready() {
                    break Waited::Interrupted;
                }
            } else {
                state.followers.push(Arc::clone(slot));
                state = waited(slot.changed.wait_timeout(state, left));
                state.followers.retain(|other| !Arc::ptr_eq(other, slot));
            }
        };
        state.hand_over(&self.shared.background);
        waited
    }

    /// From now on, news of the subscription is news for the slot.
    pub fn watch(&self, id: SubscriptionId, slot: &Arc<Slot>) {
        self.shared.lock().watchers.entry(id).or_default().push(Arc::clone(slot));
    }

    /// Ends a [`Self::watch`].
    pub fn unwatch(&self, id: SubscriptionId, slot: &Arc<Slot>) {
        let mut state = self.shared.lock();
        if let Some(slots) = state.watchers.get_mut(&id) {
            slots.retain(|other| !Arc::ptr_eq(other, slot));
            if slots.is_empty() {
                state.watchers.remove(&id);
            }
        }
    }

    /// The number of connections that were lost, or could not be made.
    pub fn lost_count(&self) -> u64 {
        self.shared.lock().lost_count
    }

    /// The descriptor that becomes readable when there are answers or news for the event loop.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.shared.lock().loop_events.as_ref().and_then(|events| events.wakeup.descriptor())
    }

    /// The answers for the event loop since the last call, and the subscriptions with news.
    pub fn drain(&self) -> (Vec<LoopAnswer>, Vec<SubscriptionId>) {
        let mut state = self.shared.lock();
        let Some(events) = &mut state.loop_events else { return (Vec::new(), Vec::new()) };
        events.wakeup.rest();
        (std::mem::take(&mut events.answers), std::mem::take(&mut events.news).into_iter().collect())
    }

    /// Ends the client. If it is connected, waits until its thread has closed the socket, for 5 s at most.
    pub fn end(&self) {
        let mut state = self.shared.lock();
        let is_connected = state.socket.is_some();
        state.session.end(Failure::new(Kind::Closed, CLIENT_CLOSED), self.shared.now_ms());
        state.pass_on(&self.shared.background);
        let is_current = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread.filter(|thread| is_connected && !is_current(thread)) else { return };
        // The thread may be in a report, which may wait for the thread that ends the client: so the wait has a limit.
        let waited = self.shared.ended.wait_timeout_while(state, END_WAIT, |state| !state.is_over);
        let is_over = waited.unwrap_or_else(PoisonError::into_inner).0.is_over;
        if is_over {
            // It returns nothing, and a panic of it was printed.
            let _ended = thread.join();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if std::process::id() != self.opened_by {
            // The lock may be held by a thread that this process does not have.
            let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
            std::mem::forget(thread);
            return;
        }
        let mut state = self.shared.lock();
        state.session.end(Failure::new(Kind::Closed, CLIENT_CLOSED), self.shared.now_ms());
        state.pass_on(&self.shared.background);
    }
}

/// Why a client cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The system has no more descriptors or threads.
    System(io::Error),
    /// An argument is refused.
    Argument(delaymq_core::error::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// The lock after a wait for a condition.
fn waited(waited: LockResult<(MutexGuard<'_, State>, WaitTimeoutResult)>) -> MutexGuard<'_, State> {
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// A caller that reads the socket. If it panics, the client ends: nobody else would read on.
struct Leading<'a>(&'a Shared);

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a thread that read its connection failed");
        }
    }
}

impl Shared {
    /// Ends the client after an unexpected error, which all waiters get.
    fn fail(&self, reason: &str) {
        let text = format!("the client of {} failed: {reason}", self.nodes);
        let mut state = self.lock();
        state.socket = None;
        state.reader = Reader::Nobody;
        state.session.end(Failure::new(Kind::Broken, text.as_str()), self.now_ms());
        state.pass_on(&self.background);
        drop(state);
        (self.report)(&Report { action: "client_failed", text });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the client was opened.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Polls the socket once, without the lock, then reads, writes and runs timers. At most for `limit`; also true if
    /// a signal arrived.
    fn poll<'a>(&'a self, mut state: MutexGuard<'a, State>, limit: Option<Duration>) -> (MutexGuard<'a, State>, bool) {
        let Some((socket, wakeup)) = state.socket.clone().zip(state.wakeup.reader()) else { return (state, false) };
        let due_ms = state.session.next_due_ms().unwrap_or(u64::MAX);
        let writes = state.is_blocked;
        state.poll = Some(Poll { until_ms: due_ms, writes });
        drop(state);
        // One more, since the time is rounded down.
        let due = Duration::from_millis(due_ms.saturating_sub(self.now_ms()).saturating_add(1).min(3_600_000));
        let timeout = Timespec::try_from(limit.map_or(due, |limit| limit.min(due))).ok();
        let asked = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut polled = [PollFd::new(&*socket, asked), PollFd::new(&*wakeup, PollFlags::IN)];
        let is_interrupted = rustix::event::poll(&mut polled, timeout.as_ref()) == Err(rustix::io::Errno::INTR);
        let [of_socket, _] = polled.map(|one| one.revents());
        let mut state = self.lock();
        (state.poll, state.leader) = (None, None);
        state.wakeup.rest();
        if state.socket.as_ref().is_some_and(|current| Arc::ptr_eq(current, &socket)) {
            self.handle(&mut state, &socket, if is_interrupted { PollFlags::empty() } else { of_socket });
        }
        (state, is_interrupted)
    }

    /// Handles what a poll found.
    fn handle(&self, state: &mut State, socket: &std::net::TcpStream, found: PollFlags) {
        if found.contains(PollFlags::OUT) {
            state.is_blocked = false;
        }
        let now_ms = self.now_ms();
        let mut outcome = Ok(());
        if found.intersects(PollFlags::OUT.complement()) {
            let mut buffer = std::mem::take(&mut state.buffer);
            outcome = match receive(socket, &mut buffer) {
                Ok(Received::Bytes(count)) => state.session.receive(buffer.get(..count).unwrap_or_default(), now_ms),
                Ok(Received::Nothing) => Ok(()),
                Ok(Received::End) => Err(state.nodes.current().closed()),
                Err(error) => Err(state.nodes.current().failed(&error)),
            };
            state.buffer = buffer;
        }
        if let Err(cause) = outcome.and_then(|()| state.session.run_due(now_ms)) {
            state.disconnect(&cause, now_ms, &self.background);
        } else {
            state.pass_on(&self.background);
        }
    }
}

#[cfg(test)]
mod tests;
