//! What a subscription does with messages whose bytes are damaged: each is given up by a durable
//! fact and said aloud, and all others flow.

use delaymq_core::error::{Error, Result};
use delaymq_core::store::Delivery;
use delaymq_core::units::{ReadyNumber, SubjectNumber};

use crate::driver::Seat;
use crate::inbox::Haste;
use crate::report::Report;
use crate::subscription::Subscription;

impl Subscription {
    pub(crate) fn report_damage(&self, subject: SubjectNumber, error: &Error, damaged: usize, lost: &[ReadyNumber]) {
        let shared = &self.shared;
        let found = damaged.saturating_sub(lost.len());
        let path = if let Error::Corrupt { path, .. } = error { path.clone() } else { String::new() };
        let reason = format!("{error}; {found} ready messages found again in the log");
        shared.reports.add(Report::RunDamaged { path, reason: reason.clone() });
        shared.metrics.voided.add(lost.len() as u64);
        let subject = shared.names.name_of(subject).to_string();
        for number in lost {
            shared.reports.add(Report::VoidedReady {
                subject: subject.clone(),
                number: *number,
                reason: reason.clone(),
            });
        }
    }

    pub(crate) fn give_up(&self, delivery: &Delivery, error: &Error) -> Result<()> {
        let subject = delivery.entry.subject();
        let mut guard = self.shared.seat()?;
        let seat = guard.get()?;
        let Seat { owner, proposals, .. } = seat;
        owner.void_ready(subject, delivery.number, proposals);
        self.shared.send(seat, Haste::URGENT)?;
        drop(guard);
        self.shared.committer.raise();
        self.shared.metrics.voided.add(1);
        self.shared.reports.add(Report::Voided {
            subject: self.shared.names.name_of(subject).to_string(),
            sequence: delivery.entry.payload_sequence(),
            reason: error.to_string(),
        });
        Ok(())
    }
}
