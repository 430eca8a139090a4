//! Deliveries that their consumer has ended, on their way into the log: acknowledged, or moved on.
//! Whoever has the owner next proposes them, so that nobody who ends one waits for the owner.

use delaymq_core::record::retry::Destination;
use delaymq_core::store::{Delivery, Owner, Proposals, RetryTarget};
use delaymq_core::units::{ConsumerNumber, GroupNumber, Millis};

use crate::names::Subject;

/// A message that goes on as one of another subject.
#[derive(Debug)]
pub(crate) struct Moved {
    pub(crate) delivery: Delivery,
    pub(crate) due: Millis,
    pub(crate) target: Subject,
    /// Why it is dead, where it is.
    pub(crate) reason: Option<Box<str>>,
}

/// What one consumer has ended.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) group: GroupNumber,
    pub(crate) consumer: ConsumerNumber,
    /// Offsets that are acknowledged, ascending.
    pub(crate) acknowledged: Vec<u64>,
    /// In the order in which they were moved on.
    pub(crate) moved: Vec<Moved>,
}

impl Settled {
    /// Proposes all of it.
    pub(crate) fn propose(&self, proposals: &mut Proposals) {
        if !self.acknowledged.is_empty() {
            Owner::acknowledge(self.group, self.consumer, &self.acknowledged, proposals);
        }
        for Moved { delivery, due, target, reason } in &self.moved {
            let name = target.needs_fact.then_some(&*target.name);
            let destination = match reason {
                None => Destination::Again,
                Some(reason) => Destination::DeadLetter { reason },
            };
            let to = RetryTarget { subject: target.number, name, destination };
            Owner::retry(self.group, self.consumer, delivery, *due, to, proposals);
        }
    }

    /// The subjects whose facts go along.
    pub(crate) fn new_subjects(&self) -> impl Iterator<Item = &Subject> {
        self.moved.iter().map(|moved| &moved.target).filter(|target| target.needs_fact)
    }
}
