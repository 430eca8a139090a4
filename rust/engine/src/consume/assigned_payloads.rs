//! Reading the payloads of the messages that were assigned to a subscription.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use delaymq_core::error::{Error, Result};
use delaymq_core::schedule_log::Entry;
use delaymq_core::store::Receipt;
use delaymq_core::units::{DueKey, SegmentNumber, SubjectNumber};

use crate::consume::delivery::{Delivered, DeliveryKey};
use crate::consume::expiring::ExpiredDelivery;
use crate::consume::member::Unread;
use crate::consume::queues::place_of;
use crate::consume::subscription::Subscription;
use crate::files::payload_reader::Stored;
use crate::names::Subject;
use crate::shared::Shared;
use crate::store::Store;

impl Shared {
    /// A message for a consumer: which attempt it is, and whether the group may have received it before. Most belong to
    /// the subject `consumed`.
    pub(crate) fn delivered(
        &self,
        key: DeliveryKey,
        entry: &Entry,
        (attempt, redelivered): (u32, bool),
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
            // A dead letter that nobody received counts no deliveries.
            attempt: attempt.max(1),
            redelivered,
            subject: if is_of_consumed { Arc::clone(&consumed.name) } else { self.names.name_of(stored.subject) },
            subject_number: stored.subject,
            payload: stored.payload,
        }
    }
}

impl Subscription {
    /// Reads assigned messages. A damaged one is voided by a durable fact, one that has expired is finished by another,
    /// one that does not pass the filters is finished for the group, and the next takes its place. With `near`, reading stops at everything that may have to wait: a payload before
    /// that segment or in another file, or one that cannot be read. It also stops with the payload that fills
    /// `bytes_max`.
    pub(crate) fn read_assigned(
        &self,
        count_max: usize,
        bytes_max: usize,
        near: Option<SegmentNumber>,
    ) -> Result<Vec<Delivered>> {
        loop {
            let mut unread = self.member.take_unread(count_max);
            let taken = unread.queue.len();
            let read = self.read_unread(&mut unread, bytes_max, near);
            let passed = taken.saturating_sub(unread.queue.len());
            self.member.unread_again(unread);
            match read {
                // Nothing of what was read is handed over, so there is less each time.
                Ok(delivered) if delivered.is_empty() && passed > 0 => {}
                read => return read,
            }
        }
    }

    /// Reads from the front of `unread`. Messages that are handed over, voided or finished are removed from it.
    fn read_unread(
        &self,
        unread: &mut Unread,
        bytes_max: usize,
        near: Option<SegmentNumber>,
    ) -> Result<Vec<Delivered>> {
        let (mut delivered, mut bytes) = (Vec::with_capacity(unread.count_max), 0_usize);
        let (mut expired, mut passed_over, mut judged) = (Vec::new(), Vec::new(), 0_usize);
        let mut deliveries = Vec::with_capacity(unread.count_max);
        let (filters, places) = (&self.member.filters, self.member.places());
        let mut payloads = self.shared.payloads.reader();
        let takes_expired = self.takes_expired.load(Ordering::Relaxed);
        let mut failed = Ok(());
        while bytes < bytes_max
            && delivered.len() < unread.count_max
            && let Some((queue, delivery)) = unread.queue.front()
        {
            let key = DeliveryKey { queue: *queue, offset: delivery.offset.0 };
            let entry = &delivery.entry;
            let Some(place) = places.get(place_of(*queue)) else { break };
            if near.is_some_and(|near| entry.location().segment().is_none_or(|segment| segment < near)) {
                break;
            }
            match self.shared.read_whole(&mut payloads, entry, near.is_none()) {
                // A message that the group does not want is none of its dead letters when it expires.
                Ok(stored) if !stored.payload.may_pass(filters) => {
                    judged = judged.saturating_add(1);
                    passed_over.push(key);
                }
                Ok(stored) if !takes_expired && self.shared.has_expired(&stored, &place.subject) => {
                    if near.is_some() {
                        break;
                    }
                    expired.push((*queue, ExpiredDelivery::of(*delivery, &stored)));
                }
                Ok(stored) => {
                    judged = judged.saturating_add(1);
                    bytes = bytes.saturating_add(stored.payload.all().len());
                    delivered.push(self.shared.delivered(
                        key,
                        entry,
                        (delivery.attempt, delivery.is_redelivered()),
                        stored,
                        &place.subject,
                    ));
                    deliveries.push((key, *delivery));
                }
                Err(_) if near.is_some() => break,
                Err(error @ Error::DamagedPayload { .. }) => failed = self.shared.void_ready(delivery, &error),
                Err(error) => failed = Err(error),
            }
            if failed.is_err() {
                break;
            }
            unread.queue.pop_front();
        }
        if judged > 0 && !filters.is_empty() {
            self.noted(self.member.pass_over(judged, &passed_over));
        }
        let finished = self.finish_expired(&expired);
        failed = failed.and(finished);
        self.member.hand_over(deliveries);
        self.begin_holds(delivered.iter().map(|one| one.key));
        self.shared.metrics.delivered.add(delivered.len() as u64);
        if delivered.is_empty() { failed.map(|()| delivered) } else { Ok(delivered) }
    }

    /// The receipt that a message was published with, from a delivery: its sequence, its first due time, its subject
    /// and the bytes of its body.
    ///
    /// # Errors
    /// `ForkedProcess`; `Closed` if no receipts were given out yet.
    pub fn receipt_of(&self, key: DueKey, subject: &str, size: u32) -> Result<Receipt> {
        self.shared.guard.check()?;
        let number = self.shared.names.subject(subject)?.number;
        self.shared.receipt(key, number, size)
    }
}

impl Store {
    /// The receipt that this message was published with. No name is looked up for it.
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
    pub(crate) fn receipt(&self, key: DueKey, subject: SubjectNumber, size: u32) -> Result<Receipt> {
        let receipt = self.receipts.get().and_then(|book| book.receipt_of(key, subject, size));
        receipt.ok_or(Error::Closed)
    }
}
