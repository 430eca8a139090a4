//! The state of a connection that its threads share, under one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::sync::{Arc, Condvar};

use delaymq_core::wire::client::caller::CallerLimits;

use crate::failure::Failure;
use crate::nodes::{Next, Nodes};
use crate::session::{Outcome, Report, Session, SubscriptionId};
use crate::transport::socket::send;
use crate::transport::waiter::{Slot, Waiter};
use crate::transport::wakeup::Wakeup;

/// The thread that reads the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// None now.
    Nobody,
    /// The background thread.
    Background,
    /// A thread that waits for an answer or for messages.
    Caller,
}

/// The events that the thread which polls the socket waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Poll {
    /// It wakes at this time by itself.
    pub(super) until_ms: u64,
    /// It waits until the socket accepts bytes as well.
    pub(super) writes: bool,
}

/// Answers and news for an event loop.
#[derive(Debug)]
pub(super) struct LoopEvents {
    pub(super) wakeup: Wakeup,
    pub(super) answers: Vec<(u64, Outcome)>,
    pub(super) news: BTreeSet<SubscriptionId>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct State {
    pub(super) session: Session<Waiter>,
    pub(super) nodes: Nodes,
    pub(super) socket: Option<Arc<TcpStream>>,
    /// The socket accepts no bytes now.
    pub(super) is_blocked: bool,
    pub(super) reader: Reader,
    /// The poll of the thread that polls now.
    pub(super) poll: Option<Poll>,
    /// The slot of the caller that reads the socket.
    pub(super) leader: Option<Arc<Slot>>,
    /// Wakes the thread that polls.
    pub(super) wakeup: Wakeup,
    /// Until when the background thread sleeps: `None` while it does not, `u64::MAX` until it is woken.
    pub(super) sleeps_until_ms: Option<u64>,
    /// Waiting threads, of which one reads the socket when the reader leaves.
    pub(super) followers: Vec<Arc<Slot>>,
    /// Threads that wait for news of a subscription.
    pub(super) watchers: BTreeMap<SubscriptionId, Vec<Arc<Slot>>>,
    /// The number of waits of callers so far.
    pub(super) waits: u64,
    /// Events of the loop, for a client of an event loop.
    pub(super) loop_events: Option<LoopEvents>,
    /// Reports that the background thread passes on.
    pub(super) reports: Vec<Report>,
    /// The number of connections that were lost, or could not be made.
    pub(super) lost_count: u64,
    /// The background thread has ended.
    pub(super) is_over: bool,
    /// The buffer of the reader.
    pub(super) buffer: Vec<u8>,
}

impl State {
    /// True if a waiting thread may read the socket.
    pub(super) fn may_lead(&self) -> bool {
        self.reader == Reader::Nobody && self.socket.is_some() && self.loop_events.is_none()
    }

    /// Lets another thread read the socket, after the reader has left: one that waits, or the background thread.
    pub(super) fn hand_over(&mut self, background: &Condvar) {
        if self.reader != Reader::Nobody {
            return;
        }
        if let Some(follower) = self.followers.iter().find(|slot| !slot.is_ready()).filter(|_| self.may_lead()) {
            follower.changed.notify_one();
        } else if self.sleeps_until_ms == Some(u64::MAX) {
            background.notify_one();
        }
    }

    /// Passes on what a call or received bytes have changed: writes the output, completes waiters, and wakes the
    /// threads that have something to do.
    pub(super) fn pass_on(&mut self, background: &Condvar) {
        if let Some(socket) = self.socket.as_deref().filter(|_| !self.is_blocked) {
            self.is_blocked = send(socket, &mut self.session);
        }
        self.deliver();
        self.reports.append(&mut self.session.take_reports());
        let due_ms = self.session.next_due_ms().unwrap_or(u64::MAX);
        let has_reports = !self.reports.is_empty();
        if let Some(poll) = self.poll
            && (due_ms < poll.until_ms || (self.is_blocked && !poll.writes) || self.has_ended())
        {
            self.wakeup.wake();
        }
        if has_reports && self.reader == Reader::Background {
            self.wakeup.wake();
        }
        // A thread that polls runs the timers itself.
        if self.sleeps_until_ms.is_some_and(|until| {
            has_reports || self.has_ended() || (self.poll.is_none() && due_ms < until && until < u64::MAX)
        }) {
            background.notify_one();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.session.check().is_err()
    }

    fn deliver(&mut self) {
        for (waiter, outcome) in self.session.take_completed() {
            match (waiter, &mut self.loop_events) {
                (Waiter::Thread(slot), _) => {
                    slot.fill(outcome);
                    wake_leader(&slot, self.leader.as_ref(), &mut self.wakeup);
                }
                (Waiter::Loop(token), Some(events)) => {
                    events.answers.push((token, outcome));
                    events.wakeup.wake();
                }
                (Waiter::Loop(_), None) => {}
            }
        }
        for id in self.session.take_news() {
            self.notify(id);
        }
    }

    /// There is news of a subscription.
    pub(super) fn notify(&mut self, id: SubscriptionId) {
        for slot in self.watchers.get(&id).into_iter().flatten() {
            slot.notify();
            wake_leader(slot, self.leader.as_ref(), &mut self.wakeup);
        }
        if let Some(events) = &mut self.loop_events {
            events.news.insert(id);
            events.wakeup.wake();
        }
    }

    /// Begins a connection to the current node, which may take so long to answer the hello.
    pub(super) fn connect(&mut self, socket: TcpStream, hello_ms: u64, now_ms: u64, background: &Condvar) {
        self.socket = Some(Arc::new(socket));
        self.nodes.connected(now_ms);
        self.session.connects_to(&self.nodes.current().shown, hello_ms);
        self.session.begin(CallerLimits::default(), now_ms);
        self.pass_on(background);
    }

    /// Ends the connection.
    pub(super) fn disconnect(&mut self, cause: &Failure, now_ms: u64, background: &Condvar) {
        self.socket = None;
        self.is_blocked = false;
        self.lost_count = self.lost_count.saturating_add(1);
        match self.nodes.ended(self.session.is_ready(), cause, now_ms) {
            Next::AtOnce => self.session.lost_one(cause, now_ms),
            Next::AfterDelay(cause) => self.session.lost(&cause, now_ms),
        }
        self.pass_on(background);
        background.notify_one();
    }
}

/// Wakes the caller that polls, if this is its slot: another thread has filled it.
fn wake_leader(slot: &Arc<Slot>, leader: Option<&Arc<Slot>>, wakeup: &mut Wakeup) {
    if leader.is_some_and(|leader| Arc::ptr_eq(leader, slot)) {
        wakeup.wake();
    }
}
