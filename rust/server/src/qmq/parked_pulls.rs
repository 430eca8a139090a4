//! Parked pulls and leases: carries out what the core decides about both.

use std::collections::HashSet;
use std::rc::Rc;

use delaymq_core::queues::held_pulls::HeldPull;
use delaymq_core::units::Millis;
use delaymq_core::wire::frame::answer;

use delaymq_engine::NamedConsumerListed;

use crate::qmq::consumers::Name;
use crate::qmq::pull::PendingPull;
use crate::qmq::pull_queues::PullQueue;
use crate::qmq::session::{Job, Session};
use crate::server_state::ServerState;

impl ServerState {
    /// Registers the consumers that the store has from an earlier run. Their leases begin now; that of a broadcast
    /// consumer began when the store was last told of it.
    pub(crate) fn take_in(&self, listed: Vec<NamedConsumerListed>) {
        for NamedConsumerListed { subject, group, consumer, is_broadcast, seen, .. } in listed {
            let name = Name { subject, group, consumer };
            let Some(session) = self.consumers.session(name, self.number(), true) else { continue };
            if is_broadcast {
                session.become_broadcast();
                let silent_ms = self.store.now().since(seen);
                self.consumers.take_in_broadcast(&session, silent_ms, self.now());
            } else {
                self.consumers.hear(&session, self.now());
            }
        }
    }

    /// Parks a pull in a queue until there may be a message, or until its time is over and it gets an empty answer.
    ///
    /// A limited number is parked apart and delays nothing. A further pull counts as a request under way, of which a
    /// connection may have so many before it is paused. An empty answer at once would only bring the next pull at once.
    pub(crate) fn hold(&self, mut request: PendingPull, pull_queue: &PullQueue) {
        let deadline = request.deadline;
        request.responder.peer().pass_room_on();
        if deadline <= self.now() || self.is_draining() {
            return request.responder.code(answer::NO_MESSAGE);
        }
        if request.apart.is_none() {
            request.apart = self.consumers.held_apart.take(request.responder.peer().address());
        }
        if !request.responder.hold(request.apart.is_some()) {
            return request.responder.code(answer::NO_MESSAGE);
        }
        let owner = self.number();
        let PullQueue { group, subject, .. } = *pull_queue;
        let held = self.consumers.held.borrow_mut().hold(HeldPull { owner, subject, group, deadline });
        let Some(id) = held else { return request.responder.code(answer::NO_MESSAGE) };
        request.responder.peer().held.borrow_mut().insert(owner);
        self.consumers.pulls.borrow_mut().insert(owner, (id, Box::new(request)));
        self.look_by(deadline);
    }

    /// Parks a pull that can get nothing: an empty answer at once would bring the next pull at once.
    pub(crate) fn refuse(&self, request: PendingPull) {
        self.hold(request, &PullQueue::without_news());
    }

    /// There is something new under this token: the pulls that wait for it are tried again.
    pub(crate) fn wake(self: &Rc<Self>, token: u64) {
        let pull_queue = self.consumers.pull_queues.borrow().by_token(token);
        if let Some(pull_queue) = pull_queue {
            pull_queue.add_news();
            self.wake_next(&pull_queue);
        }
    }

    /// There may be more for a queue: its next pull is tried again.
    pub(crate) fn wake_next(self: &Rc<Self>, pull_queue: &PullQueue) {
        let mut woken = Vec::new();
        self.consumers.held.borrow_mut().wake_group(pull_queue.group, &mut woken);
        for pull in woken {
            self.go_on(pull.owner);
        }
    }

    /// The state behind a queue has changed: all its pulls are tried again.
    pub(crate) fn wake_all(self: &Rc<Self>, pull_queue: &PullQueue) {
        pull_queue.add_news();
        let mut woken = Vec::new();
        loop {
            let before = woken.len();
            self.consumers.held.borrow_mut().wake_group(pull_queue.group, &mut woken);
            if woken.len() == before {
                break;
            }
        }
        for pull in woken {
            self.go_on(pull.owner);
        }
    }

    /// The consumer behind these pulls has gone: they are tried again, in whatever queue they are.
    pub(crate) fn wake_pulls_of(self: &Rc<Self>, session: &Session) {
        self.wake_pulls_of_all(&HashSet::from([session.number]));
    }

    /// The same for several consumers, in one pass.
    pub(crate) fn wake_pulls_of_all(self: &Rc<Self>, sessions: &HashSet<u64>) {
        let is_of =
            |request: &PendingPull| request.session.as_ref().is_some_and(|session| sessions.contains(&session.number));
        let pulls = self.consumers.pulls.borrow();
        let waiting: Vec<_> =
            pulls.iter().filter(|(_, (_, request))| is_of(request)).map(|(owner, (id, _))| (*owner, *id)).collect();
        drop(pulls);
        for (owner, id) in waiting {
            self.consumers.held.borrow_mut().cancel(id);
            self.go_on(owner);
        }
    }

    fn go_on(self: &Rc<Self>, owner: u64) {
        if let Some(request) = self.take(owner) {
            self.begin_again(request);
        }
    }

    /// Tries a parked pull again.
    pub(crate) fn begin_again(self: &Rc<Self>, request: PendingPull) {
        match request.session.clone() {
            Some(session) => session.run(self, Job::Pull(request)),
            None => self.refuse(request),
        }
    }

    /// Removes a pull that is not parked any more.
    fn take(&self, owner: u64) -> Option<PendingPull> {
        let (_, request) = self.consumers.pulls.borrow_mut().remove(&owner)?;
        request.responder.peer().held.borrow_mut().remove(&owner);
        Some(*request)
    }

    /// Ends these pulls of a connection that ends, with an empty answer.
    pub(crate) fn end_held(&self, owners: Vec<u64>) {
        for owner in owners {
            let taken = self.consumers.pulls.borrow_mut().remove(&owner);
            if let Some((id, request)) = taken {
                self.consumers.held.borrow_mut().cancel(id);
                request.responder.code(answer::NO_MESSAGE);
            }
        }
    }

    /// When [`Self::keep_time`] must run, at the latest.
    pub(crate) fn next_look(&self) -> Option<Millis> {
        let held = self.consumers.held.borrow_mut().next_deadline();
        let leases = self.consumers.leases.borrow().next_look();
        held.into_iter().chain(leases).min()
    }

    /// Answers the pulls whose time is over, and ends the consumers whose lease is over.
    pub(crate) fn keep_time(self: &Rc<Self>) {
        let now = self.now();
        let mut expired = Vec::new();
        self.consumers.held.borrow_mut().expire(now, &mut expired);
        for pull in expired {
            if let Some(request) = self.take(pull.owner) {
                request.responder.code(answer::NO_MESSAGE);
            }
        }
        let mut silent = Vec::new();
        self.consumers.leases.borrow_mut().expire(now, &mut silent);
        for number in silent {
            let session = self.consumers.of_number(number);
            if let Some(session) = session {
                session.run(self, Job::End);
            }
        }
    }
}
