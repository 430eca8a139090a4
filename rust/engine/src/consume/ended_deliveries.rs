//! Deliveries that their consumer has acknowledged or moved to another subject, on their way into the log. The next
//! thread that has the owner lock proposes them, so that a consumer never waits for the owner.

use delaymq_core::record::retry::{Death, Destination};
use delaymq_core::store::{Delivery, Owner, Proposals, RetryTarget};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis};

use crate::names::Subject;

/// A message that moves to another subject.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) delivery: Delivery,
    pub(crate) due: Millis,
    pub(crate) target: Subject,
    /// Why it is a dead letter; `None` for a retry.
    pub(crate) death: Option<Death>,
}

/// The deliveries that one consumer has ended.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) group: GroupNumber,
    pub(crate) consumer: ConsumerNumber,
    /// Offsets that are acknowledged, ascending.
    pub(crate) acknowledged: Vec<u64>,
    /// Offsets of messages that the filters did not let pass, ascending.
    pub(crate) filtered: Vec<u64>,
    /// In the order in which they were moved.
    pub(crate) moved: Vec<Moved>,
}

impl Settled {
    /// Proposes all of it.
    pub(crate) fn propose(&self, proposals: &mut Proposals) {
        if !self.acknowledged.is_empty() {
            Owner::acknowledge(self.group, self.consumer, &self.acknowledged, proposals);
        }
        if !self.filtered.is_empty() {
            Owner::finish_filtered(self.group, self.consumer, &self.filtered, proposals);
        }
        for Moved { delivery, due, target, death } in &self.moved {
            let name = target.needs_fact.then_some(&*target.name);
            let destination = death.as_ref().map_or(Destination::Again, Death::destination);
            let to = RetryTarget { subject: target.number, name, destination };
            Owner::retry(self.group, self.consumer, delivery, *due, to, proposals);
        }
    }

    /// The new subjects, whose facts must go along.
    pub(crate) fn new_subjects(&self) -> impl Iterator<Item = &Subject> {
        self.moved.iter().map(|moved| &moved.target).filter(|target| target.needs_fact)
    }
}
