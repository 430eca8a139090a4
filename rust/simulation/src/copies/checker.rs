//! Judges copies by what was committed, and by nothing that a node says of itself.

use std::collections::BTreeSet;

use delaymq_core::replication::{NodeId, Register, RoleName};
use delaymq_core::units::Sequence;

use super::host::Host;
use super::machine::{Answered, Machine, Mark, Marks};

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Facts that were committed.
    pub committed: u64,
    /// Claims that were won.
    pub claims: u64,
    /// Changes of the set.
    pub changes: u64,
    /// Changes of `min_copies`.
    pub demands: u64,
    /// Crashes.
    pub crashes: u64,
    /// Nodes that an operator removed.
    pub removed: u64,
    /// Sets whose machines were all lost.
    pub lost: u64,
    /// Complete nodes that went on after that.
    pub promoted: u64,
    /// Nodes that had followed such a set further than the node that went on.
    pub diverged: u64,
    /// Promises in whose writing a machine ended.
    pub torn_promises: u64,
    /// Restored registers with which a node went on that an operator confirmed.
    pub confirmed: u64,
    /// Primaries that stepped down because they were not fit.
    pub unfit: u64,
    /// Snapshots that took the place of a copy's log.
    pub snapshots: u64,
    /// Files of loads that a copy lacked and got.
    pub files: u64,
    /// Histories that came to rest at their end.
    pub rested: u64,
    /// What users were answered.
    pub answered: Answered,
}

impl Counts {
    /// Adds `more`.
    pub fn add(&mut self, more: Self) {
        self.committed += more.committed;
        self.claims += more.claims;
        self.changes += more.changes;
        self.demands += more.demands;
        self.crashes += more.crashes;
        self.removed += more.removed;
        self.lost += more.lost;
        self.promoted += more.promoted;
        self.diverged += more.diverged;
        self.confirmed += more.confirmed;
        self.torn_promises += more.torn_promises;
        self.unfit += more.unfit;
        self.snapshots += more.snapshots;
        self.files += more.files;
        self.rested += more.rested;
        self.answered.add(more.answered);
    }
}

/// See the module.
pub(super) struct Checker {
    /// Where the log of everything that was committed may end.
    truth: Marks,
    /// The sequence after the last fact that was answered as stored.
    answered: Sequence,
    /// Each `min_copies` that the register has held.
    min_copies: BTreeSet<usize>,
    pub(super) counts: Counts,
    pub(super) violations: Vec<String>,
}

impl Checker {
    pub(super) fn new(min_copies: usize) -> Self {
        let (truth, answered, violations) = (Marks::default(), Sequence(1), Vec::new());
        let min_copies = [min_copies].into();
        Self { truth, answered, min_copies, counts: Counts::default(), violations }
    }

    /// True if this node answers a publish that is on so many copies as stored.
    pub(super) fn is_enough<M: Machine>(&self, host: &Host<M>, copies: usize) -> bool {
        host.min_copies().is_some_and(|min_copies| copies >= min_copies && self.min_copies.contains(&min_copies))
    }

    pub(super) fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }

    pub(super) fn blame(&mut self, words: String) {
        self.violations.push(words);
    }

    /// No two nodes have other facts in one place unless something is wrong.
    pub(super) fn alarm(&mut self, by: NodeId, of: NodeId) {
        self.blame(format!("{} says that the log of {} is another", by.0[7], of.0[7]));
    }

    pub(super) fn registered(&mut self, before: &Register, now: &Register) {
        self.counts.claims += u64::from(before.epoch != now.epoch);
        self.counts.changes += u64::from(before.sync != now.sync);
        self.counts.demands += u64::from(before.min_copies != now.min_copies);
        self.min_copies.insert(now.min_copies);
    }

    /// A node says that everything before `end` is committed. Of a replica, `copies` is 0: it may only repeat it.
    pub(super) fn committed<M: Machine>(&mut self, host: &Host<M>, end: Sequence, copies: usize) {
        let (known, id, marks) = (self.truth.end(), host.id.0[7], host.machine.marks());
        if marks.chain_at(end.min(known)) != self.truth.chain_at(end.min(known)) {
            self.blame(format!("{id} commits other facts before {end} than were committed"));
        } else if end > known && copies == 0 {
            self.blame(format!("{id} follows to {end} what nobody committed"));
        } else if end > marks.end() {
            self.blame(format!("{id} commits to {end} what is not in its log"));
        } else {
            for mark in marks.between(known, end) {
                self.truth.push(*mark);
                self.counts.committed += 1;
                if self.is_enough(host, copies) && mark.is_awaited {
                    self.answered = mark.end;
                }
            }
        }
    }

    /// This node goes on without the set, from where its log agrees with what was committed.
    pub(super) fn continue_from<M: Machine>(&mut self, host: &Host<M>) {
        self.counts.promoted += 1;
        let (marks, durable) = (host.machine.marks(), host.machine.durable());
        let agrees = |mark: &&Mark| mark.end <= durable && marks.chain_at(mark.end) == Some(mark.chain);
        let end = self
            .truth
            .between(Sequence(1), self.truth.end())
            .filter(agrees)
            .last()
            .map_or(Sequence(1), |mark| mark.end);
        if end < self.answered {
            self.blame(format!("{} is promoted without what was answered before {}", host.id.0[7], self.answered));
        }
        self.truth.cut(end);
    }

    /// Each node of the set has what was committed on its disk, and each complete node what was answered as stored.
    pub(super) fn judge<M: Machine>(&mut self, value: &Register, hosts: &[Host<M>]) {
        for host in hosts {
            let end = match (value.sync.contains(&host.id), value.complete.contains(&host.id)) {
                (true, _) => self.truth.end(),
                (false, true) => self.answered,
                (false, false) => continue,
            };
            let (durable, marks) = (host.machine.durable(), host.machine.marks());
            let has_all = durable >= end && marks.chain_at(end) == self.truth.chain_at(end);
            if !has_all {
                let id = host.id.0[7];
                self.blame(format!("{id} is in the set and lacks something committed before {end}, it has {durable}"));
                return;
            }
        }
    }

    /// True if one node serves, and all have the same log, which is committed.
    pub(super) fn are_equal<M: Machine>(&self, hosts: &[Host<M>]) -> bool {
        let serves = |host: &&Host<M>| host.node.as_ref().is_some_and(|node| node.role() == RoleName::Primary);
        let (end, chain) = (self.truth.end(), self.truth.chain_at(self.truth.end()));
        let is_equal = |host: &Host<M>| {
            let marks = host.machine.marks();
            (marks.end(), marks.chain_at(end)) == (end, chain)
        };
        hosts.iter().filter(serves).count() == 1 && hosts.iter().all(is_equal)
    }

    /// True if each node knows that all of it is committed.
    pub(super) fn all_know<M: Machine>(&self, hosts: &[Host<M>]) -> bool {
        hosts.iter().all(|host| host.committed() == self.truth.end() && host.machine.is_at_rest())
    }
}
