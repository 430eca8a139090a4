//! The jobs of a session: they run one after the other, in the order of their arrival, even if one waits for the disk.

use std::collections::{BTreeMap, VecDeque};

use delaymq_core::error::{Error, Result};
use delaymq_core::planted::{Planted, is_on};
use delaymq_core::queues::pull_log::PullLog;
use delaymq_core::store::{Delivery, Outcome};
use delaymq_core::units::{PullOffset, Sequence};
use delaymq_core::wire::frame::answer;
use delaymq_core::wire::qmq::pull::put_pulled;

use super::pull_answers::{Gathered, Looked};
use super::{Attached, Job, LastingOptions, Name, Owed, Pulling, Session, Standing};
use crate::connected::server::Server;
use crate::connected::server::qmq::put_for;
use crate::connected::server::steps::{Asker, Told};
use crate::node::{Node, Settled};

/// How often, in one lease, the store is told that a broadcast consumer is there.
const RENEWALS: u64 = 16;

/// The result of working on a job.
enum Worked {
    Done,
    /// The job waits, and is tried again.
    Waits(Job),
    /// The consumer has ended. Its other jobs go to the next consumer of its name.
    Over,
}

impl Server {
    /// Works on all sessions as far as they can go.
    pub(crate) fn work(&mut self, node: &mut Node) -> Result<()> {
        self.lasting.go_on();
        let numbers: Vec<u64> = self.lasting.sessions.keys().copied().collect();
        for number in numbers {
            let Some(mut session) = self.lasting.sessions.remove(&number) else { continue };
            let worked = self.work_session(node, number, &mut session);
            let is_over = matches!(worked, Ok(true));
            if is_over {
                self.lasting.forget(number, &session);
                self.begin_over(session)?;
            } else {
                self.lasting.sessions.insert(number, session);
            }
            worked?;
        }
        Ok(())
    }

    /// Hands the jobs of a consumer that has ended to the consumer that has its name now.
    fn begin_over(&mut self, session: Session) -> Result<()> {
        for job in session.jobs {
            match job {
                Job::Pull(pulling) => {
                    let number = self.lasting.session(session.name.clone(), false);
                    if session.is_broadcast {
                        self.lasting.become_broadcast(number);
                    }
                    self.lasting.leases.begin_wait(number, self.now);
                    self.lasting.hear(number, self.now);
                    self.push_job(number, Job::Pull(pulling));
                }
                Job::Acknowledge { asker, offsets } => match self.lasting.known(&session.name) {
                    Some(number) => self.push_job(number, Job::Acknowledge { asker, offsets }),
                    None => self.code(asker, answer::SUCCESS)?,
                },
                Job::End => {}
            }
        }
        Ok(())
    }

    pub(in super::super) fn push_job(&mut self, number: u64, job: Job) {
        if let Some(session) = self.lasting.sessions.get_mut(&number) {
            session.jobs.push_back(job);
        }
    }

    /// True if the session is over.
    fn work_session(&mut self, node: &mut Node, number: u64, session: &mut Session) -> Result<bool> {
        loop {
            if let Some(end) = session.ending {
                // Until the end is durable, a crash undoes it: no answer may say before that the consumer is gone.
                return Ok(is_on(Planted::ForgottenBeforeEnd) || node.commits().visible().sequence >= end);
            }
            if let Some(owed) = session.owed.take() {
                let is_end = owed.is_end;
                if !self.settle(node, session, owed)? {
                    return Ok(false);
                }
                if is_end {
                    session.ending = Some(session.settled);
                    continue;
                }
            }
            let Some(job) = session.jobs.pop_front() else { return Ok(false) };
            let worked = if attach(node, session, &job, self.lasting.options.in_flight_min)? {
                match job {
                    Job::Pull(pulling) => self.serve_pull(node, number, session, pulling)?,
                    Job::Acknowledge { asker, offsets } => {
                        self.serve_acknowledgement(node, number, session, (asker, offsets))?
                    }
                    Job::End => end(node, session)?,
                }
            } else {
                Worked::Waits(job)
            };
            match worked {
                Worked::Done => {}
                Worked::Over => return Ok(true),
                Worked::Waits(job) => {
                    session.jobs.push_front(job);
                    return Ok(false);
                }
            }
        }
    }

    fn serve_pull(
        &mut self,
        node: &mut Node,
        number: u64,
        session: &mut Session,
        mut pulling: Pulling,
    ) -> Result<Worked> {
        if let Some(hastened) = pulling.hastened
            && node.owner().applied() < hastened
        {
            return Ok(Worked::Waits(Job::Pull(pulling)));
        }
        let Standing::Attached(attached) = &mut session.standing else { return Ok(Worked::Waits(Job::Pull(pulling))) };
        let group = attached.place.0;
        let name = &session.name;
        if self.registry.may_not_pull(&name.consumer, &name.subject, &name.group) {
            self.lasting.wake_next(group);
            return self.hold(node, number, pulling, None).map(|()| Worked::Done);
        }
        let Some(peer) = self.peers.get(&pulling.asker.link) else {
            // The connection is gone: the news that woke this pull goes to the next one.
            self.lasting.leases.end_wait(number, self.now);
            self.lasting.wake_next(group);
            return Ok(Worked::Done);
        };
        renew(node, session, &self.lasting.options)?;
        let Standing::Attached(attached) = &mut session.standing else { return Ok(Worked::Waits(Job::Pull(pulling))) };
        let news = self.lasting.news_of(group);
        let options = self.lasting.options;
        let Looked { gathered, filtered } =
            attached.look(node, &mut pulling, &options, peer.connection.answer_bytes_max())?;
        if !filtered.is_empty() {
            session.owed = Some(Owed { done: filtered, passed_over: Vec::new(), asker: None, is_end: false });
        }
        let may_wait = pulling.deadline > node.reading().now;
        match gathered {
            Gathered::Run(first, messages) => {
                self.lasting.leases.end_wait(number, self.now);
                self.pulled(&pulling, first, &messages)?;
                self.lasting.wake_next(group);
                return Ok(Worked::Done);
            }
            Gathered::Judged => return Ok(Worked::Waits(Job::Pull(pulling))),
            Gathered::Gone => session.standing = Standing::Detached,
            Gathered::Nothing if session.owed.is_some() => {}
            Gathered::Soon if !may_wait && pulling.hastened.is_none() => {
                pulling.hastened = Some(node.commits().next_sequence());
            }
            Gathered::Nothing | Gathered::Soon if self.lasting.news_of(group) == news || !may_wait => {
                return self.hold(node, number, pulling, Some(group)).map(|()| Worked::Done);
            }
            Gathered::Nothing | Gathered::Soon => {}
        }
        if session.owed.is_some() {
            session.jobs.push_front(Job::Pull(pulling));
            return Ok(Worked::Done);
        }
        Ok(Worked::Waits(Job::Pull(pulling)))
    }

    fn pulled(&mut self, pulling: &Pulling, first: PullOffset, messages: &[Vec<u8>]) -> Result<()> {
        self.answer(pulling.asker, |out| {
            put_pulled(out, first);
            messages.iter().try_for_each(|message| put_for(out, message, pulling.version))
        })
    }

    fn serve_acknowledgement(
        &mut self,
        node: &mut Node,
        number: u64,
        session: &mut Session,
        (asker, (first, last)): (Asker, (PullOffset, PullOffset)),
    ) -> Result<Worked> {
        let Standing::Attached(attached) = &mut session.standing else {
            return Ok(Worked::Waits(Job::Acknowledge { asker, offsets: (first, last) }));
        };
        if is_gone(node, attached) {
            // The deliveries are looked up again, and the client acknowledges again.
            session.standing = Standing::Detached;
            session.jobs.extend(self.lasting.take_pulls_of(number));
            return self.code(asker, answer::BROKER_ERROR).map(|()| Worked::Done);
        }
        let settled = attached.log.acknowledge(first, last);
        if settled.done.is_empty() {
            // It was done before, and may not be visible yet.
            self.told_when_visible(Told::done(asker, session.settled));
            return Ok(Worked::Done);
        }
        let (mut done, mut passed_over) = (settled.done, settled.passed_over);
        if session.is_broadcast {
            done.start = passed_over.first().map_or(done.start, |(offset, _)| *offset);
            passed_over.clear();
        }
        let passed_over = passed_over.into_iter().map(|(_, delivery)| delivery).collect();
        session.owed = Some(Owed { done: vec![done], passed_over, asker: Some(asker), is_end: false });
        Ok(Worked::Done)
    }

    /// False if the log has no room for the settlement yet.
    fn settle(&mut self, node: &mut Node, session: &mut Session, owed: Owed) -> Result<bool> {
        let Standing::Attached(attached) = &session.standing else { return Ok(true) };
        if is_gone(node, attached) {
            session.standing = Standing::Detached;
            if let Some(asker) = owed.asker {
                self.code(asker, answer::BROKER_ERROR)?;
            }
            return Ok(true);
        }
        let names = (session.name.subject.as_str(), session.name.group.as_str());
        let settled = Settled {
            names,
            place: attached.place,
            done: &owed.done,
            passed_over: &owed.passed_over,
            rule: self.lasting.options.rule,
            is_end: owed.is_end,
        };
        let position = match node.settle_by_rule(&settled) {
            Ok(Some(position)) => position,
            Ok(None) | Err(Error::DiskFull) => {
                session.owed = Some(owed);
                return Ok(false);
            }
            Err(error) => {
                session.owed = Some(owed);
                return Err(error);
            }
        };
        session.settled = session.settled.max(position);
        if let Some(asker) = owed.asker {
            self.told_when_visible(Told::done(asker, position));
        }
        Ok(true)
    }
}

/// True once the consumer of a session and its deliveries are known, or if the job does not need them.
fn attach(node: &mut Node, session: &mut Session, job: &Job, block: u32) -> Result<bool> {
    loop {
        session.standing = match std::mem::replace(&mut session.standing, Standing::Detached) {
            Standing::Attached(attached) => {
                session.standing = Standing::Attached(attached);
                return Ok(true);
            }
            Standing::Detached if matches!(job, Job::End) && !(session.is_stored && exists(node, &session.name)) => {
                return Ok(true);
            }
            Standing::Detached => {
                let Session { name, .. } = session;
                let names = (name.subject.as_str(), name.group.as_str(), name.consumer.as_str());
                match node.attach_named(names, block, session.is_broadcast) {
                    Ok(Some(fact)) => {
                        session.renewed = Some(node.reading().now);
                        Standing::Attaching(fact)
                    }
                    Ok(None) | Err(Error::DiskFull) => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            Standing::Attaching(fact) => match node.take_outcome(fact) {
                Some(Outcome::Attached(group, consumer)) => {
                    session.is_stored = true;
                    Standing::CatchingUp((group, consumer), Sequence(0))
                }
                Some(other) => return Err(Error::corrupt("", 0, "a consumer", format!("{other:?}"))),
                None => {
                    session.standing = Standing::Attaching(fact);
                    return Ok(false);
                }
            },
            Standing::CatchingUp(place, Sequence(0)) => match node.send() {
                Ok(true) => Standing::CatchingUp(place, node.commits().next_sequence()),
                Ok(false) | Err(Error::DiskFull) => {
                    session.standing = Standing::CatchingUp(place, Sequence(0));
                    return Ok(false);
                }
                Err(error) => return Err(error),
            },
            Standing::CatchingUp(place, end) if node.owner().applied() < end => {
                session.standing = Standing::CatchingUp(place, end);
                return Ok(false);
            }
            Standing::CatchingUp(place, _) => match node.everything_held(place)? {
                Some((next, held)) => {
                    let again = |one: Delivery| Delivery { attempt: one.attempt.saturating_add(1), ..one };
                    let held: BTreeMap<_, _> = held.into_iter().map(|one| (one.offset, again(one))).collect();
                    Standing::Attached(Attached { place, log: PullLog::new(next, held), unread: VecDeque::new() })
                }
                None => Standing::Detached,
            },
        };
    }
}

/// True if the store has a consumer of this name.
fn exists(node: &Node, name: &Name) -> bool {
    let state = node.owner().state();
    let group = state.subjects.number(&name.subject).and_then(|subject| state.group_named(subject, &name.group));
    let group = group.and_then(|group| state.groups.get(&group));
    group.is_some_and(|group| group.consumers.named(&name.consumer, true).is_some())
}

/// Tells the store now and then that a broadcast consumer is there.
fn renew(node: &mut Node, session: &mut Session, options: &LastingOptions) -> Result<()> {
    let Standing::Attached(attached) = &session.standing else { return Ok(()) };
    let (now, every_ms) = (node.reading().now, options.broadcast_lease_ms / RENEWALS);
    let is_fresh = session.renewed.is_some_and(|renewed| now.since(renewed) < every_ms);
    if !session.is_broadcast || is_fresh || is_gone(node, attached) {
        return Ok(());
    }
    let Session { name, .. } = session;
    match node.attach_named((&name.subject, &name.group, &name.consumer), 0, true) {
        Ok(told) => session.renewed = told.map(|_| now).or(session.renewed),
        Err(Error::DiskFull) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

fn is_gone(node: &Node, attached: &Attached) -> bool {
    let group = node.owner().state().groups.get(&attached.place.0);
    group.is_none_or(|group| !group.consumers.contains_key(&attached.place.1))
}

/// Ends a consumer whose lease is over. All its deliveries go on by the rule.
fn end(node: &mut Node, session: &mut Session) -> Result<Worked> {
    let Standing::Attached(attached) = &session.standing else { return Ok(Worked::Over) };
    if is_gone(node, attached) {
        return Ok(Worked::Over);
    }
    // Earlier decisions must be applied first.
    if !matches!(node.send(), Ok(true)) || node.owner().applied() < node.commits().next_sequence() {
        return Ok(Worked::Waits(Job::End));
    }
    let Some((_, passed_over)) = node.everything_held(attached.place)? else { return Ok(Worked::Over) };
    session.owed = Some(Owed { done: Vec::new(), passed_over, asker: None, is_end: true });
    Ok(Worked::Done)
}
