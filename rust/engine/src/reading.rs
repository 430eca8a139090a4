//! Reading the payloads of what a subscription was assigned.

use std::sync::Arc;

use delaymq_core::error::{Error, Result};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, SegmentNumber, SubjectNumber};

use crate::delivery::{Delivered, DeliveryKey};
use crate::names::Subject;
use crate::payloads::Stored;
use crate::shared::Shared;
use crate::store::Store;
use crate::subscription::Subscription;

impl Shared {
    /// A message as it is handed over, mostly one of the subject `consumed`.
    pub(crate) fn delivered(
        &self,
        key: DeliveryKey,
        entry: &Entry,
        attempt: u32,
        stored: Stored,
        consumed: &Subject,
    ) -> Delivered {
        let is_of_consumed = stored.subject == consumed.number;
        Delivered {
            key,
            sequence: entry.payload_sequence(),
            due: entry.due(),
            first_due: stored.due,
            published: stored.published,
            attempt,
            redelivered: attempt >= 2,
            subject: if is_of_consumed { Arc::clone(&consumed.name) } else { self.names.name_of(stored.subject) },
            subject_number: stored.subject,
            payload: stored.payload,
        }
    }
}

impl Subscription {
    /// Reads what was assigned. What is damaged is given up, by a durable fact, and the next one
    /// takes its place. With `near` it stops at whatever may have to wait: a payload before that
    /// segment or elsewhere, and anything that cannot be read. It stops, too, with the payload that
    /// fills `bytes_max`.
    pub(crate) fn read_assigned(
        &self,
        count_max: usize,
        bytes_max: usize,
        near: Option<SegmentNumber>,
    ) -> Result<Vec<Delivered>> {
        let mut delivered = Vec::new();
        let mut bytes = 0_usize;
        let mut deliveries = Vec::new();
        while delivered.len() < count_max
            && bytes < bytes_max
            && let Some((queue, delivery)) = self.member.next_unread()
        {
            let entry = &delivery.entry;
            if near.is_some_and(|near| entry.location().segment().is_none_or(|segment| segment < near)) {
                self.member.unread_again(queue, delivery);
                break;
            }
            match self.shared.payloads.read(entry.location(), entry.payload_sequence()) {
                Ok(stored) => {
                    bytes = bytes.saturating_add(stored.payload.all().len());
                    let key = DeliveryKey { queue, offset: delivery.offset.0 };
                    let subject = &self.member.subject;
                    delivered.push(self.shared.delivered(key, entry, delivery.attempt, stored, subject));
                    deliveries.push((key, delivery));
                }
                Err(_) if near.is_some() => {
                    self.member.unread_again(queue, delivery);
                    break;
                }
                Err(error @ Error::DamagedPayload { .. }) => self.shared.give_up(&delivery, &error)?,
                Err(error) => {
                    self.member.unread_again(queue, delivery);
                    if delivered.is_empty() {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        self.member.hand_over(deliveries);
        self.shared.metrics.delivered.add(delivered.len() as u64);
        Ok(delivered)
    }

    /// The receipt that a message was published with, from what was delivered: its sequence, its first
    /// due time, its subject and the bytes of its body.
    ///
    /// # Errors
    /// `ForkedProcess`; `Closed` where no receipts were given out yet.
    pub fn receipt_of(&self, key: DueKey, subject: &str, size: u32) -> Result<Receipt> {
        self.shared.guard.check()?;
        let number = self.shared.names.subject(subject)?.number;
        self.shared.receipt(key, number, size)
    }
}

impl Store {
    /// The receipt that this message was published with. Nothing is looked up for it by a name.
    ///
    /// # Errors
    /// As [`Subscription::receipt_of`].
    pub fn receipt(&self, message: &Delivered) -> Result<Receipt> {
        self.shared.guard.check()?;
        let key = DueKey { due: message.first_due, sequence: message.sequence };
        let size = u32::try_from(message.body().len()).unwrap_or(u32::MAX);
        self.shared.receipt(key, message.subject_number, size)
    }
}

impl Shared {
    fn receipt(&self, key: DueKey, subject: SubjectNumber, size: u32) -> Result<Receipt> {
        let receipt = self.receipts.get().and_then(|book| book.receipt_of(key, subject, size));
        receipt.ok_or(Error::Closed)
    }
}
