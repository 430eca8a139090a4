//! The server of a primary, or the standby of a replica, for clients of a node. Both use the same listening sockets, and one thread
//! starts and stops them.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use delaymq_core::error::Error;
use delaymq_core::wire::quota::notices::Notice;
use delaymq_engine::Store;
use delaymq_server::{ClusterPages, Listening, Primary, Server, ServerError, Standby, Stopped};

use crate::events::{Events, Guarded, Incoming};
use crate::held;
use crate::interface::NodeError;

/// How often notices about clients are collected.
const COLLECT_EVERY: Duration = Duration::from_millis(500);
/// Notices that are kept until they are taken.
const NOTICES_MAX: usize = 256;

enum Duty {
    Lead(Arc<Store>),
    Follow,
    Primary(Option<Primary>),
    Stop(Duration),
}

/// Notices about clients, and how many more there were than are kept.
pub(crate) type Notices = (Vec<Notice<IpAddr>>, u64);

/// See the module.
pub(crate) struct Service {
    duties: Sender<Duty>,
    thread: Option<JoinHandle<()>>,
}

enum Serving {
    Standby(Standby),
    Server(Server),
    Nothing,
}

struct Worker {
    listening: Listening,
    pages: Arc<dyn ClusterPages>,
    events: Arc<Events>,
    notices: Arc<Mutex<Notices>>,
    primary: Option<Primary>,
    serving: Serving,
}

impl Service {
    /// Starts the standby.
    pub(crate) fn start(
        listening: Listening,
        pages: Arc<dyn ClusterPages>,
        events: Arc<Events>,
        notices: Arc<Mutex<Notices>>,
    ) -> Result<Self, NodeError> {
        let standby = Standby::start(&listening, Arc::clone(&pages))?;
        let serving = Serving::Standby(standby);
        let worker = Worker { listening, pages, events, notices, primary: None, serving };
        let (duties, asked) = channel();
        let guard = Guarded::new("delaymq-node-service", &worker.events);
        let thread = Builder::new().name("delaymq-node-service".to_owned()).spawn(move || {
            let _guard = guard;
            worker.run(&asked);
        });
        let thread = thread.map_err(|error| NodeError::Thread { reason: error.to_string() })?;
        Ok(Self { duties, thread: Some(thread) })
    }

    /// Serves this store, as the primary.
    pub(crate) fn lead(&self, store: Arc<Store>) {
        self.ask(Duty::Lead(store));
    }

    /// Answers as a replica.
    pub(crate) fn follow(&self) {
        self.ask(Duty::Follow);
    }

    /// The primary that a replica names.
    pub(crate) fn set_primary(&self, primary: Option<Primary>) {
        self.ask(Duty::Primary(primary));
    }

    /// Stops. [`Incoming::Served`] follows.
    pub(crate) fn stop(&self, patience: Duration) {
        self.ask(Duty::Stop(patience));
    }

    fn ask(&self, duty: Duty) {
        drop(self.duties.send(duty));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.ask(Duty::Stop(Duration::ZERO));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Worker {
    fn run(mut self, asked: &Receiver<Duty>) {
        loop {
            let done = match asked.recv_timeout(COLLECT_EVERY) {
                Ok(Duty::Lead(store)) => self.serve(store),
                Ok(Duty::Follow) => self.stand_by(),
                Ok(Duty::Primary(primary)) => {
                    self.name_primary(primary);
                    Ok(())
                }
                Ok(Duty::Stop(patience)) => {
                    let stopped = self.stop(patience);
                    return self.events.add(Incoming::Served(stopped));
                }
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = done {
                self.events.add(Incoming::Failed(error.into()));
            }
            self.collect();
        }
    }

    fn serve(&mut self, store: Arc<Store>) -> Result<(), ServerError> {
        self.serving = Serving::Nothing;
        match Server::start_on(&self.listening, store, Some(Arc::clone(&self.pages))) {
            Ok(server) => {
                self.serving = Serving::Server(server);
                Ok(())
            }
            // The role has changed meanwhile. A store that has failed is seen by the node.
            Err(ServerError::Store(Error::Closed | Error::NotPrimary { .. } | Error::Poisoned { .. })) => {
                self.stand_by()
            }
            Err(error) => Err(error),
        }
    }

    fn stand_by(&mut self) -> Result<(), ServerError> {
        if matches!(self.serving, Serving::Standby(_)) {
            return Ok(());
        }
        self.serving = Serving::Nothing;
        let standby = Standby::start(&self.listening, Arc::clone(&self.pages))?;
        standby.set_primary(self.primary.clone());
        self.serving = Serving::Standby(standby);
        Ok(())
    }

    fn name_primary(&mut self, primary: Option<Primary>) {
        if let Serving::Standby(standby) = &self.serving {
            standby.set_primary(primary.clone());
        }
        self.primary = primary;
    }

    /// Clients of the server have so long to end what is under way.
    fn stop(&mut self, patience: Duration) -> Stopped {
        let until = Instant::now() + patience + COLLECT_EVERY;
        let mut stopped = None;
        match &self.serving {
            Serving::Server(server) => {
                server.stop(patience);
                while stopped.is_none() && Instant::now() < until {
                    stopped = server.wait(COLLECT_EVERY);
                }
            }
            Serving::Standby(standby) => standby.stop(Duration::ZERO),
            Serving::Nothing => {}
        }
        self.collect();
        self.serving = Serving::Nothing;
        stopped.unwrap_or(Stopped { cut_off: 0 })
    }

    fn collect(&self) {
        let Serving::Server(server) = &self.serving else { return };
        let (new, more) = server.notices();
        let mut notices = held(&self.notices);
        let room = NOTICES_MAX.saturating_sub(notices.0.len());
        let left_out = new.len().saturating_sub(room) as u64;
        notices.0.extend(new.into_iter().take(room));
        notices.1 = notices.1.saturating_add(more).saturating_add(left_out);
    }
}
