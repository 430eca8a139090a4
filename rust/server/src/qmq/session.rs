//! One consumer of QMQ. What it asks is done one piece after the other, in the order in which it came,
//! whatever has to wait for the disk meanwhile.

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

/// What is done for a consumer.
pub(crate) enum Job {
    Pull(PendingPull),
    Acknowledge(AcknowledgeRequest),
    /// Its lease is over.
    End,
    /// An operator ends it, and is told how many messages it held; nothing where there is none.
    Leave(oneshot::Sender<Result<Option<u64>>>),
}

/// What stands behind a consumer, once it was needed.
#[derive(Clone)]
pub(crate) enum Attached {
    /// One of a group, whose messages each go to one of its consumers.
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

    /// True if it must be attached anew.
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
    /// It has ended: who comes now is another.
    is_over: Cell<bool>,
    /// The store holds it.
    is_stored: Cell<bool>,
    attached: RefCell<Option<Attached>>,
    /// Where what it settled last ends.
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

    /// Does something for it after all that was asked before.
    pub(crate) fn run(self: &Rc<Self>, state: &Rc<ServerState>, job: Job) {
        self.jobs.borrow_mut().push_back(job);
        if !self.is_busy.replace(true) {
            // A task has its memory aligned, which leaves holes; so its own is small, and the rest elsewhere.
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
                // It was heard of while it ended, and was silent again: who has its name now is another.
                Job::End if self.is_over.get() => {}
                Job::End => self.end(&state).await,
                Job::Leave(tell) => {
                    // Who asked may be gone.
                    let _unheard = tell.send(self.leave(&state).await);
                }
            }
        }
        self.is_busy.set(false);
        // Most of the time it waits, and keeps no room for what it may be asked next.
        self.jobs.take();
        if !self.is_stored.get() && self.attached.borrow().is_none() {
            // Nothing came of it, so it takes no room.
            self.is_over.set(true);
            state.consumers.forget(&self);
        }
    }

    /// What stands behind it, looked up or made where that is needed. `received` is what a consumer that
    /// gets every message says that it has.
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

    /// Where its pulls wait, once one did.
    pub(crate) fn pull_queue(&self) -> Option<Rc<PullQueue>> {
        self.attached.borrow().as_ref().map(|attached| Rc::clone(attached.pull_queue()))
    }

    /// What is known of it here may not be what the store holds: it is looked up again.
    pub(crate) fn detach(&self) {
        self.attached.borrow_mut().take();
    }

    /// Its lease is over.
    async fn end(&self, state: &Rc<ServerState>) {
        let ended = if self.is_stored.get() { self.end_stored(state).await } else { Ok(()) };
        match ended {
            // One that would have to be made, and may not be, is not there.
            Ok(()) | Err(Error::TooLarge { .. }) => {
                self.is_over.set(true);
                state.consumers.counters.expired.add(1);
                state.consumers.forget(self);
            }
            // As far as anybody knows it is still there, and is tried again after another lease. Who
            // acknowledges meanwhile is not told that there is nothing to do.
            Err(_) => {
                state.consumers.leases.borrow_mut().renew(self.number, state.now());
            }
        }
    }

    /// An operator ends it: who comes under its name from now on is another.
    async fn leave(&self, state: &Rc<ServerState>) -> Result<Option<u64>> {
        let (store, rule, name) = (Arc::clone(&state.store), state.consumers.rule, Name::clone(&self.name));
        let ended = state.pool.run(Work::End, move || store.end_named_consumer(name.id(), rule)).await;
        let held = ended.unwrap_or(Err(Error::Closed))?;
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
        let ended = state.pool.run(Work::End, move || consumer.end(rule)).await.unwrap_or(Err(Error::Closed));
        match ended {
            Ok(Some(_)) if is_on(Planted::ForgottenBeforeEnd) => Ok(()),
            // Until its end is durable a kill undoes it: nobody may be told meanwhile that it is not there.
            Ok(Some(position)) => state.reached(position).await,
            Err(error) if !shared.consumer.is_gone() => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
