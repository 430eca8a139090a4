//! The session of one QMQ consumer. Its jobs run one after the other, in the order of their arrival, even if one waits
//! for the disk.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use delaymq_core::error::Result;
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::{Millis, Sequence};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::blocking_pool::Work;
use crate::qmq::acknowledgement;
use crate::qmq::acknowledgement::AcknowledgeRequest;
use crate::qmq::consumers::Name;
use crate::qmq::group_consumer::GroupConsumer;
use crate::qmq::pull;
use crate::qmq::pull::PendingPull;
use crate::qmq::pull_queues::PullQueue;
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
    /// It receives every message of the subject.
    is_broadcast: Cell<bool>,
    /// When the store was last told that this broadcast consumer is there.
    renewed: Cell<Option<Millis>>,
    /// The consumer of the store, once it was needed.
    attached: RefCell<Option<Rc<GroupConsumer>>>,
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
            is_broadcast: Cell::new(false),
            renewed: Cell::new(None),
            attached: RefCell::new(None),
            settled: Cell::new(Sequence(0)),
        }
    }

    /// True if it receives every message of the subject.
    pub(crate) fn is_broadcast(&self) -> bool {
        self.is_broadcast.get()
    }

    /// It receives every message of the subject from now on.
    pub(crate) fn become_broadcast(&self) {
        if !self.is_broadcast.replace(true) {
            self.renewed.set(None);
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

    /// The consumer of the store, looked up or created if necessary.
    pub(crate) async fn attach(&self, state: &Rc<ServerState>) -> Result<Rc<GroupConsumer>> {
        let known = self.attached.borrow().clone().filter(|attached| !attached.consumer.is_gone());
        if let Some(known) = known {
            self.renew(state, &known);
            return Ok(known);
        }
        let was_another = self.attached.borrow_mut().take().is_some();
        let attached = GroupConsumer::begin(state, self).await?;
        self.is_stored.set(true);
        *self.attached.borrow_mut() = Some(Rc::clone(&attached));
        if was_another {
            state.wake_pulls_of(self);
        }
        Ok(attached)
    }

    /// The store has just been told that this consumer is there.
    pub(crate) fn was_told(&self, state: &ServerState) {
        self.renewed.set(Some(state.now()));
    }

    /// Tells the store now and then that a broadcast consumer is there, so that its lease outlives this server.
    fn renew(&self, state: &ServerState, attached: &GroupConsumer) {
        let now = state.now();
        let is_fresh = |renewed: Millis| now.since(renewed) < state.consumers.broadcast_renewal_ms();
        if self.is_broadcast() && !self.renewed.get().is_some_and(is_fresh) {
            // If it cannot be told now, the next request tries again.
            if let Ok(true) = attached.consumer.try_renew(true) {
                self.was_told(state);
            }
        }
    }

    /// The queue of its pulls, if any was parked.
    pub(crate) fn pull_queue(&self) -> Option<Rc<PullQueue>> {
        self.attached.borrow().as_ref().map(|attached| Rc::clone(&attached.pull_queue))
    }

    /// Forgets what is known here: the store's consumer is looked up again.
    pub(crate) fn detach(&self) {
        self.attached.borrow_mut().take();
    }

    /// Ends it, since its lease is over.
    async fn end(&self, state: &Rc<ServerState>) {
        let ended = if self.is_stored.get() { self.end_stored(state).await } else { Ok(()) };
        match ended {
            Ok(()) => {
                self.is_over.set(true);
                state.consumers.counters.expired.add(1);
                state.consumers.forget(self);
            }
            // It may still exist, so it is tried again after another lease. A client that acknowledges meanwhile does
            // not hear that there is nothing to do.
            Err(_) => {
                state.consumers.hear(self, state.now());
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
        let attached = self.attached.borrow().as_ref().map(|attached| Arc::clone(&attached.consumer));
        let consumer = if let Some(consumer) = attached {
            consumer
        } else {
            let (store, name) = (Arc::clone(&state.store), Name::clone(&self.name));
            let found = state.pool.call(Work::LookUp, move || store.find_named_consumer(name.id())).await?;
            let Some(found) = found else { return Ok(()) };
            found
        };
        if consumer.is_gone() {
            return Ok(());
        }
        let (ending, rule) = (Arc::clone(&consumer), state.consumers.rule);
        self.detach();
        match state.pool.call(Work::End, move || ending.end(rule)).await {
            Ok(Some(_)) if is_on(Planted::ForgottenBeforeEnd) => Ok(()),
            // Until its end is durable, a kill undoes it: no client may hear meanwhile that it does not exist.
            Ok(Some(position)) => state.reached(position).await,
            Err(error) if !consumer.is_gone() => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
