//! The next operation, chosen by chance.

use super::World;
use crate::node::Node;

impl World {
    /// One operation.
    pub(super) fn act(&mut self) {
        if self.node.is_none() {
            return;
        }
        if self.chance.percent(self.plan.crash_percent) {
            return if self.chance.percent(50) { self.crash() } else { self.stop_soon() };
        }
        if self.chance.percent(self.plan.operator_percent) {
            return self.operate();
        }
        if self.chance.percent(self.plan.wild_percent) {
            return self.be_wild();
        }
        if self.plan.recurring_percent > 0 && self.chance.percent(self.plan.recurring_percent) {
            return self.go_on_with_series();
        }
        if self.plan.loads_percent > 0 && self.chance.percent(self.plan.loads_percent) {
            return self.go_on_with_loads();
        }
        match self.chance.below(100) {
            0..=16 => self.publish(),
            17..=21 => self.change_one(),
            22..=33 => self.step(),
            34..=44 => self.log_piece(),
            45..=56 => self.for_some_consumer(Self::pull_some),
            57..=63 => self.for_some_consumer(|world, index| world.acknowledge(index, 60)),
            64..=66 => self.for_some_consumer(Self::give_some_back),
            67 => self.acknowledge_stale(),
            68..=75 => self.for_some_handle(Self::subscribe),
            76 => self.for_some_consumer(Self::end_consumer),
            77..=78 => self.remove_some_group(),
            79..=87 => (0..self.plan.pieces).for_each(|_| self.checkpoint_piece()),
            88..=89 => self.prepare(),
            90 => self.witness(),
            91..=97 => self.pass_time(),
            98 => self.compare(),
            _ => self.trouble(),
        }
    }

    pub(super) fn for_some_handle(&mut self, act: impl Fn(&mut Self, usize)) {
        let index = self.chance.below(self.handles.len() as u64);
        act(self, usize::try_from(index).unwrap_or_default());
    }

    pub(super) fn for_some_consumer(&mut self, act: impl Fn(&mut Self, usize)) {
        let ready: Vec<usize> = self
            .handles
            .iter()
            .enumerate()
            .filter(|(_, handle)| handle.consumer.is_some())
            .map(|(index, _)| index)
            .collect();
        match self.chance.pick(&ready).copied() {
            Some(index) => act(self, index),
            None => self.for_some_handle(Self::subscribe),
        }
    }

    fn pull_some(&mut self, index: usize) {
        let count_max = self.chance.one_of(&[1, 3, 100]);
        self.pull(index, usize::try_from(count_max).unwrap_or(1));
    }

    fn remove_some_group(&mut self) {
        if self.plan.removes_groups {
            self.for_some_consumer(Self::end_group);
        }
    }

    /// Reads the clock and lets the store decide what is due.
    pub(super) fn step(&mut self) {
        let now = self.clock.read();
        let entries = usize::try_from(self.chance.one_of(&[1, 2, 5, 1_000])).unwrap_or(1);
        let Some(node) = &mut self.node else { return };
        let reading = node.look(now);
        for violation in node.take_clock_violations() {
            self.oracle.blame(violation);
        }
        let applied = node.owner().applied();
        let result = node.step(entries);
        self.oracle.stepped(reading, applied);
        if let Some(progress) = self.survive("step", result) {
            self.note(&format!("step at {} held {}: {progress:?}", reading.now, reading.held));
        }
    }

    /// Takes the queued facts a step towards the state, or all the way.
    pub(super) fn log_piece(&mut self) {
        let kind = self.chance.below(10);
        let now = self.clock.read();
        let Some(node) = &mut self.node else { return };
        if self.chance.percent(50) {
            node.look(now);
        }
        let result = match kind {
            0..=1 => node.write_batch().map(drop),
            2..=3 => node.sync(),
            4 => node.apply(1).map(drop),
            5 => node.apply(usize::MAX).map(drop),
            6 => node.commit(),
            7 => node.send().map(drop),
            _ => node.commit().and_then(|()| node.apply(usize::MAX).map(drop)),
        };
        self.survive("log", result);
    }

    fn checkpoint_piece(&mut self) {
        let budget = self.chance.one_of(&[1, 100, 5_000, u64::MAX]);
        let Some(node) = &mut self.node else { return };
        if !node.is_checkpointing() {
            if node.owner().checkpoint_due() || self.chance.percent(30) {
                let began = node.begin_checkpoint();
                self.note(&format!("checkpoint begins: {began}"));
            }
            return;
        }
        let result = node.checkpoint_piece(budget);
        if self.survive("checkpoint", result) == Some(true) {
            self.note("checkpoint is done");
            self.compare();
        }
    }

    pub(super) fn prepare(&mut self) {
        if self.node.as_ref().is_some_and(|node| node.needs_segment(3)) {
            self.call("prepare", Node::prepare);
        }
    }

    fn witness(&mut self) {
        self.call("witness", Node::witness);
    }

    /// Time passes: to an edge, or a little, or long.
    fn pass_time(&mut self) {
        let now = self.clock.read().wall;
        let next = self.dues.range(now..).next().copied();
        match (self.chance.below(6), next) {
            (0..=2, Some(due)) => {
                let by = due.since(now).saturating_add(self.chance.below(3)).saturating_sub(1);
                self.clock.advance(by.min(20_000));
            }
            (3, _) => self.clock.advance_ns(300_000),
            (4, _) => self.clock.advance(self.chance.between(1, 300)),
            _ => self.clock.advance(self.chance.between(1, 12)),
        }
        let now = self.clock.read();
        self.note(&format!("it is {}", now.wall));
        if let Some(node) = &mut self.node {
            node.look(now);
        }
    }

    /// The machine will end within the next storage calls.
    fn stop_soon(&mut self) {
        let calls = self.chance.below(40);
        self.note(&format!("the machine will end in {calls} calls"));
        self.disk.storage().stop_after_calls(calls);
    }

    /// Something rare.
    fn trouble(&mut self) {
        match self.chance.below(6) {
            0 | 1 if self.plan.faults => self.fail_some_call(4),
            2 | 3 if self.plan.fills => {
                let free = self.chance.one_of(&[0, 1_000, 9_000, 30_000]);
                self.note(&format!("{free} bytes are free"));
                let used = self.disk.used_bytes();
                self.disk.storage().set_capacity(used.saturating_add(free));
            }
            2 | 3 => self.disk.storage().set_capacity(u64::MAX),
            4 if self.plan.clock_steps => {
                match self.chance.below(4) {
                    0 => self.clock.step_ahead(self.chance.one_of(&[1, 4_000, 20_000])),
                    1 | 2 => self.clock.step_back(self.chance.one_of(&[1, 500, 20_000])),
                    _ => self.let_the_clock_go(),
                }
                self.note(&format!("the wall clock shows {}", self.clock.read().wall));
            }
            _ => self.close(),
        }
    }

    /// The store is closed in order, and opened again.
    fn close(&mut self) {
        let settle = |node: &mut Node| node.commit().and_then(|()| node.apply(usize::MAX));
        if self.call("close", settle).is_none() {
            return;
        }
        self.collect();
        if self.close_node() && self.chance.percent(30) {
            self.verify();
        }
        self.crash();
    }
}
