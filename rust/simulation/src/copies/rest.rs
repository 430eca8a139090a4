//! The end of a history: all trouble is over.

use std::collections::BTreeSet;

use delaymq_core::replication::{Event, NodeId};

use super::Copies;
use super::host::Host;
use super::machine::Machine;

/// Turns of the end in which everything must come to rest.
const REST_TURNS: u64 = 600;
/// In so many of them, nodes look at the register and an operator at the nodes once.
const REST_LOOK_TURNS: u64 = 40;
/// The time that passes in each of them.
const REST_TICK_MS: u64 = 50;

impl<M: Machine> Copies<M> {
    /// All trouble ends: the group serves again, takes one more message, and its copies are equal.
    pub(super) fn come_to_rest(&mut self) {
        self.cut.clear();
        for place in 0..self.hosts.len() {
            let Some(host) = self.hosts.get_mut(place) else { continue };
            host.machine.heal();
            if !host.is_up() {
                host.start();
            }
            self.give(place, Event::Fit(true));
        }
        self.meet_again();
        let mut is_quiet = false;
        for turn in 0..REST_TURNS {
            self.rest_for_a_turn(turn < REST_TURNS / 2 && !is_quiet);
            let ids: BTreeSet<NodeId> = self.hosts.iter().map(|host| host.id).collect();
            let is_believed = self.register.is_of_group() && !self.hosts.iter().any(Host::awaits_confirmation);
            let is_whole = self.register.value().sync == ids && is_believed;
            let is_equal = is_whole && self.checker.are_equal(&self.hosts);
            is_quiet |= is_equal;
            if is_equal && self.checker.all_know(&self.hosts) && self.checker.is_sound() {
                self.checker.counts.rested += 1;
                let machines: Vec<&M> = self.hosts.iter().map(|host| &host.machine).collect();
                for words in M::compare(&machines) {
                    self.checker.blame(words);
                }
                return;
            }
        }
        let value = self.register.value();
        let ends: Vec<String> = self.hosts.iter().map(Host::summary).collect();
        self.checker.blame(format!("the group does not come to rest: {value:?}, {ends:?}"));
    }

    /// Everything that is under way comes to its end, in order.
    fn rest_for_a_turn(&mut self, has_load: bool) {
        self.turn += 1;
        for place in 0..self.hosts.len() {
            // A machine may have stopped in a call whose failure changed nothing, so that it ends only now.
            if let Some(host) = self.hosts.get_mut(place).filter(|host| !host.is_up()) {
                host.start();
            }
            self.pass(place, REST_TICK_MS);
            self.keep_promise(place);
            self.receive_parts(place);
            self.receive_files(place);
            self.sync(place);
        }
        self.empty_diverged();
        self.promote();
        if self.turn.is_multiple_of(REST_LOOK_TURNS) {
            self.hosts.iter().for_each(|host| self.register.read(host.id, host.life));
            self.confirm();
        }
        // Messages are published meanwhile, and come when the nodes have synced: a copy must join under load as well.
        if has_load && self.turn.is_multiple_of(2) {
            self.work();
        }
        for _ in 0..self.letters.len() {
            self.deliver(0);
        }
        self.answer_all();
    }
}
