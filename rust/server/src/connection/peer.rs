//! One connection: its state machine, its subscriptions, and the task that moves its bytes.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use delaymq_core::error::Result;
use delaymq_core::planted::failpoint::{Failpoint, reached};
use delaymq_core::wire::connection::{Asked, Connection, Ending, RequestId};
use delaymq_core::wire::extension::errors::RemoteError;
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::quota::admission::{Admission, Standing, admission};
use delaymq_core::wire::quota::unfinished::Borrower;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::access::control::Verdict;
use crate::access::network::counted;
use crate::connection::quota::ConnectionSlot;
use crate::connection::sockets::ready;
use crate::requests::responder::Responder;
use crate::server_state::ServerState;
use crate::subscriptions::subscription_delivery::SubscriptionDelivery;
use answer_room::Answering;
use transfer::is_closed_there;

mod answer_room;
mod memory_account;
mod transfer;

pub(crate) use memory_account::MemoryReservation;

/// Requests that are served before other connections have their turn.
const TURN_REQUESTS: usize = 64;
/// How often the server checks that a peer that it does not read is still there.
const LOOK_MS: u64 = 1_000;

/// See the module.
pub(crate) struct Peer {
    me: Weak<Self>,
    state: Rc<ServerState>,
    address: IpAddr,
    /// The address by which it is counted.
    counted: IpAddr,
    standing: Cell<Standing>,
    connection: RefCell<Connection>,
    /// Its slot among the strangers.
    stranger: RefCell<Option<ConnectionSlot>>,
    /// There is something to write, or to check.
    wake: Notify,
    pub(crate) deliveries: RefCell<HashMap<u32, Rc<SubscriptionDelivery>>>,
    /// Subscriptions that are being created.
    pub(crate) subscribing: RefCell<Vec<u32>>,
    /// Parked pulls, by their numbers in the server's state.
    pub(crate) held: RefCell<HashSet<u64>>,
    /// Complete requests wait for the next turn.
    has_backlog: Cell<bool>,
    /// This connection's part of the input bytes of all.
    input_bytes: Cell<usize>,
    /// The bytes that are accounted for this connection.
    accounted_bytes: Cell<usize>,
    awaits_memory: Cell<bool>,
    answering: Answering,
    /// What it may read of a large request if its address has left many unfinished.
    borrower: RefCell<Borrower>,
    is_cut_off: Cell<bool>,
    has_left: Cell<bool>,
    /// It was closed because all peers together had too much under way.
    is_sent_away: Cell<bool>,
}

/// The result of a turn.
enum Turn {
    /// There may be more to do at once.
    Again,
    /// There is nothing to do until something happens.
    Wait,
    /// The socket may be closed.
    Finished,
}

impl Peer {
    pub(crate) fn new(
        state: &Rc<ServerState>,
        address: IpAddr,
        standing: Standing,
        stranger: Option<ConnectionSlot>,
    ) -> Rc<Self> {
        let is_admitted = standing != Standing::Stranger;
        let connection = Connection::new(state.options.connection, is_admitted, state.now());
        Rc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            state: Rc::clone(state),
            address,
            counted: counted(address),
            standing: Cell::new(standing),
            connection: RefCell::new(connection),
            stranger: RefCell::new(stranger),
            wake: Notify::new(),
            deliveries: RefCell::default(),
            subscribing: RefCell::default(),
            held: RefCell::default(),
            has_backlog: Cell::new(false),
            input_bytes: Cell::new(0),
            accounted_bytes: Cell::new(0),
            awaits_memory: Cell::new(false),
            answering: Answering::default(),
            borrower: RefCell::default(),
            is_cut_off: Cell::new(false),
            has_left: Cell::new(false),
            is_sent_away: Cell::new(false),
        })
    }

    pub(crate) fn state(&self) -> &Rc<ServerState> {
        &self.state
    }

    /// Checks the token of a hello, and admits a peer that sent the right one.
    pub(crate) fn enter(&self, token: &[u8]) -> Verdict {
        let verdict = self.state.entrance.access.enter(self.address, token, self.state.now());
        if verdict == Verdict::Right {
            self.standing.set(Standing::Trusted);
            self.connection.borrow_mut().admit();
            self.stranger.replace(None);
        }
        verdict
    }

    /// It sent a well-formed request.
    pub(crate) fn prove(&self) {
        self.connection.borrow_mut().prove();
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Requests under way, and how many of these are parked.
    pub(crate) fn under_way(&self) -> (usize, usize) {
        let connection = self.connection.borrow();
        (connection.open_count(), connection.held_count())
    }

    /// True if the peer reads no more answers.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.get()
    }

    /// Parks a request. Returns false if the connection ends. With `apart`, and if there is room for that, it delays no
    /// other request; otherwise it counts as under way.
    pub(crate) fn hold(&self, id: RequestId, apart: bool) -> bool {
        let mut connection = self.connection.borrow_mut();
        let was_paused = connection.is_paused();
        if apart && connection.hold(id) && was_paused {
            // The next request, which has arrived already, may have room now.
            self.wake.notify_one();
        }
        connection.ending().is_none()
    }

    /// A request keeps so many bytes in addition to its frame.
    pub(crate) fn keep(&self, id: RequestId, bytes: usize) {
        self.connection.borrow_mut().keep(id, bytes);
        self.account_memory();
    }

    /// The largest answer that has room now, in bytes.
    pub(crate) fn answer_bytes_max(&self) -> usize {
        self.connection.borrow().answer_bytes_max()
    }

    /// Ends what is parked once nothing more is read.
    fn end_held(&self) {
        if self.connection.borrow().ending().is_some() {
            self.end_waiting();
        }
    }

    fn end_waiting(&self) {
        let held = std::mem::take(&mut *self.held.borrow_mut());
        self.state.end_held(held.into_iter().collect());
        self.end_parked();
    }

    /// Answers a request.
    pub(crate) fn answer(
        &self,
        id: RequestId,
        code: i16,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        reached(Failpoint::AnswerBegins);
        self.wake.notify_one();
        if code != answer::SUCCESS {
            self.state.entrance.counters.failed.add(code);
        }
        let answered = self.connection.borrow_mut().answer(id, code, self.state.now(), fill);
        self.account_memory();
        answered
    }

    /// Answers one of delaymq's own requests with an error.
    pub(crate) fn answer_error(&self, id: RequestId, error: &RemoteError) {
        self.wake.notify_one();
        self.state.entrance.counters.failed.add(error.code.number());
        // Long texts of an error are shortened, and it has few details.
        drop(self.connection.borrow_mut().answer_error(id, error, self.state.now()));
    }

    /// Sends a frame that is not an answer. Returns false if there is no room now.
    pub(crate) fn push(&self, command: i16, fill: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<bool> {
        if !self.has_answer_room() {
            return Ok(false);
        }
        let pushed = self.connection.borrow_mut().push(command, self.state.now(), fill);
        // A turn of a connection that reads nothing more tries this each time. If it woke itself, its turns would never end.
        if !matches!(pushed, Ok(false)) {
            self.wake.notify_one();
        }
        self.account_memory();
        pushed
    }

    /// Reads nothing more.
    pub(crate) fn drain(&self) {
        self.connection.borrow_mut().drain(self.state.now());
        self.end_held();
        self.wake.notify_one();
    }

    /// Closes the socket. Returns true if something was under way.
    pub(crate) fn cut_off(&self) -> bool {
        self.is_cut_off.set(true);
        self.wake.notify_one();
        !self.connection.borrow().is_finished()
    }

    /// Moves bytes until the connection is over.
    pub(crate) async fn run(self: Rc<Self>, socket: TcpStream) {
        let mut ready = Ready::EMPTY;
        loop {
            // A wake-up is no event of the system, so a connection that is woken in each of its turns would keep the thread.
            consume_budget().await;
            match self.state.in_turn(|| self.turn(&socket, ready)) {
                Ok(Turn::Again) => {
                    // Other connections have their turn, however much this one sends.
                    yield_now().await;
                    ready = Ready::ALL;
                }
                Ok(Turn::Wait) => match self.wait(&socket).await {
                    Ok(found) => ready = found,
                    Err(_) => break,
                },
                Ok(Turn::Finished) | Err(_) => break,
            }
        }
        self.leave();
    }

    /// Reads once, serves complete requests, and writes what the socket takes.
    fn turn(self: &Rc<Self>, socket: &TcpStream, ready: Ready) -> io::Result<Turn> {
        if self.is_cut_off.get() {
            return Ok(Turn::Finished);
        }
        let may_read = !self.has_backlog.get() && (ready.is_readable() || ready.is_read_closed());
        self.admit_requests();
        self.notice_end(socket);
        let has_more_input = may_read && self.read(socket)?;
        self.serve();
        let was_paused = self.connection.borrow().is_paused();
        self.end_held();
        self.note_input();
        let is_blocked = self.write(socket)?;
        self.account_memory();
        self.look_again();
        if !is_blocked {
            self.pump();
        }
        let now = self.state.now();
        let has_subscriptions = !self.deliveries.borrow().is_empty() || !self.subscribing.borrow().is_empty();
        self.admit_requests();
        let mut connection = self.connection.borrow_mut();
        connection.must_speak(has_subscriptions, now);
        connection.tick(now);
        if connection.is_finished() {
            return Ok(Turn::Finished);
        }
        let has_more = connection.output_bytes() > 0 && !is_blocked;
        // Requests that have arrived already cause no event on the socket when they may be served.
        let goes_on = was_paused && !connection.is_paused();
        Ok(if has_more_input || has_more || goes_on || self.has_backlog.get() { Turn::Again } else { Turn::Wait })
    }

    fn refuse(self: &Rc<Self>, asked: &Asked) {
        let refusal = self.state.entrance.access.refused(self.address);
        Responder::new(self, asked).refused(&refusal);
    }

    fn turn_away(&self, asked: &Asked) {
        self.state.entrance.access.turned_away(self.address);
        self.connection.borrow_mut().turn_away(asked.id);
    }

    /// Serves complete requests, as many as one turn may.
    fn serve(self: &Rc<Self>) {
        self.has_backlog.set(true);
        for _ in 0..TURN_REQUESTS {
            let now = self.state.now();
            let asked = self.connection.borrow_mut().next_request(now);
            let Some(asked) = asked else { return self.has_backlog.set(false) };
            self.state.entrance.counters.requests.add(asked.frame.header.code);
            self.borrow(|borrower, book, of| borrower.finished(book, of, asked.frame.bytes(), now));
            match admission(asked.frame.header.code, self.standing.get()) {
                Admission::Serve => (self.state.serve)(Responder::new(self, &asked), asked),
                Admission::Refuse => self.refuse(&asked),
                Admission::Close => self.turn_away(&asked),
            }
        }
    }

    /// Notices that a paused peer has closed its side. If only parked requests pause it, its end would otherwise be
    /// read when they have waited long enough.
    fn notice_end(&self, socket: &TcpStream) {
        if self.connection.borrow().is_paused() && is_closed_there(socket) {
            self.end_waiting();
        }
    }

    /// Lets subscriptions send that had no room.
    fn pump(&self) {
        let starved: Vec<_> =
            self.deliveries.borrow().values().filter(|delivery| delivery.is_starved()).cloned().collect();
        for delivery in starved {
            delivery.pump();
        }
    }

    async fn wait(&self, socket: &TcpStream) -> io::Result<Ready> {
        let now = self.state.now();
        let (interest, deadline) = {
            let connection = self.connection.borrow();
            let rests_until = self.borrower.borrow().rests_until(now);
            let reads = (connection.wants_input() && rests_until.is_none()).then_some(Interest::READABLE);
            let writes = (connection.output_bytes() > 0).then_some(Interest::WRITABLE);
            let interest = match (reads, writes) {
                (Some(reads), Some(writes)) => Some(reads | writes),
                (one, other) => one.or(other),
            };
            let looks_at = (connection.ending().is_none() && connection.is_paused()).then(|| now.plus(LOOK_MS));
            let deadline = connection.deadline().into_iter().chain(rests_until).chain(looks_at).min();
            (interest, deadline)
        };
        // The deadline's millisecond has begun and must have passed.
        let until = deadline.map(|deadline| Duration::from_millis(deadline.since(now).saturating_add(1)));
        tokio::select! {
            found = ready(socket, interest) => found,
            () = self.wake.notified() => Ok(Ready::EMPTY),
            // Before the deadline ends the connection, the socket is checked once more for input.
            () = sleep(until.unwrap_or_default()), if until.is_some() => Ok(Ready::READABLE),
        }
    }

    fn leave(self: &Rc<Self>) {
        self.has_left.set(true);
        self.connection.borrow_mut().peer_closed();
        let (is_drained, unfinished_bytes) = {
            let connection = self.connection.borrow();
            (connection.ending() == Some(&Ending::Drained), connection.unfinished_bytes())
        };
        let left_bytes = if is_drained || self.is_sent_away.get() { 0 } else { unfinished_bytes };
        self.borrow(|borrower, book, of| borrower.ended(book, of, left_bytes, self.state.now()));
        self.end_held();
        self.stranger.replace(None);
        self.state.input_bytes.set(self.state.input_bytes.get().saturating_sub(self.input_bytes.replace(0)));
        self.close_memory_account();
        let cut_off = |ending: &&Ending| !matches!(ending, Ending::PeerClosed | Ending::Drained);
        if let Some(ending) = self.connection.borrow().ending().filter(cut_off) {
            // A client that was refused by its address has a notice of its own.
            if *ending == Ending::TurnedAway {
                self.state.entrance.counters.cut_off.add(ending.word());
            } else {
                self.state.entrance.cut_off(self.address, ending.word());
            }
        }
        let deliveries = std::mem::take(&mut *self.deliveries.borrow_mut());
        for delivery in deliveries.into_values() {
            delivery.leave();
        }
    }
}
