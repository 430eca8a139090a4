//! A node that leads compares the wall clocks of all nodes.

use super::clocks::{Measured, certain_ms, is_apart, of_group};
use super::members::Member;
use super::register::NodeId;
use super::state::Node;
use crate::units::{Epoch, Millis};

impl Node {
    /// A node has answered a heartbeat with its wall clock.
    pub(super) fn measure_clock(&mut self, node: NodeId, exchange: (Epoch, u64), (beat, wall): (u64, Millis)) {
        let now_ms = self.now_ms;
        let Some(measured) = Measured::between(beat, now_ms, wall).filter(|_| beat > 0 && wall > Millis(0)) else {
            return;
        };
        let Some(member) = self.primary().and_then(|primary| primary.member(node, exchange)) else { return };
        member.clock = Some(member.clock.map_or(measured, |known| known.or_later(measured)));
    }

    /// How far the clock of a copy is ahead of that of this node.
    pub(super) fn clock_offset_ms(&self, member: &Member) -> Option<i64> {
        let clock = member.clock?.still(self.now_ms)?;
        self.clock.measured(self.now_ms).map(|own| clock.ahead_of(own))
    }

    /// Compares the clocks of all nodes that answer.
    pub(super) fn compare_clocks(&mut self) {
        let now_ms = self.now_ms;
        let Some(own) = self.clock.measured(now_ms) else { return };
        let Some(primary) = self.primary() else { return };
        let known = |member: &Member| member.clock.and_then(|clock| clock.still(now_ms));
        let others: Vec<Measured> = primary.members.values().filter_map(known).collect();
        if others.is_empty() {
            return;
        }
        let clocks: Vec<Measured> = [own].into_iter().chain(others).collect();
        let Some(group) = of_group(&clocks) else { return };
        for member in primary.members.values_mut() {
            // A node that was not measured lately keeps what it knows of its clock.
            member.clock_ahead_ms = known(member).map(|clock| certain_ms(clock, group));
            let is_apart = |ahead_ms| is_apart(member.is_clock_apart, ahead_ms);
            member.is_clock_apart = member.clock_ahead_ms.is_some_and(is_apart);
        }
        self.clock.compare(certain_ms(own, group));
    }
}
