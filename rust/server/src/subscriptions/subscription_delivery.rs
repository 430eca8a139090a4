//! The delivery of one subscription of a connection: messages to the client, and settlements from it.
//!
//! Tasks that may wait run on the blocking pool, one after the other, in the order in which they were asked for.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use delaymq_core::error::{Error, Result};
use delaymq_core::wire::extension::DELIVER;
use delaymq_core::wire::extension::consume::{CREDIT_MAX, Delivered as Sent, PayloadForm, put_deliver};
use delaymq_core::wire::extension::proof::Proof;
use delaymq_engine::{Delivered, Pulled, Subscription};
use tokio::sync::SemaphorePermit;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::blocking_pool::Work;
use crate::connection::peer::{MemoryReservation, Peer};
use crate::requests::responder::Responder;
use crate::server_state::ServerState;
use crate::subscriptions::blocking_tasks::{BlockingTask, Done, PULL_BYTES};
use crate::subscriptions::subscribe::subjects_bytes;

/// The most messages of one pull, and of one frame.
const PULL_MESSAGES: usize = 1_024;
/// Payloads of one frame, in bytes.
const FRAME_BYTES: usize = 256 << 10;
/// Messages that waiting tasks may name, in addition to those of the last task.
const TASK_MESSAGES_MAX: usize = 1 << 18;
/// How long a subscription waits after a failed pull.
const REST: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct SubscriptionDelivery {
    state: Rc<ServerState>,
    peer: Weak<Peer>,
    number: u32,
    pub(crate) token: u64,
    pub(crate) subscription: Arc<Subscription>,
    /// The memory that is reserved for its filters and subjects, and for how many subjects.
    kept: RefCell<Vec<MemoryReservation>>,
    subjects_count: Cell<usize>,
    credit: Cell<u32>,
    /// Pulled and not sent, never more than the credit.
    ready: RefCell<VecDeque<Delivered>>,
    tasks: RefCell<VecDeque<(BlockingTask, Option<Responder>)>>,
    task_messages: Cell<usize>,
    is_busy: Cell<bool>,
    /// A pull is among the tasks, or waits a moment after a failure.
    is_pulling: Cell<bool>,
    /// It did not pull, since the connection has no room.
    waits_for_room: Cell<bool>,
    is_ended: Cell<bool>,
}

impl SubscriptionDelivery {
    pub(crate) fn new(
        peer: &Rc<Peer>,
        number: u32,
        subscription: Arc<Subscription>,
        (kept, subjects_count): (MemoryReservation, usize),
    ) -> Rc<Self> {
        let state = Rc::clone(peer.state());
        Rc::new(Self {
            token: state.number(),
            state,
            peer: Rc::downgrade(peer),
            number,
            subscription,
            kept: RefCell::new(vec![kept]),
            subjects_count: Cell::new(subjects_count),
            credit: Cell::new(0),
            ready: RefCell::default(),
            tasks: RefCell::default(),
            task_messages: Cell::new(0),
            is_busy: Cell::new(false),
            is_pulling: Cell::new(false),
            waits_for_room: Cell::new(false),
            is_ended: Cell::new(false),
        })
    }

    /// The client may get so many messages more.
    pub(crate) fn add_credit(&self, credit: u32) {
        self.credit.set(self.credit.get().saturating_add(credit).min(CREDIT_MAX));
    }

    /// Sends nothing any more.
    pub(crate) fn end(&self) {
        self.is_ended.set(true);
        self.state.deliveries.borrow_mut().remove(&self.token);
    }

    /// It cannot go on. Its connection is closed, so that the client notices and begins again. If the store has ended,
    /// every request hears so instead.
    fn fail(&self) {
        self.end();
        if let Some(peer) = self.peer.upgrade().filter(|_| self.state.store.check().is_ok()) {
            peer.cut_off();
        }
    }

    /// True if messages wait for room in the connection.
    pub(crate) fn is_starved(&self) -> bool {
        self.waits_for_room.get() || !self.ready.borrow().is_empty()
    }

    /// True if pulled messages could be sent.
    fn has_room(&self) -> bool {
        let has_room = self.peer.upgrade().is_some_and(|peer| peer.has_answer_room());
        self.waits_for_room.set(!has_room);
        has_room
    }

    /// Reserves memory for the subjects that the prefix has selected since. False if there is no room for them.
    pub(crate) fn keeps_subjects(&self) -> bool {
        let (before, count) = (self.subjects_count.get(), self.subscription.subjects_count());
        if count <= before {
            return true;
        }
        let bytes = subjects_bytes(count).saturating_sub(subjects_bytes(before));
        let Some(kept) = self.peer.upgrade().and_then(|peer| peer.reserve_memory(bytes)) else { return false };
        self.kept.borrow_mut().push(kept);
        self.subjects_count.set(count);
        true
    }

    /// Pulls and sends, as far as credit and room allow.
    pub(crate) fn pump(self: &Rc<Self>) {
        if !self.is_ended.get() && !self.keeps_subjects() {
            return self.fail();
        }
        loop {
            if self.is_ended.get() || !self.send_ready() || self.credit.get() == 0 || self.is_pulling.get() {
                return;
            }
            if !self.has_room() {
                return;
            }
            let count = PULL_MESSAGES.min(self.credit.get() as usize);
            match self.subscription.try_pull_within(count, PULL_BYTES, false) {
                Ok(Pulled::Messages(messages)) => self.take(messages),
                Ok(Pulled::Nothing) => return,
                Ok(Pulled::WouldWait) => {
                    self.is_pulling.set(true);
                    return self.run(BlockingTask::Pull { count }, None);
                }
                Err(_) => return self.fail(),
            }
        }
    }

    /// Answers when everything that is ready, as far as credit goes, was handed to the connection. Waits for what
    /// becomes ready by facts on their way.
    pub(crate) fn look(self: &Rc<Self>, responder: Responder) {
        self.pump();
        let count = PULL_MESSAGES.min(self.credit.get() as usize);
        if self.is_pulling.get() {
            return self.run(BlockingTask::Look, Some(responder));
        }
        if self.is_ended.get() || self.is_starved() || count == 0 {
            return responder.done();
        }
        match self.subscription.try_pull_within(count, PULL_BYTES, true) {
            Ok(Pulled::Messages(messages)) => {
                self.take(messages);
                self.send_ready();
                responder.done();
            }
            Ok(Pulled::Nothing) => responder.done(),
            Ok(Pulled::WouldWait) => {
                self.is_pulling.set(true);
                self.run(BlockingTask::Pull { count }, Some(responder));
            }
            Err(error) => responder.failed(&error),
        }
    }

    /// Takes pulled messages.
    fn take(&self, messages: Vec<Delivered>) {
        self.ready.borrow_mut().extend(messages);
    }

    /// Sends what is ready. Returns true if all of it was sent.
    fn send_ready(&self) -> bool {
        let Some(peer) = self.peer.upgrade() else { return false };
        loop {
            let mut ready = self.ready.borrow_mut();
            let mut bytes = 0_usize;
            let fits = |message: &&Delivered| {
                let has_room = bytes == 0 || bytes.saturating_add(message.payload.all().len()) <= FRAME_BYTES;
                bytes = bytes.saturating_add(message.payload.all().len()).saturating_add(1);
                has_room
            };
            let count = ready.iter().take(PULL_MESSAGES).take_while(fits).count();
            if count == 0 {
                return true;
            }
            let put = |out: &mut Vec<u8>| {
                put_deliver(out, self.number, self.subscription.now(), count)?;
                ready.iter().take(count).try_for_each(|message| self.sent(message)?.put(out))
            };
            match peer.push(DELIVER, put) {
                Ok(true) => {
                    self.state.note_lateness(ready.iter().take(count));
                    ready.drain(..count);
                    self.state.entrance.counters.delivered.add(count as u64);
                    self.credit.set(self.credit.get().saturating_sub(count as u32));
                }
                Ok(false) => return false,
                Err(_) => {
                    // No message is larger than a frame. If one were, it would go back to its group.
                    drop(ready);
                    self.fail();
                    return false;
                }
            }
        }
    }

    fn sent<'a>(&self, message: &'a Delivered) -> Result<Sent<'a>> {
        let payload = &message.payload;
        Ok(Sent {
            queue: message.key.queue,
            offset: message.key.offset,
            form: if payload.is_opaque() { PayloadForm::Opaque } else { PayloadForm::Qmq },
            redelivered: message.redelivered,
            attempt: message.attempt,
            sequence: message.sequence,
            due: message.due,
            first_due: message.first_due,
            published: message.published,
            proof: Proof::of(&self.state.store.receipt(message)?),
            subject: &message.subject,
            meta_length: payload.meta().len() as u32,
            check: payload.check(),
            payload: payload.all(),
        })
    }

    /// True if nothing is under way that a flush would have to wait for.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_busy.get() && self.tasks.borrow().is_empty()
    }

    /// True if no task may be added until some are done.
    pub(crate) fn is_crowded(&self) -> bool {
        self.task_messages.get() >= TASK_MESSAGES_MAX
    }

    /// Runs a task after those before it, and answers the request that asked for it.
    pub(crate) fn run(self: &Rc<Self>, task: BlockingTask, responder: Option<Responder>) {
        self.task_messages.set(self.task_messages.get().saturating_add(task.messages()));
        self.tasks.borrow_mut().push_back((task, responder));
        self.run_next();
    }

    fn run_next(self: &Rc<Self>) {
        if self.tasks.borrow().is_empty() || self.is_busy.replace(true) {
            return;
        }
        let (tasks, responders): (Vec<_>, Vec<_>) = self.tasks.borrow_mut().drain(..).unzip();
        self.task_messages.set(0);
        // The end of a subscription waits until it is durable, and takes no thread of active ones.
        let is_end = tasks.iter().any(|task| matches!(task, BlockingTask::Close));
        let sort = if is_end { Work::End } else { Work::Subscription };
        let subscription = Arc::clone(&self.subscription);
        let delivery = Rc::clone(self);
        spawn_local(async move {
            let (peer, mut tasks) = (delivery.peer.upgrade(), tasks);
            let _turn = delivery.begin_pull(peer.as_deref(), &mut tasks).await;
            let run = move || tasks.into_iter().map(|task| task.run(&subscription)).collect::<Vec<_>>();
            let done = delivery.state.pool.run(sort, run).await;
            delivery.is_busy.set(false);
            if let Some(done) = done {
                for (done, responder) in done.into_iter().zip(responders) {
                    delivery.did(done, responder);
                }
            } else {
                delivery.fail();
                responders.into_iter().flatten().for_each(Responder::died);
            }
            delivery.run_next();
            delivery.pump();
        });
    }

    /// Few subscriptions of a connection pull at once. If others took the room meanwhile, nothing is pulled.
    async fn begin_pull<'a>(&self, peer: Option<&'a Peer>, tasks: &mut [BlockingTask]) -> Option<SemaphorePermit<'a>> {
        let peer = peer.filter(|_| tasks.iter().any(BlockingTask::is_pull))?;
        let turn = peer.turn_to_pull().await;
        if !self.has_room() {
            tasks.iter_mut().filter(|task| task.is_pull()).for_each(|task| *task = BlockingTask::Look);
            self.is_pulling.set(false);
        }
        turn
    }

    fn did(self: &Rc<Self>, done: Result<Done>, responder: Option<Responder>) {
        match (done, responder) {
            (Ok(Done::Pulled(Ok(messages))), responder) => {
                self.is_pulling.set(false);
                self.take(messages);
                self.send_ready();
                if let Some(responder) = responder {
                    responder.done();
                }
            }
            (Ok(Done::Pulled(Err(error))), responder) => {
                let is_passing = matches!(error, Error::Storage { .. });
                if let Some(responder) = responder {
                    responder.failed(&error);
                }
                if is_passing { self.rest() } else { self.fail() }
            }
            (Ok(Done::Submitted(position)), Some(responder)) => {
                self.state.promise(position, Box::new(|kept| responder.settled(kept)));
            }
            (Ok(Done::Settled), Some(responder)) => responder.done(),
            (Ok(Done::Submitted(_) | Done::Settled), None) => {}
            (Err(error), Some(responder)) => responder.failed(&error),
            (Err(_), None) => self.fail(),
        }
    }

    /// Pulls again a little later.
    fn rest(self: &Rc<Self>) {
        let delivery = Rc::downgrade(self);
        spawn_local(async move {
            sleep(REST).await;
            if let Some(delivery) = delivery.upgrade() {
                delivery.is_pulling.set(false);
                delivery.pump();
            }
        });
    }

    /// The connection has gone: settlements become durable, and the other messages go back to the group.
    pub(crate) fn leave(self: &Rc<Self>) {
        self.end();
        self.ready.borrow_mut().clear();
        self.state.closing.set(self.state.closing.get().saturating_add(1));
        let tasks: Vec<_> = self.tasks.borrow_mut().drain(..).map(|(task, _)| task).collect();
        let (delivery, subscription) = (Rc::clone(self), Arc::clone(&self.subscription));
        spawn_local(async move {
            while delivery.is_busy.get() {
                // A task that is running comes first, so that it is not lost.
                sleep(Duration::from_millis(1)).await;
            }
            let close = move || {
                for task in tasks.into_iter().chain([BlockingTask::Close]) {
                    // No client is there to be answered.
                    drop(task.run(&subscription));
                }
            };
            delivery.state.pool.run(Work::End, close).await;
            delivery.state.closing.set(delivery.state.closing.get().saturating_sub(1));
            delivery.state.left.notify_one();
        });
    }
}
