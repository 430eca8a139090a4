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

use crate::acknowledging::{self, Acknowledging};
use crate::broadcasting::Listening;
use crate::consumers::Name;
use crate::desks::Desk;
use crate::hub::Hub;
use crate::pool::Work;
use crate::pulling::{self, Pulling};
use crate::sharing::Sharing;

/// What is done for a consumer.
pub(crate) enum Job {
    Pull(Pulling),
    Acknowledge(Acknowledging),
    /// Its lease is over.
    End,
    /// An operator ends it, and is told how many messages it held; nothing where there is none.
    Leave(oneshot::Sender<Result<Option<u64>>>),
}

/// What stands behind a consumer, once it was needed.
#[derive(Clone)]
pub(crate) enum Attached {
    /// One of a group, whose messages each go to one of its consumers.
    Sharing(Rc<Sharing>),
    /// One that gets every message.
    Listening(Rc<Listening>),
}

impl Attached {
    pub(crate) fn desk(&self) -> &Rc<Desk> {
        match self {
            Self::Sharing(sharing) => &sharing.desk,
            Self::Listening(listening) => &listening.reading.desk,
        }
    }

    /// True where it must be attached anew.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Sharing(sharing) if sharing.consumer.is_gone())
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
    pub(crate) fn run(self: &Rc<Self>, hub: &Rc<Hub>, job: Job) {
        self.jobs.borrow_mut().push_back(job);
        if !self.is_busy.replace(true) {
            // A task has its memory aligned, which leaves holes; so its own is small, and the rest elsewhere.
            spawn_local(Box::pin(Rc::clone(self).work(Rc::clone(hub))));
        }
    }

    async fn work(self: Rc<Self>, hub: Rc<Hub>) {
        loop {
            let job = self.jobs.borrow_mut().pop_front();
            let Some(job) = job else { break };
            match job {
                Job::Pull(pulling) if self.is_over.get() => pulling::begin(&hub, pulling, Name::clone(&self.name)),
                Job::Acknowledge(acknowledging) if self.is_over.get() => {
                    acknowledging::begin(&hub, acknowledging, &self.name);
                }
                Job::Pull(pulling) => pulling::serve(&hub, &self, pulling).await,
                Job::Acknowledge(acknowledging) => acknowledging::serve(&hub, &self, acknowledging).await,
                // It was heard of while it ended, and was silent again: who has its name now is another.
                Job::End if self.is_over.get() => {}
                Job::End => self.end(&hub).await,
                Job::Leave(tell) => {
                    // Who asked may be gone.
                    let _unheard = tell.send(self.leave(&hub).await);
                }
            }
        }
        self.is_busy.set(false);
        // Most of the time it waits, and keeps no room for what it may be asked next.
        self.jobs.take();
        if !self.is_stored.get() && self.attached.borrow().is_none() {
            // Nothing came of it, so it takes no room.
            self.is_over.set(true);
            hub.consumers.forget(&self);
        }
    }

    /// What stands behind it, looked up or made where that is needed. `received` is what a consumer that
    /// gets every message says that it has.
    pub(crate) async fn attach(&self, hub: &Rc<Hub>, received: Option<PullOffset>) -> Result<Attached> {
        let known = self.attached.borrow().clone().filter(|attached| !attached.is_gone());
        if let Some(known) = known {
            return Ok(known);
        }
        let was_another = self.attached.borrow_mut().take().is_some();
        let attached = if self.name.is_broadcast {
            Attached::Listening(Listening::begin(hub, &self.name.subject, received).await?)
        } else {
            Attached::Sharing(Sharing::begin(hub, &self.name).await?)
        };
        self.is_stored.set(!self.name.is_broadcast);
        *self.attached.borrow_mut() = Some(attached.clone());
        if was_another {
            hub.wake_pulls_of(self);
        }
        Ok(attached)
    }

    /// Where its pulls wait, once one did.
    pub(crate) fn desk(&self) -> Option<Rc<Desk>> {
        self.attached.borrow().as_ref().map(|attached| Rc::clone(attached.desk()))
    }

    /// What is known of it here may not be what the store holds: it is looked up again.
    pub(crate) fn detach(&self) {
        self.attached.borrow_mut().take();
    }

    /// Its lease is over.
    async fn end(&self, hub: &Rc<Hub>) {
        let ended = if self.is_stored.get() { self.end_stored(hub).await } else { Ok(()) };
        match ended {
            // One that would have to be made, and may not be, is not there.
            Ok(()) | Err(Error::TooLarge { .. }) => {
                self.is_over.set(true);
                hub.consumers.counters.expired.add(1);
                hub.consumers.forget(self);
            }
            // As far as anybody knows it is still there, and is tried again after another lease. Who
            // acknowledges meanwhile is not told that there is nothing to do.
            Err(_) => {
                hub.consumers.leases.borrow_mut().renew(self.number, hub.now());
            }
        }
    }

    /// An operator ends it: who comes under its name from now on is another.
    async fn leave(&self, hub: &Rc<Hub>) -> Result<Option<u64>> {
        let (store, rule, name) = (Arc::clone(&hub.store), hub.consumers.rule, Name::clone(&self.name));
        let ended = hub.pool.run(Work::End, move || store.end_named_consumer(name.id(), rule)).await;
        let held = ended.unwrap_or(Err(Error::Closed))?;
        if !self.is_over.replace(true) {
            let desk = self.desk();
            self.detach();
            hub.consumers.forget(self);
            if let Some(desk) = desk {
                hub.wake_all(&desk);
            }
        }
        Ok(held)
    }

    async fn end_stored(&self, hub: &Rc<Hub>) -> Result<()> {
        if self.attached.borrow().as_ref().is_some_and(Attached::is_gone) {
            return Ok(());
        }
        let Attached::Sharing(sharing) = self.attach(hub, None).await? else { return Ok(()) };
        let (consumer, rule) = (Arc::clone(&sharing.consumer), hub.consumers.rule);
        self.detach();
        let ended = hub.pool.run(Work::End, move || consumer.end(rule)).await.unwrap_or(Err(Error::Closed));
        match ended {
            Ok(Some(_)) if is_on(Planted::ForgottenBeforeEnd) => Ok(()),
            // Until its end is durable a kill undoes it: nobody may be told meanwhile that it is not there.
            Ok(Some(position)) => hub.reached(position).await,
            Err(error) if !sharing.consumer.is_gone() => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}
