//! The session of one QMQ consumer. Its jobs run one after the other, in the order of their arrival, even if one waits
//! for the disk.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::{PullOffset, Sequence};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::blocking_pool::Work;
use crate::qmq::acknowledgement;
use crate::qmq::acknowledgement::AcknowledgeRequest;
use crate::qmq::broadcast_consumer::BroadcastConsumer;
use crate::qmq::consumers::Name;
use crate::qmq::pull;
use crate::qmq::pull::PendingPull;
use crate::qmq::pull_queues::PullQueue;
use crate::qmq::shared_consumer::SharedConsumer;
use crate::server_state::ServerState;

/// A job for a consumer.
pub(crate) enum Job {
    Pull(PendingPull),
    Acknowledge(AcknowledgeRequest),
    /// The lease is over.
    End,
    /// An operator ends it. The sender gets how many messages it held; `None` if there is none.
    Leave(oneshot::Sender<Result<Option<u64>>>),
}

/// The consumer of the store, once it was needed.
#[derive(Clone)]
pub(crate) enum Attached {
    /// A consumer of a group: each message goes to one consumer.
    Shared(Rc<SharedConsumer>),
    /// One that gets every message.
    Broadcast(Rc<BroadcastConsumer>),
}

impl Attached {
    pub(crate) fn pull_queue(&self) -> &Rc<PullQueue> {
        match self {
            Self::Shared(shared) => &shared.pull_queue,
            Self::Broadcast(broadcast) => &broadcast.reading.pull_queue,
        }
    }

    /// True if the consumer must be looked up again.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Shared(shared) if shared.consumer.is_gone())
    }
}

/// See the module.
pub(crate) struct Session {
    pub(crate) name: Rc<Name>,
    pub(crate) number: u64,
    jobs: RefCell<VecDeque<Job>>,
    is_busy: Cell<bool>,
    /// It has ended: a consumer with its name is a new one.
    is_over: Cell<bool>,
    /// The store has this consumer.
    is_stored: Cell<bool>,
    attached: RefCell<Option<Attached>>,
    /// The end of its last settlement in the log.
    pub(crate) settled: Cell<Sequence>,
}

impl Session {
    pub(crate) fn new(name: Rc<Name>, number: u64, is_stored: bool) -> Self {
        Self {
            name,
            number,
            jobs: RefCell::default(),
            is_busy: Cell::new(false),
            is_over: Cell::new(false),
            is_stored: Cell::new(is_stored),
            attached: RefCell::new(None),
            settled: Cell::new(Sequence(0)),
        }
    }

    /// Runs a job after all earlier ones.
    pub(crate) fn run(self: &Rc<Self>, state: &Rc<ServerState>, job: Job) {
        self.jobs.borrow_mut().push_back(job);
        if !self.is_busy.replace(true) {
            // A task's memory is aligned, which wastes space; so the task is small, and its future is boxed.
            spawn_local(Box::pin(Rc::clone(self).work(Rc::clone(state))));
        }
    }

    async fn work(self: Rc<Self>, state: Rc<ServerState>) {
        loop {
            let job = self.jobs.borrow_mut().pop_front();
            let Some(job) = job else { break };
            match job {
                Job::Pull(request) if self.is_over.get() => pull::begin(&state, request, Name::clone(&self.name)),
                Job::Acknowledge(request) if self.is_over.get() => {
                    acknowledgement::begin(&state, request, &self.name);
                }
                Job::Pull(request) => pull::serve(&state, &self, request).await,
                Job::Acknowledge(request) => acknowledgement::serve(&state, &self, request).await,
                // The consumer ended while it was silent again: a consumer with its name is a new one.
                Job::End if self.is_over.get() => {}
                Job::End => self.end(&state).await,
                Job::Leave(tell) => {
                    // The caller may be gone.
                    let _unheard = tell.send(self.leave(&state).await);
                }
            }
        }
        self.is_busy.set(false);
        // A session mostly waits, so it keeps no memory for further jobs.
        self.jobs.take();
        if !self.is_stored.get() && self.attached.borrow().is_none() {
            // It came to nothing, so it keeps no memory.
            self.is_over.set(true);
            state.consumers.forget(&self);
        }
    }

    /// The consumer of the store, looked up or created if necessary. `received` is what a broadcast consumer says that
    /// it has.
    pub(crate) async fn attach(&self, state: &Rc<ServerState>, received: Option<PullOffset>) -> Result<Attached> {
        let known = self.attached.borrow().clone().filter(|attached| !attached.is_gone());
        if let Some(known) = known {
            return Ok(known);
        }
        let was_another = self.attached.borrow_mut().take().is_some();
        let attached = if self.name.is_broadcast {
            Attached::Broadcast(BroadcastConsumer::begin(state, &self.name.subject, received).await?)
        } else {
            Attached::Shared(SharedConsumer::begin(state, &self.name).await?)
        };
        self.is_stored.set(!self.name.is_broadcast);
        *self.attached.borrow_mut() = Some(attached.clone());
        if was_another {
            state.wake_pulls_of(self);
        }
        Ok(attached)
    }

    /// The queue of its pulls, if any was parked.
    pub(crate) fn pull_queue(&self) -> Option<Rc<PullQueue>> {
        self.attached.borrow().as_ref().map(|attached| Rc::clone(attached.pull_queue()))
    }

    /// Forgets what is known here: the store's consumer is looked up again.
    pub(crate) fn detach(&self) {
        self.attached.borrow_mut().take();
    }

    /// Ends it, since its lease is over.
    async fn end(&self, state: &Rc<ServerState>) {
        let ended = if self.is_stored.get() { self.end_stored(state).await } else { Ok(()) };
        match ended {
            // A consumer that would have to be created, and may not be, does not exist.
            Ok(()) | Err(Error::TooLarge { .. }) => {
                self.is_over.set(true);
                state.consumers.counters.expired.add(1);
                state.consumers.forget(self);
            }
            // It may still exist, so it is tried again after another lease. A client that acknowledges meanwhile does
            // not hear that there is nothing to do.
            Err(_) => {
                state.consumers.leases.borrow_mut().renew(self.number, state.now());
            }
        }
    }

    /// An operator ends it: a consumer with its name is a new one from now on.
    async fn leave(&self, state: &Rc<ServerState>) -> Result<Option<u64>> {
        let (store, rule, name) = (Arc::clone(&state.store), state.consumers.rule, Name::clone(&self.name));
        let held = state.pool.call(Work::End, move || store.end_named_consumer(name.id(), rule)).await?;
        if !self.is_over.replace(true) {
            let pull_queue = self.pull_queue();
            self.detach();
            state.consumers.forget(self);
            if let Some(pull_queue) = pull_queue {
                state.wake_all(&pull_queue);
            }
        }
        Ok(held)
    }

    async fn end_stored(&self, state: &Rc<ServerState>) -> Result<()> {
        if self.attached.borrow().as_ref().is_some_and(Attached::is_gone) {
            return Ok(());
        }
        let Attached::Shared(shared) = self.attach(state, None).await? else { return Ok(()) };
        let (consumer, rule) = (Arc::clone(&shared.consumer), state.consumers.rule);
        self.detach();
        match state.pool.call(Work::End, move || consumer.end(rule)).await {
            Ok(Some(_)) if is_on(Planted::ForgottenBeforeEnd) => Ok(()),
            // Until its end is durable, a kill undoes it: no client may hear meanwhile that it does not exist.
            Ok(Some(position)) => state.reached(position).await,
            Err(error) if !shared.consumer.is_gone() => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
