//! The state that all tasks of a server share, and the waits for the log.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::units::{Millis, Sequence};
use delaymq_core::wire::connection::Asked;
use delaymq_core::wire::qmq::registry::Registry;
use delaymq_core::wire::quota::memory_accounting::Scales;
use delaymq_core::wire::quota::unfinished::Unfinished;
use delaymq_engine::{Delivered, Listener, PublishBatch, Store};
use tokio::sync::{Mutex, Notify, oneshot};
use tokio::time::{sleep, timeout};

use crate::access::control::NoticeLog;
use crate::access::entrance::Entrance;
use crate::blocking_pool::Pool;
use crate::connection::peer::Peer;
use crate::http::cluster::ClusterPages;
use crate::options::ServerOptions;
use crate::pending_replies::PendingReplies;
use crate::qmq::consumers::Consumers;
use crate::requests::publish::PublishRequest;
use crate::requests::responder::Responder;
use crate::subscriptions::subscription_delivery::SubscriptionDelivery;

/// How soon a publish that found no room is tried again, if no event comes before.
const ROOM_WAIT: Duration = Duration::from_millis(5);
/// How often the registry forgets silent clients.
const EXPIRE_EVERY: Duration = Duration::from_secs(10);
/// Batches that are kept for reuse.
const SPARE_BATCHES: usize = 4;

/// Called once the log is durable up to a position, or with the reason why it never will be.
pub(crate) type Promise = Box<dyn FnOnce(Result<()>)>;

/// A promise, and how many requests wait for it.
struct Promised {
    promise: Promise,
    requests: usize,
}

/// See the module.
pub(crate) struct ServerState {
    pub(crate) store: Arc<Store>,
    pub(crate) options: ServerOptions,
    pub(crate) pool: Rc<Pool>,
    pub(crate) registry: RefCell<Registry>,
    pub(crate) consumers: Consumers,
    pub(crate) peers: RefCell<HashMap<u64, Rc<Peer>>>,
    pub(crate) entrance: Entrance,
    /// The group of copies to which the store belongs.
    pub(crate) cluster: Option<Arc<dyn ClusterPages>>,
    /// Serves a request, now or later.
    pub(crate) serve: fn(Responder, Asked),
    /// Bytes of unfinished requests of all connections.
    pub(crate) input_bytes: Cell<usize>,
    /// The memory that connections make the server keep.
    pub(crate) scales: RefCell<Scales<IpAddr>>,
    /// Connections that wait for memory.
    pub(crate) awaiting_memory: RefCell<Vec<Weak<Peer>>>,
    /// Requests that addresses began and did not finish.
    pub(crate) unfinished: RefCell<Unfinished<IpAddr>>,
    /// Held while the file of consumers that are switched off is written.
    pub(crate) switching: Mutex<()>,
    /// Subscriptions whose connection is gone and that are not closed yet.
    pub(crate) closing: Cell<usize>,
    /// A connection or subscription has gone.
    pub(crate) left: Notify,
    began: Instant,
    /// The time at which the turn that is under way began.
    turn_began: Cell<Option<Millis>>,
    pub(crate) listener: Listener,
    pub(crate) news: Arc<Notify>,
    is_draining: Cell<bool>,
    next_number: Cell<u64>,
    pending_replies: RefCell<PendingReplies<Promised>>,
    /// Publishes of one message each that this turn of the loop has gathered.
    pub(crate) gathered: RefCell<Option<PublishRequest>>,
    /// Publishes that wait for room in the log; their requests, and the bytes of these.
    pub(crate) waiting: RefCell<VecDeque<PublishRequest>>,
    pub(crate) waiting_count: Cell<usize>,
    pub(crate) waiting_bytes: Cell<usize>,
    /// Subscriptions that are woken for their events, by their tokens.
    pub(crate) deliveries: RefCell<HashMap<u64, Weak<SubscriptionDelivery>>>,
    spare: RefCell<Vec<PublishBatch>>,
}

impl ServerState {
    /// The listener raises `news`, and `serve` serves the requests of all connections.
    pub(crate) fn new(
        store: Arc<Store>,
        options: ServerOptions,
        registry: Registry,
        listener: Listener,
        news: Arc<Notify>,
        notices: NoticeLog,
        serve: fn(Responder, Asked),
    ) -> Self {
        let (scales, unfinished) = (Scales::new(options.scales), Unfinished::new(options.unfinished));
        Self {
            entrance: Entrance::new(&options, notices),
            cluster: None,
            store,
            pool: Pool::new(options.waiting_requests_max),
            consumers: Consumers::new(&options),
            options,
            registry: RefCell::new(registry),
            peers: RefCell::default(),
            serve,
            input_bytes: Cell::new(0),
            scales: RefCell::new(scales),
            awaiting_memory: RefCell::default(),
            unfinished: RefCell::new(unfinished),
            switching: Mutex::new(()),
            closing: Cell::new(0),
            left: Notify::new(),
            began: Instant::now(),
            turn_began: Cell::new(None),
            listener,
            news,
            is_draining: Cell::new(false),
            next_number: Cell::new(1),
            pending_replies: RefCell::default(),
            gathered: RefCell::default(),
            waiting: RefCell::default(),
            waiting_count: Cell::new(0),
            waiting_bytes: Cell::new(0),
            deliveries: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// The time for connections, which never goes back. Within a turn it stands still.
    pub(crate) fn now(&self) -> Millis {
        self.turn_began.get().unwrap_or_else(|| self.time())
    }

    fn time(&self) -> Millis {
        let elapsed = self.began.elapsed();
        Millis(elapsed.as_secs().saturating_mul(1_000).saturating_add(u64::from(elapsed.subsec_millis())))
    }

    /// Calls `act`, for which the time stands still. Delays of publishes count from the turn that read them.
    pub(crate) fn in_turn<T>(&self, act: impl FnOnce() -> T) -> T {
        self.turn_began.set(Some(self.time()));
        if let Some(gathered) = self.gathered.borrow_mut().as_mut() {
            gathered.renew_time();
        }
        let result = act();
        self.turn_began.set(None);
        result
    }

    /// A number that is unique in this server.
    pub(crate) fn number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number.wrapping_add(1));
        number
    }

    /// True if nothing new is accepted.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// Accepts nothing new from now on. Requests under way are answered.
    pub(crate) fn drain(&self) {
        self.is_draining.set(true);
        let peers: Vec<_> = self.peers.borrow().values().cloned().collect();
        for peer in peers {
            peer.drain();
        }
    }

    /// True if every connection has gone and every subscription is closed.
    pub(crate) fn is_left(&self) -> bool {
        self.peers.borrow().is_empty() && self.closing.get() == 0
    }

    /// Closes every connection. Returns how many had something under way.
    pub(crate) fn cut_off(&self) -> usize {
        let peers: Vec<_> = self.peers.borrow().values().cloned().collect();
        peers.iter().filter(|peer| peer.cut_off()).count()
    }

    /// Accounts that a connection of this address keeps `after` bytes instead of `before`.
    pub(crate) fn account_memory(&self, address: IpAddr, before: usize, after: usize) {
        let has_eased = self.scales.borrow_mut().weigh(address, before, after);
        let awaiting_memory = if has_eased { self.awaiting_memory.take() } else { Vec::new() };
        for peer in awaiting_memory.iter().filter_map(Weak::upgrade) {
            peer.memory_was_freed();
        }
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> PublishBatch {
        self.spare.borrow_mut().pop().unwrap_or_else(|| self.store.batch())
    }

    /// Takes back a batch that is not needed any more.
    pub(crate) fn give_back(&self, mut batch: PublishBatch) {
        batch.clear();
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_BATCHES {
            spare.push(batch);
        }
    }

    /// Keeps a promise once everything below `position` is visible. Returns the number under which it waits.
    pub(crate) fn promise(&self, position: Sequence, promise: Promise) -> u64 {
        self.promise_all(position, 1, promise)
    }

    /// As [`Self::promise`], for so many requests.
    pub(crate) fn promise_all(&self, position: Sequence, requests: usize, promise: Promise) -> u64 {
        let position = if is_on(Planted::AnswerBeforeVisible) { Sequence(0) } else { position };
        let (number, is_first) = self.pending_replies.borrow_mut().add(position, Promised { promise, requests });
        if is_first {
            self.keep_promises();
        }
        number
    }

    /// Waits until everything below `position` is visible, on no thread.
    ///
    /// # Errors
    /// The error of a store that failed or closed.
    pub(crate) async fn reached(&self, position: Sequence) -> Result<()> {
        let (told, hears) = oneshot::channel();
        self.promise(position, Box::new(|kept| drop(told.send(kept))));
        hears.await.unwrap_or(Err(Error::Closed))
    }

    /// As [`Self::reached`], for at most `patience`. Returns false if that was too short.
    ///
    /// # Errors
    /// The error of a store that failed or closed.
    pub(crate) async fn reached_within(&self, position: Sequence, patience: Duration) -> Result<bool> {
        let (told, hears) = oneshot::channel();
        let number = self.promise(position, Box::new(|kept| drop(told.send(kept))));
        if let Ok(heard) = timeout(patience, hears).await {
            return heard.unwrap_or(Err(Error::Closed)).map(|()| true);
        }
        drop(self.pending_replies.borrow_mut().take(position, number));
        Ok(false)
    }

    fn keep_promises(&self) {
        loop {
            let Some(first) = self.pending_replies.borrow().first() else { return };
            match self.listener.want(first) {
                Ok(false) => return,
                Ok(true) => {
                    let visible = self.listener.visible();
                    while let Some(promised) = self.take_reached(visible) {
                        (promised.promise)(Ok(()));
                    }
                }
                Err(error) => return self.break_promises(&error),
            }
        }
    }

    fn take_reached(&self, visible: Sequence) -> Option<Promised> {
        self.pending_replies.borrow_mut().take_reached(visible)
    }

    fn break_promises(&self, error: &Error) {
        let broken = self.pending_replies.borrow_mut().take_all();
        for promised in broken {
            (promised.promise)(Err(error.clone()));
        }
    }

    /// Counts the lateness of messages that are sent, for first deliveries only: later ones do not show how late the
    /// server was.
    pub(crate) fn note_lateness<'a>(&self, messages: impl Iterator<Item = &'a Delivered>) {
        let now = self.store.now();
        for first in messages.filter(|message| message.attempt == 1 && !message.redelivered) {
            self.entrance.counters.lateness.add(now.since(first.due.max(first.published)));
        }
    }

    /// How many requests wait for the log, and how many for room in it.
    pub(crate) fn waiting_counts(&self) -> (usize, usize) {
        let for_log = self.pending_replies.borrow().iter().map(|promised| promised.requests).sum();
        (for_log, self.waiting_count.get())
    }

    /// From now on this subscription is woken for its events.
    pub(crate) fn watch_subscription(&self, delivery: &Rc<SubscriptionDelivery>) {
        self.deliveries.borrow_mut().insert(delivery.token, Rc::downgrade(delivery));
        if delivery.subscription.watch_by(&self.listener, delivery.token).is_err() {
            delivery.end();
        }
    }

    /// The time is checked at this time, at the latest.
    pub(crate) fn look_by(&self, time: Millis) {
        if time < self.consumers.looks_at.get() {
            self.news.notify_one();
        }
    }

    /// How long the loop may sleep.
    fn idle_time(&self) -> Duration {
        let now = self.now();
        let wait = if self.waiting.borrow().is_empty() { EXPIRE_EVERY } else { ROOM_WAIT };
        // The millisecond of a time has begun and must have passed.
        let until = self.next_look().map(|look| Duration::from_millis(look.since(now).saturating_add(1)));
        let wait = until.map_or(wait, |until| until.min(wait));
        self.consumers.looks_at.set(now.plus(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)));
        wait
    }

    /// Handles the store's events until the server ends.
    pub(crate) async fn run(self: Rc<Self>) {
        let mut expired = Instant::now();
        loop {
            let wait = self.idle_time();
            tokio::select! {
                () = self.news.notified() => {}
                () = sleep(wait) => {}
            }
            self.in_turn(|| self.turn());
            self.keep_time();
            if expired.elapsed() >= EXPIRE_EVERY {
                expired = Instant::now();
                self.registry.borrow_mut().expire(self.store.now());
                self.consumers.pull_queues.borrow_mut().forget_empty();
            }
        }
    }

    fn turn(self: &Rc<Self>) {
        self.publish_gathered();
        let Ok((wakeup, _)) = self.listener.drain() else { return };
        self.keep_promises();
        self.look_for_room();
        for token in wakeup.tokens {
            let delivery = self.deliveries.borrow().get(&token).and_then(Weak::upgrade);
            match delivery {
                Some(delivery) => delivery.pump(),
                None => self.wake(token),
            }
        }
    }
}
