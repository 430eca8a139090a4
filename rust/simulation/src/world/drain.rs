//! The end of a history: the faults stop, consumers consume everything, and the result is checked.

use super::World;
use crate::node::Node;

/// Rounds of a drain, in addition to some for each fact. Messages that still wait after them count as lost.
const ROUNDS_MAX: u64 = 400;
/// Rounds without anything new before the drain is over.
const QUIET_ROUNDS: usize = 4;

/// Percent of the checkpoints of the drain after which the machine ends.
const DRAIN_CRASH_PERCENT: u64 = 20;

/// Checkpoints after which no file is kept for an earlier checkpoint.
const CHECKPOINTS: usize = 4;

impl World {
    /// Drains the store and checks it.
    pub(super) fn drain(&mut self) {
        if !self.is_sound() {
            return;
        }
        self.plan.crash_in_open_percent = 0;
        self.plan.fault_in_open_percent = 0;
        self.plan.wrong_boots = false;
        self.disk.storage().heal();
        self.check_refusal();
        if self.plan.restart_before_drain || !self.hands_wait.is_empty() {
            self.crash();
        }
        self.operation += 1;
        self.oracle.begin_operation(self.operation);
        self.end_all_series();
        let rounds_max = self.drain_rounds_max();
        let (mut quiet, mut rounds) = (0, 0_u64);
        while self.is_sound() && quiet < QUIET_ROUNDS && rounds < rounds_max {
            rounds += 1;
            quiet = if self.drain_round() { 0 } else { quiet + 1 };
        }
        if quiet < QUIET_ROUNDS && self.is_sound() {
            self.oracle.blame("the drain does not come to an end".to_owned());
        }
        self.look_at_all_dead_letters();
        if self.is_sound() {
            self.compare();
            self.oracle.check_drained();
        }
        if self.is_sound() && self.oracle.has_dead_letters() {
            self.retire();
            self.look_at_all_dead_letters();
        }
        if self.is_sound() {
            self.leave();
        }
    }

    /// Checks that messages are refused exactly while less space is free than the mark.
    pub(super) fn check_refusal(&mut self) {
        let Some(node) = &mut self.node else { return };
        node.look_at_room();
        let refuses = node.commits().free_room().refusal().is_some();
        let Ok(free_bytes) = self.disk.shared().free_bytes() else { return };
        let usable_bytes = free_bytes.saturating_add(node.commits().spare_bytes(0));
        if refuses != (usable_bytes < self.plan.node.marks.refuse_bytes) {
            self.oracle.blame(format!("with {free_bytes} bytes free, messages are refused: {refuses}"));
        }
    }

    /// A consumer that may hold one message takes one in a round or two, and there are no more messages than facts. The
    /// users may know of none of the messages.
    fn drain_rounds_max(&self) -> u64 {
        let facts = self.node.as_ref().map_or(0, |node| node.commits().next_sequence().0);
        ROUNDS_MAX.saturating_add(facts.saturating_mul(4))
    }

    /// Lets retention remove the finished messages: only the dead letters are left.
    fn retire(&mut self) {
        for _ in 0..CHECKPOINTS {
            self.crash();
            let kept_ms = self.plan.node.owner.keep_finished_ms.max(self.plan.node.kept_apart.keep_ms);
            self.clock.advance(kept_ms.saturating_add(1));
            if let Some(node) = &mut self.node {
                node.release_clock();
            }
            self.settle();
            self.call("checkpoint", Node::checkpoint);
        }
    }

    fn look_at_all_dead_letters(&mut self) {
        for index in 0..self.handles.len() {
            self.look_at_dead_letters(index);
        }
    }

    /// True if something happened.
    fn drain_round(&mut self) -> bool {
        let now = self.clock.read().wall;
        let next = self.dues.range(now..).next().copied();
        if let Some(due) = next {
            self.clock.advance(due.since(now).saturating_add(1));
        } else {
            self.clock.advance(1_000);
        }
        // If the wall clock was set back by decades, waiting for each due time may reach the end of simulated time.
        let has_passed = self.clock.read().wall > now;
        if let Some(node) = &mut self.node {
            node.release_clock();
        }
        let before = (self.oracle.counts(), self.crashes);
        for _ in 0..3 {
            self.prepare();
            self.step();
            self.settle();
        }
        for index in 0..self.handles.len() {
            if self.plan.redrives_at_the_end {
                self.redrive(index, 100);
                self.settle();
            }
            self.subscribe(index);
            self.settle();
            self.subscribe(index);
            self.settle();
            self.pull(index, 1_000);
            self.collect();
            self.settle();
            if self.plan.operator_percent > 0 && self.chance.percent(20) {
                self.put_away(index);
            }
            self.acknowledge(index, 100);
            self.settle();
        }
        if next.is_some() && self.plan.drain_checkpoint_percent > 0 {
            self.checkpoint_while_draining();
        }
        (next.is_some() && has_passed) || before != (self.oracle.counts(), self.crashes)
    }

    /// Makes a checkpoint while messages wait, so that space is given back. Sometimes the machine ends after it.
    fn checkpoint_while_draining(&mut self) {
        if !self.chance.percent(self.plan.drain_checkpoint_percent) {
            return;
        }
        self.call("checkpoint", Node::checkpoint);
        self.collect();
        if self.chance.percent(DRAIN_CRASH_PERCENT) {
            self.crash();
        }
    }

    /// Writes, syncs and applies everything.
    pub(super) fn settle(&mut self) {
        let now = self.clock.read();
        let Some(node) = &mut self.node else { return };
        node.look(now);
        let committed = node.send().and_then(|_| node.commit());
        // A batch that was written on its own may still wait for its sync.
        let hidden = node.commits().visible() < node.commits().written_mark();
        let synced = committed.and_then(|()| if hidden { node.sync() } else { Ok(()) });
        let result = synced.and_then(|()| node.apply(usize::MAX).map(drop));
        self.survive("drain", result);
        self.collect();
    }

    /// Closes, checks every byte, opens, and compares once more.
    fn leave(&mut self) {
        if self.close_node() {
            self.verify();
            self.crash();
        }
    }
}
