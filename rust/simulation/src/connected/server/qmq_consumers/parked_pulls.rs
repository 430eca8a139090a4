//! Parked pulls and their deadlines.

use delaymq_core::error::Result;
use delaymq_core::queues::held_pulls::HeldPull;
use delaymq_core::units::{GroupNumber, SubjectNumber};
use delaymq_core::wire::frame::answer;

use super::{Job, Lasting, Pulling};
use crate::connected::link::LinkId;
use crate::connected::server::Server;
use crate::node::Node;

/// The group of parked pulls that may get no message. It never has news.
const NOWHERE: GroupNumber = GroupNumber(0);

impl Lasting {
    /// These groups have news: the next parked pull of each looks again.
    pub(crate) fn wake(&mut self, groups: Vec<GroupNumber>) {
        for group in groups {
            let news = self.news.entry(group).or_default();
            *news = news.saturating_add(1);
            self.waking.push_back(group);
        }
    }

    pub(super) fn news_of(&self, group: GroupNumber) -> u64 {
        self.news.get(&group).copied().unwrap_or_default()
    }

    /// The next parked pull of a group looks again.
    pub(super) fn wake_next(&mut self, group: GroupNumber) {
        self.waking.push_back(group);
    }

    /// Hands the woken pulls to their sessions.
    pub(super) fn go_on(&mut self) {
        let mut woken = Vec::new();
        while let Some(group) = self.waking.pop_front() {
            self.held.wake_group(group, &mut woken);
        }
        for pull in woken {
            let Some((_, session, pulling)) = self.pulls.remove(&pull.owner) else { continue };
            if let Some(session) = self.sessions.get_mut(&session) {
                session.jobs.push_back(Job::Pull(pulling));
            }
        }
    }
}

impl Server {
    /// Parks a pull until its group has news, or without a group until its deadline.
    pub(super) fn hold(
        &mut self,
        node: &Node,
        number: u64,
        mut pulling: Pulling,
        group: Option<GroupNumber>,
    ) -> Result<()> {
        let deadline = pulling.deadline;
        let peer = self.peers.get_mut(&pulling.asker.link);
        if deadline <= self.now || !peer.is_some_and(|peer| peer.connection.hold(pulling.asker.id)) {
            return self.end_pull(number, &pulling);
        }
        pulling.is_refused = group.is_none();
        let group = group.unwrap_or(NOWHERE);
        let owner = self.lasting.number();
        let subject = node.owner().state().groups.get(&group).map_or(SubjectNumber(0), |group| group.subject);
        let pull = HeldPull { owner, subject, group, deadline };
        match self.lasting.held.hold(pull) {
            Some(held) => {
                self.lasting.pulls.insert(owner, (held, number, pulling));
                Ok(())
            }
            None => self.end_pull(number, &pulling),
        }
    }

    /// Answers a pull that there is no message.
    pub(super) fn end_pull(&mut self, number: u64, pulling: &Pulling) -> Result<()> {
        self.lasting.leases.end_wait(number, self.now);
        self.code(pulling.asker, answer::NO_MESSAGE)
    }

    /// Ends the parked pulls of a connection.
    pub(crate) fn end_held(&mut self, link: LinkId) -> Result<()> {
        let lasting = &mut self.lasting;
        let of_link = lasting.pulls.iter().filter(|(_, (_, _, pulling))| pulling.asker.link == link);
        let owners: Vec<u64> = of_link.map(|(owner, _)| *owner).collect();
        for owner in owners {
            let Some((held, number, pulling)) = self.lasting.pulls.remove(&owner) else { continue };
            self.lasting.held.cancel(held);
            self.end_pull(number, &pulling)?;
        }
        Ok(())
    }

    /// Answers the pulls whose deadline has passed, and ends the consumers whose lease is over.
    pub(crate) fn keep_time(&mut self) -> Result<()> {
        let now = self.now;
        let mut expired = Vec::new();
        self.lasting.held.expire(now, &mut expired);
        for pull in expired {
            if let Some((_, number, pulling)) = self.lasting.pulls.remove(&pull.owner) {
                self.end_pull(number, &pulling)?;
            }
        }
        let mut silent = Vec::new();
        self.lasting.leases.expire(now, &mut silent);
        for number in silent {
            if let Some(session) = self.lasting.sessions.get_mut(&number) {
                session.jobs.push_back(Job::End);
            }
        }
        Ok(())
    }
}
