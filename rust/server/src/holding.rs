//! Pulls that wait, and whose time has come: what the core decides over held pulls and leases is done
//! here.

use std::collections::HashSet;
use std::rc::Rc;

use delaymq_core::queues::held_pulls::HeldPull;
use delaymq_core::units::Millis;
use delaymq_core::wire::frame::answer;

use delaymq_engine::NamedConsumerListed;

use crate::consumers::Name;
use crate::desks::Desk;
use crate::hub::Hub;
use crate::pulling::Pulling;
use crate::session::{Job, Session};

impl Hub {
    /// Takes in the consumers that the store holds since an earlier run: their leases begin now.
    pub(crate) fn take_in(&self, listed: Vec<NamedConsumerListed>) {
        for NamedConsumerListed { subject, group, consumer, .. } in listed {
            let name = Name { subject, group, consumer, is_broadcast: false };
            if let Some(session) = self.consumers.session(name, self.number(), true) {
                self.consumers.leases.borrow_mut().renew(session.number, self.now());
            }
        }
    }

    /// Lets a pull wait at a desk until there is news there, or until its time is over and it is told that
    /// there is nothing.
    ///
    /// So many are set apart, and hold up nothing. One more is a request under way as any other, of which a
    /// connection has so many before it is read no further: were it told at once that there is nothing, the
    /// next one would follow at once.
    pub(crate) fn hold(&self, mut pulling: Pulling, desk: &Desk) {
        let deadline = pulling.deadline;
        pulling.asking.peer().pass_room_on();
        if deadline <= self.now() || self.is_draining() {
            return pulling.asking.code(answer::NO_MESSAGE);
        }
        if pulling.apart.is_none() {
            pulling.apart = self.consumers.held_apart.take(pulling.asking.peer().address());
        }
        if !pulling.asking.hold(pulling.apart.is_some()) {
            return pulling.asking.code(answer::NO_MESSAGE);
        }
        let owner = self.number();
        let Desk { group, subject, is_broadcast, .. } = *desk;
        let held = self.consumers.held.borrow_mut().hold(HeldPull { owner, subject, group, is_broadcast, deadline });
        let Some(id) = held else { return pulling.asking.code(answer::NO_MESSAGE) };
        pulling.asking.peer().held.borrow_mut().insert(owner);
        self.consumers.pulls.borrow_mut().insert(owner, (id, Box::new(pulling)));
        self.look_by(deadline);
    }

    /// Lets a pull wait that nothing can be given to: an answer at once would be followed by the next pull
    /// at once.
    pub(crate) fn refuse(&self, pulling: Pulling) {
        self.hold(pulling, &Desk::without_news());
    }

    /// There is news under this token: who waits for it looks again.
    pub(crate) fn wake(self: &Rc<Self>, token: u64) {
        let desk = self.consumers.desks.borrow().by_token(token);
        if let Some(desk) = desk {
            desk.add_news();
            self.wake_next(&desk);
        }
    }

    /// There may be more at a desk: the next who waits there looks again, or all of a broadcast.
    pub(crate) fn wake_next(self: &Rc<Self>, desk: &Desk) {
        let mut woken = Vec::new();
        self.consumers.held.borrow_mut().wake_group(desk.group, &mut woken);
        for pull in woken {
            self.go_on(pull.owner);
        }
    }

    /// Nothing is as it was at a desk: everybody there looks again.
    pub(crate) fn wake_all(self: &Rc<Self>, desk: &Desk) {
        desk.add_news();
        let mut woken = Vec::new();
        loop {
            let before = woken.len();
            self.consumers.held.borrow_mut().wake_group(desk.group, &mut woken);
            if woken.len() == before {
                break;
            }
        }
        for pull in woken {
            self.go_on(pull.owner);
        }
    }

    /// What this consumer's pulls wait for is gone: they look again, at whatever desk they are.
    pub(crate) fn wake_pulls_of(self: &Rc<Self>, session: &Session) {
        self.wake_pulls_of_all(&HashSet::from([session.number]));
    }

    /// The same of several consumers, in one pass over what waits.
    pub(crate) fn wake_pulls_of_all(self: &Rc<Self>, sessions: &HashSet<u64>) {
        let is_of =
            |pulling: &Pulling| pulling.session.as_ref().is_some_and(|session| sessions.contains(&session.number));
        let pulls = self.consumers.pulls.borrow();
        let waiting: Vec<_> =
            pulls.iter().filter(|(_, (_, pulling))| is_of(pulling)).map(|(owner, (id, _))| (*owner, *id)).collect();
        drop(pulls);
        for (owner, id) in waiting {
            self.consumers.held.borrow_mut().cancel(id);
            self.go_on(owner);
        }
    }

    fn go_on(self: &Rc<Self>, owner: u64) {
        if let Some(pulling) = self.take(owner) {
            self.begin_again(pulling);
        }
    }

    /// A pull that waited looks again.
    pub(crate) fn begin_again(self: &Rc<Self>, pulling: Pulling) {
        match pulling.session.clone() {
            Some(session) => session.run(self, Job::Pull(pulling)),
            None => self.refuse(pulling),
        }
    }

    /// Takes a pull out that is not held any more.
    fn take(&self, owner: u64) -> Option<Pulling> {
        let (_, pulling) = self.consumers.pulls.borrow_mut().remove(&owner)?;
        pulling.asking.peer().held.borrow_mut().remove(&owner);
        Some(*pulling)
    }

    /// These pulls of one connection wait no longer, because that ends: they are told that there is
    /// nothing.
    pub(crate) fn end_held(&self, owners: Vec<u64>) {
        for owner in owners {
            let taken = self.consumers.pulls.borrow_mut().remove(&owner);
            if let Some((id, pulling)) = taken {
                self.consumers.held.borrow_mut().cancel(id);
                pulling.asking.code(answer::NO_MESSAGE);
            }
        }
    }

    /// When [`Self::keep_time`] is to be called at the latest.
    pub(crate) fn next_look(&self) -> Option<Millis> {
        let held = self.consumers.held.borrow_mut().next_deadline();
        let leases = self.consumers.leases.borrow().next_look();
        held.into_iter().chain(leases).min()
    }

    /// Answers the pulls that have waited long enough, and ends the consumers that were silent for too
    /// long.
    pub(crate) fn keep_time(self: &Rc<Self>) {
        let now = self.now();
        let mut expired = Vec::new();
        self.consumers.held.borrow_mut().expire(now, &mut expired);
        for pull in expired {
            if let Some(pulling) = self.take(pull.owner) {
                pulling.asking.code(answer::NO_MESSAGE);
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
