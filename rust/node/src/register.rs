//! Calls of the coordinator, on threads of their own: a call may take seconds, and a node must not wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use delaymq_coordinator::{Coordinator, CoordinatorError};
use delaymq_core::replication::{Event, Reading, Register, SwapAnswer, Version};

use crate::events::{Events, Guarded, Incoming};
use crate::held;
use crate::interface::NodeError;
use crate::status::Reports;

/// How long one watch of the register takes at most: then it is read all the same, because one that was restored has an older version.
/// A node that stops does not wait for it.
const WATCH: Duration = Duration::from_secs(5);
/// How long to wait after a watch that failed.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// The coordinator and the version that were read last.
#[derive(Default)]
struct Seen(Mutex<(u64, Version)>);

impl Seen {
    /// True if the answer is that of another coordinator, or a later one.
    fn is_news(&self, reading: &Reading) -> bool {
        let mut seen = held(&self.0);
        let is_news = seen.0 != reading.coordinator || seen.1 < reading.version;
        if is_news {
            *seen = (reading.coordinator, reading.version);
        }
        is_news
    }

    fn version(&self) -> Version {
        held(&self.0).1
    }
}

enum Call {
    Read,
    Swap(Version, Register),
}

/// See the module. Its threads end soon after it is dropped.
pub(crate) struct RegisterCalls {
    calls: Sender<Call>,
    is_over: Arc<AtomicBool>,
}

impl RegisterCalls {
    /// Starts the threads. Answers become events of the node.
    pub(crate) fn start(
        coordinator: &Arc<dyn Coordinator>,
        events: &Arc<Events>,
        reports: &Arc<Reports>,
    ) -> Result<Self, NodeError> {
        let (calls, asked) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen: Arc<Seen> = Arc::default();
        let caller = Caller {
            coordinator: Arc::clone(coordinator),
            events: Arc::clone(events),
            reports: Arc::clone(reports),
            seen: Arc::clone(&seen),
            last_fault: None,
        };
        spawn("delaymq-register", events, move || caller.run(&asked))?;
        let (coordinator, told, ended) = (Arc::clone(coordinator), Arc::clone(events), Arc::clone(&is_over));
        spawn("delaymq-register-watch", events, move || watch(coordinator.as_ref(), &told, &seen, &ended))?;
        Ok(Self { calls, is_over })
    }

    /// Begins to read the register.
    pub(crate) fn read(&self) {
        drop(self.calls.send(Call::Read));
    }

    /// Begins to swap it.
    pub(crate) fn swap(&self, expected: Version, value: Register) {
        drop(self.calls.send(Call::Swap(expected, value)));
    }
}

impl Drop for RegisterCalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

fn spawn(name: &'static str, events: &Arc<Events>, work: impl FnOnce() + Send + 'static) -> Result<(), NodeError> {
    let guard = Guarded::new(name, events);
    let spawned = Builder::new().name(name.to_owned()).spawn(move || {
        let _guard = guard;
        work();
    });
    spawned.map(drop).map_err(|error| NodeError::Thread { reason: error.to_string() })
}

struct Caller {
    coordinator: Arc<dyn Coordinator>,
    events: Arc<Events>,
    reports: Arc<Reports>,
    seen: Arc<Seen>,
    /// The last reason why the coordinator did not answer. It is reported once.
    last_fault: Option<String>,
}

impl Caller {
    fn run(mut self, asked: &Receiver<Call>) {
        while let Ok(call) = asked.recv() {
            let event = match call {
                Call::Read => Event::Read(self.answer(|coordinator| coordinator.read()).flatten()),
                Call::Swap(expected, value) => {
                    let answer = self.answer(|coordinator| coordinator.swap(expected, &value));
                    Event::Swapped(expected, answer.unwrap_or(SwapAnswer::Unknown))
                }
            };
            if let Event::Read(Some(reading)) = &event {
                self.seen.is_news(reading);
            }
            self.events.add(Incoming::Protocol(event));
        }
    }

    fn answer<T>(&mut self, ask: impl FnOnce(&dyn Coordinator) -> Result<T, CoordinatorError>) -> Option<T> {
        match ask(self.coordinator.as_ref()) {
            Ok(answer) => {
                if self.last_fault.take().is_some() {
                    self.reports.note("the register answers again".to_owned());
                }
                Some(answer)
            }
            Err(error) => {
                let fault = error.to_string();
                if self.last_fault.as_ref() != Some(&fault) {
                    self.reports.warn(format!("the register does not answer: {fault}"));
                    self.last_fault = Some(fault);
                }
                None
            }
        }
    }
}

/// Brings each new value of the register to the node. A primary learns so at once that another node has taken its place.
fn watch(coordinator: &dyn Coordinator, events: &Events, seen: &Seen, is_over: &AtomicBool) {
    while !is_over.load(Ordering::SeqCst) {
        let began = Instant::now();
        let changed = coordinator.changed(seen.version(), WATCH);
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        match changed.and_then(|_| coordinator.read()) {
            Ok(Some(reading)) if seen.is_news(&reading) => {
                events.add(Incoming::Protocol(Event::Read(Some(reading))));
            }
            // A coordinator that has forgotten old versions, or ends watches at once, is not asked without a pause.
            Ok(_) if began.elapsed() < WATCH_AGAIN => sleep(WATCH_AGAIN),
            Ok(_) => {}
            Err(_) => sleep(WATCH_AGAIN),
        }
    }
}
