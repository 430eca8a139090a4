//! Requests to the register, and their answers on the way to the nodes.

use delaymq_core::replication::Event;

use super::Copies;
use super::machine::Machine;
use super::register::Answer;

impl<M: Machine> Copies<M> {
    pub(super) fn ask_register(&mut self, trouble_percent: u64) {
        let before = self.register.value().clone();
        let Some((by, life, answer)) = self.register.work(&mut self.chance, trouble_percent) else { return };
        if *self.register.value() != before {
            let value = self.register.value().clone();
            self.note(|| {
                format!(
                    "the register holds epoch {} of {} with {:?}",
                    value.epoch,
                    value.primary.0[7],
                    value.sync.iter().map(|id| id.0[7]).collect::<Vec<_>>()
                )
            });
            self.checker.registered(&before, &value);
            let goes_on = before.made_for != value.made_for && self.register.is_of_group();
            self.checker.counts.confirmed += u64::from(goes_on);
            self.accept_loss(&before, &value);
            self.judge();
        }
        self.answers.push((by, life, answer));
    }

    /// Brings one answer of the register to its node. An answer may wait while others are carried out.
    pub(super) fn hear_register(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let place = usize::try_from(self.chance.below(self.answers.len() as u64)).unwrap_or(0);
        let (by, life, answer) = self.answers.swap_remove(place);
        let Some(place) = self.hosts.iter().position(|host| host.id == by && host.life == life && host.is_up()) else {
            return;
        };
        self.give(
            place,
            match answer {
                Answer::Read(reading) => Event::Read(reading),
                Answer::Swapped(expected, answer) => Event::Swapped(expected, answer),
            },
        );
    }

    /// A watch of the register tells a node what it holds, without a question.
    pub(super) fn tell_of_register(&mut self) {
        let place = self.pick_host();
        if let Some(host) = self.hosts.get(place).filter(|host| host.is_up()) {
            self.register.read(host.id, host.life);
        }
    }

    /// The register answers everything that it was asked.
    pub(super) fn answer_all(&mut self) {
        while !self.register.is_idle() || !self.answers.is_empty() {
            self.ask_register(0);
            self.hear_register();
        }
    }
}
