//! Extreme loads, and disks and clocks with extreme faults.

use delaymq_core::clock::{Hold, STEP_TOLD_MS_MIN};
use delaymq_core::storage::{CALLS, Call, ERRNOS, Errno};

use super::World;
use super::asked::{Ask, Assigned};
use crate::node::{Due, NewMessage, Node};

/// Rounds of a burst, of five messages each.
const BURST_ROUNDS: usize = 6;
/// An hour, a day, ten years, in milliseconds.
const WRONG_BY_MS: [u64; 3] = [3_600_000, 86_400_000, 315_360_000_000];

impl World {
    /// One extreme operation.
    pub(super) fn be_wild(&mut self) {
        match self.chance.below(8) {
            0 | 1 => self.burst(),
            2..=4 => self.race(),
            5 => self.for_some_consumer(Self::repeat_itself),
            6 => self.for_some_consumer(Self::die_and_come_back),
            _ => self.odd_clock(),
        }
    }

    /// Many messages of one millisecond, at an edge of the window or now.
    fn burst(&mut self) {
        let ahead = self.chance.one_of(&[0, 1, 3, self.plan.node.owner.window_ms]);
        let due = self.node.as_ref().map(|node| node.reading().now.plus(ahead));
        let Some(due) = due else { return };
        self.note(&format!("a burst at {due}"));
        for _ in 0..BURST_ROUNDS {
            self.publish_at(due);
        }
    }

    fn publish_at(&mut self, due: delaymq_core::units::Millis) {
        let subject = self.some_subject();
        let bodies: Vec<Vec<u8>> = (0..5).map(|_| self.short_body()).collect();
        let new: Vec<NewMessage<'_>> = bodies
            .iter()
            .map(|body| NewMessage { subject: &subject, due: Due::At(due), body, expires: None, meta: b"" })
            .collect();
        match self.call("publish", |node| node.publish(&new)) {
            Some(Some(published)) => self.was_published(&published, &bodies, vec![None; bodies.len()]),
            Some(None) => {
                self.log_piece();
                self.prepare();
            }
            None => {}
        }
    }

    /// A cancel or a move and the dispatch of the same message, in one moment and in either order.
    fn race(&mut self) {
        let now = self.clock.read().wall;
        if let Some(due) = self.dues.range(now..).next().copied() {
            self.clock.advance(due.since(now).min(20_000));
        }
        let node_sees = self.clock.read();
        if let Some(node) = &mut self.node {
            node.look(node_sees);
        }
        for _ in 0..self.chance.between(1, 3) {
            if self.chance.percent(50) {
                self.change_one();
                self.step();
            } else {
                self.step();
                self.change_one();
            }
        }
        if self.chance.percent(50) {
            self.for_some_consumer(|world, index| world.pull(index, 3));
        }
    }

    /// A consumer repeats an acknowledgement.
    fn repeat_itself(&mut self, index: usize) {
        let said: Vec<Assigned> =
            self.assigned.values().filter(|one| one.handle == index && one.is_done).cloned().collect();
        let Some(one) = self.chance.pick(&said).cloned() else { return };
        let offset = one.delivery.offset.0;
        self.note(&format!("{} {} acknowledges {offset} again", one.group, one.consumer));
        for _ in 0..2 {
            let ask = self.ask(Ask::Nothing);
            let again = |node: &mut Node| node.acknowledge(one.group, one.consumer, &[offset], ask);
            if self.call("acknowledge again", again).is_none() {
                return;
            }
        }
    }

    /// A consumer ends and begins again at once under its name.
    fn die_and_come_back(&mut self, index: usize) {
        self.pull(index, 2);
        self.end_consumer(index);
        self.subscribe(index);
        if self.chance.percent(50) {
            self.settle();
            self.subscribe(index);
            self.pull(index, 2);
        }
    }

    /// The process stands still for minutes, or the clock is corrected.
    fn odd_clock(&mut self) {
        if self.plan.pauses && self.chance.percent(50) {
            self.clock.advance(self.chance.between(60_000, 900_000));
        } else {
            self.clock.correct();
        }
        self.note(&format!("the wall clock shows {}", self.clock.read().wall));
    }

    /// An operator looks at the clock and accepts the step that holds dispatch. The clock may step in between: then the
    /// step that was seen is not the one that holds dispatch, and nothing may change. A clock behind the log is put
    /// right by the kernel.
    pub(super) fn let_the_clock_go(&mut self) {
        let now = self.clock.read();
        let Some(node) = &mut self.node else { return };
        node.look(now);
        let Some(seen) = node.clock().held else { return };
        let (Ok(seen_ms), Hold::SteppedAhead { .. }) = (u64::try_from(seen.ahead_ms), seen.hold) else {
            return node.release_clock();
        };
        let stepped_ms = self.chance.one_of(&[0, 0, 999, 1_000, 20_000]);
        self.clock.step_ahead(stepped_ms);
        let now = self.clock.read();
        let before = node.look(now);
        let accepted = node.accept_clock(seen_ms);
        let after = node.reading();
        let is_the_same = stepped_ms < STEP_TOLD_MS_MIN;
        // The setting may have accepted the step at that very look.
        let goes_ahead = before.held && is_the_same;
        if accepted.is_ok() != goes_ahead || (!goes_ahead && after != before) || (goes_ahead && after.held) {
            let (from, to) = (before.now, after.now);
            self.oracle.blame(format!(
                "early: an operator saw a step of {seen_ms} ms; after a further one of {stepped_ms} ms the clock went from \
                 {from} to {to}: {accepted:?}"
            ));
        }
        self.note(&format!("an operator accepts a step of {seen_ms} ms: {accepted:?}"));
    }

    /// The machine starts with a wrong wall clock.
    pub(super) fn boot_with_a_wrong_clock(&mut self) {
        let by_ms = self.chance.one_of(&WRONG_BY_MS);
        if self.chance.percent(60) {
            self.clock.step_back(by_ms);
        } else {
            self.clock.step_ahead(by_ms.min(86_400_000));
        }
        self.note(&format!("the machine starts, and its wall clock shows {}", self.clock.read().wall));
    }

    /// A storage call of some kind will fail, once or permanently.
    pub(super) fn fail_some_call(&mut self, calls_max: u64) {
        let call = self.chance.pick(&CALLS).copied().unwrap_or(Call::Sync);
        let errno = self.chance.pick(&ERRNOS).copied().unwrap_or(Errno::Io);
        let lasts = self.chance.percent(self.plan.lasting_percent);
        let calls = self.chance.below(calls_max);
        self.note(&format!("{call:?} will fail after {calls}, {errno:?}, for ever: {lasts}"));
        self.disk.storage().fail_call_as(call, calls, errno, lasts);
    }
}
